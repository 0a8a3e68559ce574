#include "passes/moe/StreamExperts.h"

#include "compiler/Machine/CostModel/CostModel.h"
#include "compiler/Machine/Targets/TargetAttr.h"
#include "kernels/cuda/Launch.h"
#include "passes/moe/KernelSelection.h"
#include "passes/moe/OpSeconds.h"
#include "passes/moe/Placement.h"
#include "passes/moe/Support.h"

#include <map>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// No step is longer (--ubatch).
constexpr int64_t kMostRows = int64_t(1) << 16;

/// Compile prints it, and plans keep it.
void addNote(ModuleOp module, const Twine &note) {
  Builder builder(module.getContext());
  SmallVector<Attribute> notes;
  if (auto told = module->getAttrOfType<ArrayAttr>(kNotesAttr))
    notes.assign(told.begin(), told.end());
  notes.push_back(builder.getStringAttr(note));
  module->setAttr(kNotesAttr, builder.getArrayAttr(notes));
}

/// A layer's experts on the host that a GPU could do.
struct Candidate {
  ExpertsOp op; ///< Of prefill.
  const moec::DeviceDesc *host, *gpu;
};

ArrayRef<int64_t> shapeOf(Value weight) {
  return cast<RankedTensorType>(weight.getType()).getShape();
}

/// What a matrix of `weight` takes at most, whatever layout it has.
int64_t mostMatrixBytes(Value weight) {
  moek::Format format =
      *getFormat(cast<RankedTensorType>(weight.getType()).getElementType());
  int64_t rows = shapeOf(weight)[1], cols = shapeOf(weight)[2], most = 0;
  for (uint32_t number = 0; auto layout = moek::layoutFromNumber(number);
       ++number)
    if (number == 0 || moek::hasLayout(*layout, format, cols))
      most = std::max(most, int64_t(moek::storedRows(*layout, rows) *
                                    moek::rowBytes(*layout, format, cols)));
  return most;
}

/// Whether both read `weight` in whatever layout the CPU has it, matrix behind
/// matrix.
bool isReadByBoth(Value weight, const moec::DeviceDesc &gpu, int64_t rows) {
  if (!isa<WeightOp, StackOp, SliceExpertsOp>(weight.getDefiningOp()))
    return false;
  if (auto slice = weight.getDefiningOp<SliceExpertsOp>();
      slice && !slice.getWeight().getDefiningOp<WeightOp>())
    return false;
  auto format =
      getFormat(cast<RankedTensorType>(weight.getType()).getElementType());
  if (!format)
    return false;
  for (uint32_t number = 0; auto layout = moek::layoutFromNumber(number);
       ++number)
    if ((number == 0 ||
         moek::hasLayout(*layout, *format, shapeOf(weight)[2])) &&
        !chooseGemm(*format, *layout, gpu, rows))
      return false;
  return true;
}

class Streaming {
public:
  Streaming(func::FuncOp prefill, const moec::TargetDesc &target)
      : prefill(prefill), target(target), phase(phaseOf(prefill)) {
    prefill.walk([&](ExpertsOp op) {
      if (auto candidate = candidateOf(op))
        candidates.push_back(*candidate);
    });
  }

  bool empty() const { return candidates.empty(); }
  ArrayRef<Candidate> all() const { return candidates; }

  /// The shortest step that takes no longer with experts streamed; 0: none.
  int64_t crossover() const {
    int64_t rows = 1;
    while (rows <= kMostRows && !pays(rows))
      rows *= 2;
    if (rows > kMostRows)
      return 0;
    int64_t low = rows / 2, high = rows; // Does not pay, pays.
    while (low + 1 < high) {
      int64_t middle = (low + high) / 2;
      (pays(middle) ? high : low) = middle;
    }
    return high;
  }

  /// Seconds of all layers' experts in a step of so many rows.
  struct Seconds {
    double host = 0; ///< Where they are, and the way there and back.
    double link = 0, gpu = 0, streamed = 0;
  };
  Seconds secondsOf(int64_t rows) const {
    Seconds all;
    TypicalStep step{rows, typicalStep(phase).cached};
    std::map<const moec::DeviceDesc *, moec::Situation> situations;
    auto situation = [&](const moec::DeviceDesc &device) {
      auto [it, isNew] = situations.try_emplace(&device);
      if (isNew)
        it->second = situationOf(prefill, step, device);
      return it->second;
    };
    for (Candidate c : candidates) {
      auto costed = cast<CostOpInterface>(c.op.getOperation());
      double there = 0;
      for (Value value : {c.op.getX(), c.op.getIds(), c.op.getWeights()})
        there += double(PlacementProblem::bytesOf(value, rows));
      all.host += opSeconds(c.op, situation(*c.host), *c.host) +
                  moec::transferSeconds(there, *c.gpu) +
                  moec::transferSeconds(
                      double(PlacementProblem::bytesOf(c.op.getResult(), rows)),
                      *c.gpu);
      double link = moec::transferSeconds(
          costed.getCost(rows, step.cached).weightBytes, *c.gpu);
      double gpu = opSeconds(c.op, situation(*c.gpu), *c.gpu);
      all.link += link;
      all.gpu += gpu;
      // The first part comes before anything is multiplied, and the last is
      // multiplied when nothing comes any more.
      all.streamed += std::max(link, gpu) + std::min(link, gpu) / partsOf(c);
    }
    return all;
  }

  /// Bytes of both slots that the experts of a layer come to.
  static int64_t slotBytes(Candidate c) {
    int64_t experts = shapeOf(c.op.getGate())[0], most = 0;
    auto add = [&](int64_t gate, int64_t up) {
      int64_t parts = moek::cuda::streamedParts((gate + up) * experts, experts);
      int64_t each = int64_t(llvm::divideCeil(experts, parts));
      most = std::max(most, moek::cuda::slotBytes(gate, each) +
                                moek::cuda::slotBytes(up, each));
    };
    add(mostMatrixBytes(c.op.getGate()), mostMatrixBytes(c.op.getUp()));
    add(mostMatrixBytes(c.op.getDown()), 0);
    return 2 * most;
  }

private:
  static double partsOf(Candidate c) {
    int64_t experts = shapeOf(c.op.getGate())[0];
    return double(moek::cuda::streamedParts(
        experts * mostMatrixBytes(c.op.getGate()), experts));
  }
  bool pays(int64_t rows) const {
    Seconds seconds = secondsOf(rows);
    return seconds.streamed <= seconds.host;
  }

  const moec::DeviceDesc *deviceOf(Operation *op) const {
    auto name = op ? op->getAttrOfType<StringAttr>(kDeviceAttr) : StringAttr();
    return name ? target.find(std::string_view(name.getValue())) : nullptr;
  }

  std::optional<Candidate> candidateOf(ExpertsOp op) const {
    const moec::DeviceDesc *host = deviceOf(op);
    // The GPU that the layer's router is on.
    const moec::DeviceDesc *gpu = deviceOf(op.getIds().getDefiningOp());
    if (!host || host->kind != moec::DeviceKind::Cpu || !gpu ||
        gpu->kind != moec::DeviceKind::Cuda)
      return std::nullopt;
    ExpertSliceAttr slice = op.getSliceAttr();
    if (slice && !slice.getMap().empty())
      return std::nullopt;
    for (Value weight : {op.getGate(), op.getUp(), op.getDown()})
      if (!isReadByBoth(weight, *gpu, phase.getMaxTokens()))
        return std::nullopt;
    moec::Situation one{1, 0};
    if (opSeconds(op, one, *gpu) >= kNeverSeconds)
      return std::nullopt;
    return Candidate{op, host, gpu};
  }

  func::FuncOp prefill;
  const moec::TargetDesc &target;
  PhaseAttr phase;
  SmallVector<Candidate> candidates;
};

struct StreamExperts : PassWrapper<StreamExperts, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StreamExperts)

  explicit StreamExperts(int64_t from = -1) { rows = from; }
  StreamExperts(const StreamExperts &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "moe-stream-experts"; }
  StringRef getDescription() const override {
    return "long prompts: experts of the host brought to the GPU";
  }

  Option<int64_t> rows{*this, "rows",
                       llvm::cl::desc("The shortest step that streams experts; "
                                      "-1: where it pays; 0: none"),
                       llvm::cl::init(-1)};

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    auto prefill = module.lookupSymbol<func::FuncOp>(kPrefillName);
    if (rows == 0 || !prefill)
      return;
    Streaming streaming(prefill, *target);
    if (streaming.empty()) {
      if (rows > 0) {
        (void)userError(module,
                        "no experts are on the CPU that a GPU with their "
                        "layer's router could do: there are none to stream",
                        "leave --stream-experts out, or place experts on the "
                        "CPU");
        signalPassFailure();
      }
      return;
    }
    int64_t computed = streaming.crossover();
    int64_t from = rows > 0 ? int64_t(rows) : computed;
    PhaseAttr phase = phaseOf(prefill);
    if (from == 0)
      return;
    if (from > phase.getMaxTokens()) {
      if (rows < 0)
        addNote(module, "steps of " + Twine(from) +
                            " tokens of a prompt would be faster with experts "
                            "streamed to the GPU: --ubatch " +
                            Twine(from) + " or more");
      return;
    }
    if (failed(stream(module, prefill, *target, streaming, from, computed)))
      signalPassFailure();
  }

private:
  LogicalResult stream(ModuleOp module, func::FuncOp prefill,
                       const moec::TargetDesc &target,
                       const Streaming &streaming, int64_t from,
                       int64_t computed) {
    PhaseAttr phase = phaseOf(prefill);
    std::string note = describe(streaming, from, computed, phase);
    // Shorter steps stay as they are.
    func::FuncOp longer = prefill;
    if (from > phase.getMinTokens()) {
      OpBuilder builder(prefill);
      builder.setInsertionPointAfter(prefill);
      longer = cast<func::FuncOp>(builder.clone(*prefill));
      longer.setName(kStreamedName);
      setRange(prefill, kPrefillName, phase.getMinTokens(), from - 1);
      setRange(longer, kStreamedName, from, phase.getMaxTokens());
    }
    Streaming there(longer, target);
    SmallVector<DictionaryAttr> before;
    for (Candidate c : there.all()) {
      before.push_back(c.op->getAttrDictionary());
      c.op->setAttr(kDeviceAttr,
                    StringAttr::get(module.getContext(), c.gpu->name));
      c.op->setAttr(kStreamedAttr, UnitAttr::get(module.getContext()));
      c.op->removeAttr(kReasonAttr);
      appendReason(c.op, "On " + c.gpu->name + ", which brings them from " +
                             c.host->name + "'s memory, as steps have " +
                             Twine(from) + " tokens or more.");
    }
    std::string misfit = misfitOf(module, target, there);
    if (misfit.empty()) {
      addNote(module, note);
      return success();
    }
    if (rows > 0)
      return userError(module, misfit,
                       "place fewer ops there, or compile with a smaller "
                       "--ubatch or without --stream-experts");
    for (auto [c, attributes] : llvm::zip_equal(there.all(), before))
      c.op->setAttrs(attributes);
    prefill->setAttr(kPhaseAttr, phase);
    if (longer != prefill)
      longer.erase();
    addNote(module, "no experts are streamed in steps of long prompts, which "
                    "would pay from " +
                        tokens(from) + " on: " + misfit);
    return success();
  }

  /// Which GPU has no room for slots beside all that it has; "" for none.
  static std::string misfitOf(ModuleOp module, const moec::TargetDesc &target,
                              const Streaming &streaming) {
    PlacementProblem problem(module, target);
    PlacementProblem::Assignment assignment;
    for (const OpGroup &group : problem.groups())
      assignment.push_back(group.device);
    std::vector<DeviceUse> use = problem.memoryUse(assignment);
    for (Candidate c : streaming.all()) {
      int64_t slots = Streaming::slotBytes(c);
      int64_t left = int64_t(c.gpu->budgetBytes()) -
                     use[size_t(c.gpu - target.devices.data())].total();
      if (slots > left)
        return c.gpu->name + " has " +
               formatCapacity(double(std::max<int64_t>(left, 0))) +
               " left, and the slots that experts of " + labelOf(c.op) +
               " come to take " + formatCapacity(double(slots));
    }
    return "";
  }

  static std::string tokens(int64_t count) {
    return std::to_string(count) + (count == 1 ? " token" : " tokens");
  }

  std::string describe(const Streaming &streaming, int64_t from,
                       int64_t computed, PhaseAttr phase) const {
    Streaming::Seconds seconds = streaming.secondsOf(phase.getMaxTokens());
    int64_t slots = 0;
    for (Candidate c : streaming.all())
      slots = std::max(slots, Streaming::slotBytes(c));
    size_t layers = streaming.all().size();
    std::string text =
        "experts of " + std::to_string(layers) +
        (layers == 1 ? " layer are" : " layers are") +
        " streamed to the GPU in steps of " + tokens(from) +
        " or more, through slots of " + formatCapacity(double(slots)) +
        ": in one of " + tokens(phase.getMaxTokens()) + " the link takes " +
        formatSeconds(seconds.link) + " and the GPU " +
        formatSeconds(seconds.gpu) + ", where the CPU would take " +
        formatSeconds(seconds.host);
    if (rows > 0)
      text += computed ? "; by the cost model it pays from " + tokens(computed)
                       : "; by the cost model it never pays";
    return text;
  }

  static void setRange(func::FuncOp function, StringRef name, int64_t min,
                       int64_t max) {
    PhaseAttr phase = phaseOf(function);
    MLIRContext *context = function.getContext();
    function->setAttr(kPhaseAttr,
                      PhaseAttr::get(context, StringAttr::get(context, name),
                                     min, max, phase.getContextLength(),
                                     phase.getSequences()));
  }
};
} // namespace

std::unique_ptr<Pass> moe::createStreamExpertsPass(int64_t rows) {
  return std::make_unique<StreamExperts>(rows);
}

void moe::registerStreamExpertsPass() { PassRegistration<StreamExperts>(); }
