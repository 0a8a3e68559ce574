#include "compiler/Machine/Targets/TargetAttr.h"
#include "passes/lower/LowerPasses.h"
#include "passes/lower/OpEmitter.h"
#include "passes/moe/Support.h"

namespace mlir::plan {
#define GEN_PASS_DEF_LOWERTOPLANPASS
#include "passes/lower/LowerPasses.h.inc"
} // namespace mlir::plan

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Reads the module's facts; the first one missing is reported.
class Facts {
public:
  explicit Facts(ModuleOp module)
      : module(module),
        dictionary(module->getAttrOfType<DictionaryAttr>(kModelAttr)) {}

  StringRef text(StringRef name) {
    auto attr = find<StringAttr>(name);
    return attr ? attr.getValue() : StringRef();
  }
  int64_t number(StringRef name) {
    auto attr = find<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  }
  /// The context that suits the model; null if it does not say.
  IntegerAttr trainedContext() {
    auto attr = dictionary.getAs<IntegerAttr>("context_length");
    return attr ? Builder(module.getContext()).getI32IntegerAttr(attr.getInt())
                : IntegerAttr();
  }
  /// The layers of @draft; null without any.
  IntegerAttr mtpLayers() {
    auto attr = dictionary ? dictionary.getAs<IntegerAttr>("mtp_layers")
                           : IntegerAttr();
    return attr && attr.getInt() > 0
               ? Builder(module.getContext()).getI32IntegerAttr(attr.getInt())
               : IntegerAttr();
  }
  /// How the model embeds texts; null if it does not say.
  StringAttr pooling() {
    auto attr =
        dictionary ? dictionary.getAs<StringAttr>("pooling") : StringAttr();
    return attr && !attr.empty() ? attr : StringAttr();
  }
  /// The outputs of the classifier that @logits ends in; null without one.
  ArrayAttr labels() {
    auto attr =
        dictionary ? dictionary.getAs<ArrayAttr>("labels") : ArrayAttr();
    return attr && !attr.empty() ? attr : ArrayAttr();
  }
  LogicalResult result() const { return failure(failed); }

private:
  template <typename AttrT> AttrT find(StringRef name) {
    auto attr = dictionary ? dictionary.getAs<AttrT>(name) : AttrT();
    if (!attr && !failed) {
      module.emitError() << "expected '" << name << "' in " << kModelAttr;
      failed = true;
    }
    return attr;
  }

  ModuleOp module;
  DictionaryAttr dictionary;
  bool failed = false;
};

struct LowerToPlan : plan::impl::LowerToPlanPassBase<LowerToPlan> {
  using LowerToPlanPassBase::LowerToPlanPassBase;

  void runOnOperation() override {
    if (failed(lowerModule(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult lowerModule(ModuleOp module) {
    FailureOr<moec::TargetDesc> target = moec::targetOf(module);
    if (mlir::failed(target))
      return failure();
    auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
    if (functions.empty())
      return module.emitError("expected functions with a phase, found none");
    int64_t context = 0, sequences = 1;
    for (func::FuncOp function : functions) {
      PhaseAttr phase = phaseOf(function);
      if (!phase)
        return function.emitError() << "expected " << kPhaseAttr
                                    << "; run moe-specialize-phases first";
      context = std::max(context, phase.getContextLength());
      sequences = std::max(sequences, phase.getSequences());
    }
    auto files = module->getAttrOfType<ArrayAttr>(kFilesAttr);
    if (!files)
      return module.emitError() << "expected " << kFilesAttr;

    FailureOr<plan::ProgramOp> program =
        createProgram(module, target->name, context, sequences);
    if (mlir::failed(program))
      return failure();
    PlanTables tables(*program, *target, files, kvRowsOf(module, context),
                      stateRowsOf(sequences));
    for (func::FuncOp function : functions)
      if (mlir::failed(lowerFunction(function, tables)))
        return failure();
    addNotes(module, tables.builder());
    tables.sort();
    for (func::FuncOp function : functions)
      function.erase();
    for (WeightOp weight :
         llvm::make_early_inc_range(module.getOps<WeightOp>()))
      weight.erase();
    // The target stays, and what placement predicted: plan-overhead asks them.
    for (StringRef name :
         {kModelAttr, kFilesAttr, kNotesAttr, kKvRowsAttr})
      module->removeAttr(name);
    return success();
  }

  FailureOr<plan::ProgramOp> createProgram(ModuleOp module, StringRef target,
                                           int64_t context, int64_t sequences) {
    Facts facts(module);
    StringRef architecture = facts.text("architecture");
    StringRef name = facts.text("name"), hash = facts.text("hash");
    StringAttr pooling = facts.pooling();
    int64_t hidden = facts.number("hidden"), vocab = facts.number("vocab");
    int64_t layers = facts.number("layers"), experts = facts.number("experts");
    int64_t expertsUsed = facts.number("experts_used");
    int64_t parameters = facts.number("parameters");
    if (mlir::failed(facts.result()))
      return failure();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto program = builder.create<plan::ProgramOp>(
        module.getLoc(), "moec " MOEC_VERSION, target, architecture, name, hash,
        hidden, vocab, layers, context, experts, expertsUsed, userOptions,
        parameters, facts.trainedContext(), facts.mtpLayers(), pooling,
        facts.labels(),
        sequences > 1 ? builder.getI32IntegerAttr(sequences) : IntegerAttr(),
        /*nvrtc=*/StringAttr());
    program.getBody().emplaceBlock();
    return program;
  }

  /// Records that the current op's gemm weights are not kept in the memory of
  /// its device, but streamed in this mode.
  void addStreamed(ArrayRef<SelectedInstruction> selected,
                   plan::ResidencyMode mode, PhaseEmitter &emitter) {
    for (const SelectedInstruction &each : selected)
      for (Value weight : each.instruction.gemmWeights())
        if (Value entry = emitter.weight(weight, each.layoutOf(weight)))
          emitter.tables().builder().create<plan::ResidentOp>(
              weight.getLoc(), entry, emitter.device(), mode);
  }

  LogicalResult lowerOp(LowerableOpInterface op, PhaseEmitter &emitter) {
    TypicalStep typical = typicalStep(phaseOf(op));
    auto name = op->getAttrOfType<StringAttr>(kDeviceAttr);
    const moec::DeviceDesc *device =
        name ? emitter.tables().target().find(name.strref()) : nullptr;
    Execution execution{typical.tokens, typical.cached};
    if (device)
      (device->kind == moec::DeviceKind::Cpu ? execution.cores
                                             : execution.multiprocessors) =
          device->cores;
    Instructions instructions = op.getInstructions(execution);
    auto selected = selectedInstructions(op, instructions);
    if (mlir::failed(selected) || mlir::failed(emitter.begin(op, *selected)) ||
        mlir::failed(OpEmitter(op, instructions, emitter).emit(*selected)))
      return failure();
    if (op->hasAttr(kStreamedAttr))
      addStreamed(*selected,
                  op->hasAttr(kPinnedAttr) ? plan::ResidencyMode::Pinned
                                           : plan::ResidencyMode::Streamed,
                  emitter);
    return success();
  }

  LogicalResult lowerFunction(func::FuncOp function, PlanTables &tables) {
    PhaseEmitter emitter(tables, function.getLoc(), phaseOf(function));
    Block &block = function.getBody().front();
    auto terminator = cast<func::ReturnOp>(block.getTerminator());
    const bool readsBoth = has(phaseOf(function).getKind(),
                               moert::kReadsTokens | moert::kReadsHidden);
    if (block.getNumArguments() != (readsBoth ? 2 : 1) ||
        terminator.getNumOperands() != 1)
      return function.emitError("expected ")
             << (readsBoth ? "two arguments" : "one argument")
             << " and one result of a phase";
    // Steps come from and go to the host.
    FailureOr<Value> host =
        tables.device(function, tables.target().host().name);
    if (mlir::failed(host))
      return failure();
    SmallVector<Value> inputs;
    for (BlockArgument argument : block.getArguments()) {
      auto type = cast<RankedTensorType>(argument.getType());
      inputs.push_back(emitter.buffer(
          inputs.empty() ? "input" : "hidden",
          type.getElementType().isF32() ? plan::Encoding::F32
                                        : plan::Encoding::I32,
          type.getRank() == 1 ? 1 : type.getShape().back(), 1, 0, *host));
      emitter.set(argument, inputs.back());
    }

    // Weights are lowered where they are used.
    for (Operation &op : block.without_terminator())
      if (auto lowerable = dyn_cast<LowerableOpInterface>(op);
          lowerable && mlir::failed(lowerOp(lowerable, emitter)))
        return failure();
    return emitter.end(inputs, emitter.get(terminator.getOperand(0)));
  }

  void addNotes(ModuleOp module, OpBuilder &builder) {
    if (auto notes = module->getAttrOfType<ArrayAttr>(kNotesAttr))
      for (StringAttr note : notes.getAsRange<StringAttr>())
        builder.create<plan::NoteOp>(module.getLoc(), note);
  }
};

} // namespace
