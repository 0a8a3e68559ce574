#include "compiler/Machine/Targets/TargetAttr.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/AlternativeSeconds.h"
#include "passes/moe/placement/Placement.h"
#include "passes/moe/placement/StreamableExperts.h"
#include "runtime/base/Text.h"

namespace mlir::moe {
#define GEN_PASS_DEF_STREAMEXPERTSPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

struct StreamExperts : moe::impl::StreamExpertsPassBase<StreamExperts> {
  using StreamExpertsPassBase::StreamExpertsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    func::FuncOp prefill = findPhase(module, PhaseKind::Prefill);
    const auto predicted = module->getAttrOfType<StreamingAttr>(kStreamingAttr);
    module->removeAttr(kStreamingAttr);
    const bool isAsked = streamExperts > 0;
    const int64_t from = isAsked     ? int64_t(streamExperts)
                         : predicted ? predicted.getFrom()
                                     : 0;
    if (!prefill || streamExperts == 0 || from == 0)
      return;
    std::string obstacle;
    if (streamedBy(prefill, *target, obstacle).empty()) {
      if (!isAsked)
        return;
      std::string none = "there are no experts to stream: " +
                         (obstacle.empty() ? "none are on the CPU" : obstacle);
      if (!streamSource.empty())
        return addNote(module, ofSource() + none);
      (void)userError(module, none,
                      obstacle.empty()
                          ? "leave --stream-experts out, or place experts on "
                            "the CPU"
                          : "leave --stream-experts out, or choose other "
                            "devices with --place");
      return signalPassFailure();
    }
    const int64_t most = phaseOf(prefill).getMaxTokens();
    if (from > most)
      return addNote(module, ofSource() +
                                 "experts stay on the CPU in all steps, which "
                                 "have at most " +
                                 tokens(most) + "; --ubatch " + Twine(from) +
                                 " makes longer ones");
    if (failed(stream(module, prefill, *target, from, predicted)))
      signalPassFailure();
  }

private:
  struct Streamed {
    ExpertsOp op;
    const moec::DeviceDesc *gpu;
  };

  /// Returns the host's experts that can be streamed, and says why the first of
  /// the others cannot.
  static SmallVector<Streamed> streamedBy(func::FuncOp prefill,
                                          const moec::TargetDesc &target,
                                          std::string &obstacle) {
    const StreamableExperts streamable(prefill);
    SmallVector<Streamed> streamed;
    auto deviceOf = [&](Operation *op) -> const moec::DeviceDesc * {
      auto name = op ? op->getAttrOfType<StringAttr>(kDeviceAttr) : nullptr;
      return name ? target.find(std::string_view(name.getValue())) : nullptr;
    };
    prefill.walk([&](ExpertsOp op) {
      if (deviceOf(op) != &target.host())
        return;
      const moec::DeviceDesc *gpu = deviceOf(op.getIds().getDefiningOp());
      std::string why =
          streamable.obstacle(op, target.host(), gpu ? *gpu : target.host());
      if (why.empty())
        streamed.push_back({op, gpu});
      else if (obstacle.empty())
        obstacle = std::move(why);
    });
    return streamed;
  }

  /// Returns what begins a message if a file asks for the streaming.
  std::string ofSource() const {
    return streamSource.empty() ? "" : streamSource + ": ";
  }

  LogicalResult stream(ModuleOp module, func::FuncOp prefill,
                       const moec::TargetDesc &target, int64_t from,
                       StreamingAttr predicted) {
    PhaseAttr phase = phaseOf(prefill);
    // Shorter steps do not change.
    func::FuncOp longer = prefill;
    if (from > phase.getMinTokens()) {
      OpBuilder builder(prefill);
      builder.setInsertionPointAfter(prefill);
      longer = cast<func::FuncOp>(builder.clone(*prefill));
      longer.setName(nameOf(PhaseKind::StreamedPrefill));
      setRange(prefill, nameOf(PhaseKind::Prefill), phase.getMinTokens(),
               from - 1);
      setRange(longer, nameOf(PhaseKind::StreamedPrefill), from,
               phase.getMaxTokens());
    }
    std::string obstacle;
    SmallVector<Streamed> all = streamedBy(longer, target, obstacle);
    AlternativeSeconds seconds(weights != WeightsMode::Reference);
    const std::string why =
        streamExperts > 0
            ? (streamSource.empty() ? std::string("--stream-experts")
                                    : std::string(streamSource)) +
                  " streams them from " + tokens(from) + " on"
            : "from " + tokens(from) + " on streaming them is faster";
    int64_t slots = 0;
    for (auto [op, gpu] : all) {
      op->setAttr(kDeviceAttr, StringAttr::get(module.getContext(), gpu->name));
      op->setAttr(kStreamedAttr, UnitAttr::get(module.getContext()));
      if (pinWeights)
        op->setAttr(kPinnedAttr, UnitAttr::get(module.getContext()));
      op->removeAttr(kReasonAttr);
      op->removeAttr(kRejectedAttr);
      seconds.rejectDevice(op, target.host(), *gpu, why);
      appendReason(op, "On " + gpu->name + ", which copies them from " +
                           target.host().name + "'s memory in steps of " +
                           tokens(from) + " or more.");
      slots = std::max(slots, StreamableExperts::slotBytes(op));
    }
    if (std::string misfit = slotShortage(module, target, all); !misfit.empty())
      return userError(
          module, ofSource() + misfit,
          "place fewer ops there, or compile with a smaller "
          "--ubatch or without " +
              Twine(streamSource.empty() ? "--stream-experts" : "that line"));
    addNote(module, ofSource() + describe(all.size(), slots, from, predicted,
                                          phase.getMaxTokens()));
    return success();
  }

  /// Describes the GPU that has no room for the slots; "" if all fit.
  static std::string slotShortage(ModuleOp module,
                                  const moec::TargetDesc &target,
                                  ArrayRef<Streamed> streamed) {
    PlacementProblem problem(module, target);
    PlacementProblem::Assignment assignment;
    for (const OpGroup &group : problem.groups())
      assignment.push_back(group.device);
    std::vector<DeviceUse> use = problem.memoryUse(assignment);
    for (auto [op, gpu] : streamed) {
      int64_t slots = StreamableExperts::slotBytes(op);
      int64_t left = int64_t(gpu->budgetBytes()) -
                     use[size_t(gpu - target.devices.data())].total();
      if (slots > left)
        return gpu->name + " has " +
               formatCapacity(double(std::max<int64_t>(left, 0))) +
               " left, but the slots for streaming the experts of " +
               labelOf(op) + " take " + formatCapacity(double(slots));
    }
    return "";
  }

  static std::string tokens(int64_t count) {
    return moert::counted(uint64_t(count), "token");
  }

  std::string describe(size_t layers, int64_t slots, int64_t from,
                       StreamingAttr predicted, int64_t most) const {
    std::string text = "experts of " + std::to_string(layers) +
                       (layers == 1 ? " layer are" : " layers are") +
                       " streamed to the GPU in steps of " + tokens(from) +
                       " or more, through slots of " +
                       formatCapacity(double(slots));
    if (!predicted)
      return text;
    text += ": one of " + tokens(most) + " takes " +
            formatSeconds(predicted.getStreamed()) + ", without that " +
            formatSeconds(predicted.getKept());
    if (streamExperts > 0)
      text += predicted.getFrom() ? "; it is predicted to pay from " +
                                        tokens(predicted.getFrom())
                                  : "; it is predicted never to pay";
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
