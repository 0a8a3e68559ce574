#include "passes/lower/PhaseEmitter.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/OpSeconds.h"

using namespace mlir;
using namespace mlir::moe;
using moek::OpCode;

static StringRef ref(std::string_view text) {
  return {text.data(), text.size()};
}

PhaseEmitter::PhaseEmitter(PlanTables &tables, Location loc, PhaseAttr attr)
    : tables_(tables), attr_(attr),
      phase_(tables.builder().create<plan::PhaseOp>(
          loc, attr.getName().getValue(), attr.getMinTokens(),
          attr.getMaxTokens())),
      builder_(OpBuilder::atBlockEnd(&phase_.getBody().emplaceBlock())),
      loc_(loc) {}

/// Names the kernels that read weights or, without any, the drivers.
static std::string kernelNames(ArrayRef<SelectedInstruction> selected) {
  llvm::SetVector<StringRef> gemms, drivers;
  for (const SelectedInstruction &each : selected) {
    const Instruction &instruction = each.instruction;
    // A kernel that encodes activations itself does more than call its gemms.
    if (!each.gemms.empty() && !instruction.activation())
      gemms.insert(ref(each.driver->name));
    for (const moek::GemmInfo *gemm : each.gemms)
      gemms.insert(ref(gemm->name));
    if (instruction.op != OpCode::Quantize &&
        instruction.op != OpCode::RopeTable)
      drivers.insert(ref(each.driver->name));
  }
  return llvm::join(gemms.empty() ? drivers : gemms, "+");
}

/// The rejected alternatives as the plan records them; null if there are none.
static ArrayAttr rejectedOf(Operation *op) {
  auto list = op->getAttrOfType<ArrayAttr>(kRejectedAttr);
  if (!list)
    return {};
  Builder builder(op->getContext());
  return builder.getArrayAttr(llvm::map_to_vector(
      list.getAsRange<RejectedAttr>(), [&](RejectedAttr r) -> Attribute {
        return plan::RejectedAttr::get(
            op->getContext(),
            builder.getStringAttr(stringifyAlternative(r.getKind())),
            r.getName(), r.getOf(), builder.getF64FloatAttr(r.getSeconds()),
            r.getChosen(), builder.getF64FloatAttr(r.getChosenSeconds()),
            r.getReason());
      }));
}

/// Predicts the seconds of an op's instructions. Those of a Quantize are not
/// the op's: other ops share what it encodes.
static double selectedSeconds(ArrayRef<SelectedInstruction> selected,
                              const moec::Situation &situation,
                              const moec::DeviceDesc &device) {
  double seconds = 0;
  for (const SelectedInstruction &each : selected)
    if (each.instruction.op != OpCode::Quantize)
      seconds += moec::instructionSeconds(
          each.instruction.op, each.instruction.work, {each.driver, each.gemms},
          situation, device);
  return seconds;
}

LogicalResult PhaseEmitter::begin(Operation *op,
                                  ArrayRef<SelectedInstruction> selected) {
  auto name = op->getAttrOfType<StringAttr>(kDeviceAttr);
  if (!name)
    return op->emitError() << "expected " << kDeviceAttr
                           << "; run moe-place-devices first";
  FailureOr<Value> device = tables_.device(op, name);
  if (failed(device))
    return failure();
  device_ = *device;
  loc_ = op->getLoc();
  label_ = labelOf(op);
  isLate_ = op->hasAttr(kDeferredAttr);

  // The bytes of all weights that the phase reads on a device are added up
  // once.
  const moec::DeviceDesc &desc = *tables_.target().find(name.strref());
  auto [known, isNew] = situations_.try_emplace(name);
  if (isNew)
    known->second = situationOf(op->getParentOfType<func::FuncOp>(),
                                typicalStep(attr_), desc);
  situation_ = known->second;

  plan::ExplainOp entry =
      explain(op, selected, attr_.getName(), typicalStep(attr_));
  if (ArrayAttr rejected = rejectedOf(op))
    entry.setRejectedAttr(rejected);
  explain_ = entry;
  // A batch phase ends with the logits of all its rows; no other phase has
  // their cost.
  if (attr_.getKind() == PhaseKind::Logits && attr_.getSequences() > 1) {
    moec::Situation rows = situation_;
    rows.tokens = attr_.getSequences();
    auto ofBatch =
        selectedInstructions(op, cast<LowerableOpInterface>(op).getInstructions(
                                     {rows.tokens, rows.cached}));
    explain(op, selected, nameOf(PhaseKind::Batch), {rows.tokens, 0})
        .setSeconds(APFloat(selectedSeconds(*ofBatch, rows, desc)));
  }
  return success();
}

plan::ExplainOp PhaseEmitter::explain(Operation *op,
                                      ArrayRef<SelectedInstruction> selected,
                                      StringRef phase, TypicalStep step) {
  auto costly = cast<CostOpInterface>(op);
  StringAttr device = op->getAttrOfType<StringAttr>(kDeviceAttr);
  Cost cost = costly.getCost(step.tokens, step.cached);
  const moec::DeviceDesc &desc = *tables_.target().find(device.strref());
  double seconds = 0;
  if (auto copy = dyn_cast<TransferOp>(op)) {
    // An end that the target lacks is an error when buffers are placed.
    const moec::DeviceDesc *from = tables_.target().find(copy.getFrom()),
                           *to = tables_.target().find(copy.getTo());
    seconds = moec::copySeconds(cost.activationBytes, from ? *from : desc,
                                to ? *to : desc);
  }
  // Streaming costs the time of the link that exceeds the time of the products,
  // which is added elsewhere.
  if (op->hasAttr(kStreamedAttr))
    seconds =
        std::max(0.0, streamSeconds(costly, cost, op->hasAttr(kPinnedAttr),
                                    tables_.target().host(), desc) -
                          selectedSeconds(selected, situation_, desc));
  auto reason = op->getAttrOfType<StringAttr>(kReasonAttr);
  auto label = op->getAttrOfType<LabelAttr>(kLabelAttr);
  return tables_.builder().create<plan::ExplainOp>(
      loc_, label ? label.getPart().getValue() : StringRef(label_),
      label ? int32_t(label.getLayer()) : -1, phase, device,
      kernelNames(selected), reason ? reason.getValue() : "",
      APFloat(cost.flops), APFloat(cost.weightBytes),
      APFloat(cost.activationBytes), APFloat(cost.kvBytes),
      APFloat(cost.weightBytes > 0 ? cost.flops / cost.weightBytes : 0.0),
      APFloat(seconds), /*rejected=*/ArrayAttr());
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value PhaseEmitter::buffer(const Twine &name, plan::Encoding encoding,
                           int64_t cols, int64_t rowsPerToken,
                           int64_t fixedRows, Value device) {
  return builder_.create<plan::BufferOp>(
      loc_, name.str(), device ? device : device_, encoding, cols, rowsPerToken,
      fixedRows, IntegerAttr(), /*per_worker=*/false);
}

Value PhaseEmitter::bufferLike(Value like, const Twine &name,
                               plan::Encoding encoding, Value device) {
  auto shape = like.getDefiningOp<plan::BufferOp>();
  return buffer(name, encoding, shape.getCols(), shape.getRowsPerToken(),
                shape.getFixedRows(), device);
}

Value PhaseEmitter::encodedLike(Value x) {
  auto buffer = x.getDefiningOp<plan::BufferOp>();
  auto device = buffer.getDevice().getDefiningOp<plan::DeviceOp>();
  // This uses the target's instruction set, because plan.device so far only has
  // the one that the kernels noted until now need.
  moek::Isa isa = tables_.target().find(device.getName())->isa;
  auto encoding = plan::Encoding(encodingOn(isa, phase_.getMaxTokens()));
  return bufferLike(x, buffer.getName() + ".a8", encoding);
}

Value PhaseEmitter::weight(Value weight, moek::Layout layout) {
  if (!weight)
    return {};
  FailureOr<Value> entry = tables_.weight(weight, layout);
  failed_ |= failed(entry);
  return succeeded(entry) ? *entry : Value();
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void PhaseEmitter::addSeconds(const SelectedInstruction &selected,
                              ArrayRef<Value> operands) {
  auto explain = explain_.getDefiningOp<plan::ExplainOp>();
  const Instruction &instruction = selected.instruction;
  InstructionWork work = instruction.work;
  if (instruction.op == OpCode::Copy)
    return; // begin() has added the seconds for the op's bytes.
  if (instruction.op == OpCode::Quantize) {
    auto out = operands.back().getDefiningOp<plan::BufferOp>();
    // Each element is read as a float and written as a byte.
    work.activationBytes = 5.0 * double(out.getCols()) *
                           double(out.getRowsPerToken()) *
                           double(situation_.tokens);
  }
  const moec::DeviceDesc &desc = *tables_.target().find(
      std::string_view(explain.getDevice().data(), explain.getDevice().size()));
  double seconds = moec::instructionSeconds(instruction.op, work,
                                            {selected.driver, selected.gemms},
                                            situation_, desc);
  explain.setSeconds(APFloat(explain.getSeconds().convertToDouble() + seconds));
}

/// The work as the plan records it; null if there is none.
static DenseF64ArrayAttr workAttr(OpBuilder &builder, const WorkTerms &terms) {
  if (terms.isNone())
    return {};
  return builder.getDenseF64ArrayAttr({terms.tokenOps, terms.seenOps,
                                       terms.rowOps, terms.firstBytes,
                                       terms.again});
}

void PhaseEmitter::inst(const SelectedInstruction &selected,
                        const WorkTerms &terms, ArrayRef<Value> operands) {
  addSeconds(selected, operands);
  const Instruction &instruction = selected.instruction;
  SmallVector<StringRef> kernels{ref(selected.driver->name)};
  tables_.noteKernel(device_, selected.driver->isa);
  for (const moek::GemmInfo *gemm : selected.gemms) {
    kernels.push_back(ref(gemm->name));
    tables_.noteKernel(device_, gemm->isa);
  }
  SmallVector<Value> values;
  SmallVector<bool> present;
  for (Value operand : operands) {
    present.push_back(bool(operand));
    if (operand)
      values.push_back(operand);
  }
  auto inst = builder_.create<plan::InstOp>(
      loc_, /*event=*/Type(), ref(instruction.spec().name),
      tables_.queue(device_, instruction.op, phase_.getMaxTokens()),
      builder_.getStrArrayAttr(kernels), values, /*modules=*/ValueRange(),
      /*waits=*/ValueRange(), present, instruction.ints, instruction.floats,
      /*barrier=*/false, explain_, workAttr(builder_, terms));
  if (isLate_)
    inst->setAttr(plan::kRunLastAttr, builder_.getUnitAttr());
}

LogicalResult PhaseEmitter::end(ArrayRef<Value> inputs, Value output) {
  builder_.create<plan::BindOp>(phase_.getLoc(), inputs.front(),
                                inputs.size() > 1 ? inputs.back() : Value(),
                                output);
  return failure(failed_);
}
