#include "compiler/Machine/Targets/TargetAttr.h"
#include "passes/moe/Passes.h"
#include "passes/moe/kernels/AlternativeSeconds.h"
#include "passes/moe/placement/ExpertStreaming.h"
#include "passes/moe/placement/Placement.h"

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
    if (!prefill)
      return;
    ExpertStreaming streaming(prefill, *target, mayPack());
    if (streamExperts == 0)
      return suggest(module, streaming, phaseOf(prefill));
    if (streaming.empty()) {
      const std::string &obstacle = streaming.obstacle();
      std::string none = "there are no experts to stream: " +
                         (obstacle.empty() ? "none are on the CPU" : obstacle);
      if (streamExperts < 0 || !streamSource.empty())
        return addNote(module, ofSource() + none);
      (void)userError(module, none,
                      obstacle.empty()
                          ? "leave --stream-experts out, or place experts on "
                            "the CPU"
                          : "leave --stream-experts out, or choose other "
                            "devices with --place");
      return signalPassFailure();
    }
    int64_t computed = streaming.crossover();
    int64_t from = streamExperts > 0 ? int64_t(streamExperts) : computed;
    PhaseAttr phase = phaseOf(prefill);
    if (from == 0)
      return addNote(module, "no experts are streamed to the GPU: whatever a "
                             "step's length, the CPU is faster than the link");
    if (from > phase.getMaxTokens()) {
      if (streamExperts < 0)
        addNote(module, "steps of " + Twine(from) +
                            " tokens of a prompt would be faster with experts "
                            "streamed to the GPU: compile with --ubatch " +
                            Twine(from) + " or more");
      return;
    }
    if (failed(stream(module, prefill, *target, streaming, from, computed)))
      signalPassFailure();
  }

private:
  /// Returns what begins a message if a file asks for the streaming.
  std::string ofSource() const {
    return streamSource.empty() ? "" : streamSource + ": ";
  }

  /// Returns whether weights may have another layout than the model file's.
  bool mayPack() const { return weights != WeightsMode::Reference; }

  /// Adds a note if --stream-experts was not given and would make a long step
  /// shorter by at least a third and by a second.
  static void suggest(ModuleOp module, const ExpertStreaming &streaming,
                      PhaseAttr phase) {
    constexpr int64_t kLongStep = 4096;
    int64_t longest = std::max(phase.getMaxTokens(),
                               std::min(phase.getContextLength(), kLongStep));
    int64_t from = streaming.empty() ? 0 : streaming.crossover();
    if (from == 0 || from > longest)
      return;
    ExpertStreaming::Seconds seconds = streaming.secondsOf(longest);
    if (seconds.host < 1.5 * seconds.streamed ||
        seconds.host < seconds.streamed + 1)
      return;
    addNote(
        module,
        "long prompts would be faster with --stream-experts auto --ubatch " +
            Twine(longest) + " --typical-prompt " + Twine(longest) +
            ": in a step of " + tokens(longest) + " the CPU's experts take " +
            formatSeconds(seconds.host) + ", streamed to the GPU " +
            formatSeconds(seconds.streamed) +
            "; moert then pins their weights in memory");
  }

  LogicalResult stream(ModuleOp module, func::FuncOp prefill,
                       const moec::TargetDesc &target,
                       const ExpertStreaming &streaming, int64_t from,
                       int64_t computed) {
    PhaseAttr phase = phaseOf(prefill);
    std::string note = describe(streaming, from, computed, phase);
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
    ExpertStreaming there(longer, target, mayPack());
    SmallVector<DictionaryAttr> before;
    AlternativeSeconds seconds(mayPack());
    for (ExpertStreaming::Candidate c : there.all()) {
      before.push_back(c.op->getAttrDictionary());
      c.op->setAttr(kDeviceAttr,
                    StringAttr::get(module.getContext(), c.gpu->name));
      c.op->setAttr(kStreamedAttr, UnitAttr::get(module.getContext()));
      c.op->removeAttr(kReasonAttr);
      c.op->removeAttr(kRejectedAttr);
      seconds.rejectDevice(c.op, *c.host, *c.gpu,
                           streamExperts > 0
                               ? (streamSource.empty() ? "--stream-experts"
                                                       : streamSource.c_str()) +
                                     std::string(" streams them from ") +
                                     std::to_string(from) + " tokens on"
                               : "from " + tokens(computed) +
                                     " on streaming them is faster");
      appendReason(c.op, "On " + c.gpu->name + ", which copies them from " +
                             c.host->name + "'s memory in steps of " +
                             tokens(from) + " or more.");
    }
    std::string misfit = slotShortage(module, target, there);
    if (misfit.empty()) {
      addNote(module, ofSource() + note);
      // It was predicted for the steps that are now shorter or streamed.
      if (auto predicted =
              module->getAttrOfType<DictionaryAttr>(kPredictedAttr)) {
        NamedAttrList others(predicted);
        others.erase(StringRef(nameOf(PhaseKind::Prefill)));
        module->setAttr(kPredictedAttr,
                        others.getDictionary(module.getContext()));
      }
      return success();
    }
    if (streamExperts > 0)
      return userError(
          module, ofSource() + misfit,
          "place fewer ops there, or compile with a smaller "
          "--ubatch or without " +
              Twine(streamSource.empty() ? "--stream-experts" : "that line"));
    for (auto [c, attributes] : llvm::zip_equal(there.all(), before))
      c.op->setAttrs(attributes);
    prefill->setAttr(kPhaseAttr, phase);
    if (longer != prefill)
      longer.erase();
    addNote(module, "experts are not streamed in long prompts, which would "
                    "pay from " +
                        tokens(from) + " on: " + misfit);
    return success();
  }

  /// Describes the GPU that has no room for the slots; "" if all fit.
  static std::string slotShortage(ModuleOp module,
                                  const moec::TargetDesc &target,
                                  const ExpertStreaming &streaming) {
    PlacementProblem problem(module, target);
    PlacementProblem::Assignment assignment;
    for (const OpGroup &group : problem.groups())
      assignment.push_back(group.device);
    std::vector<DeviceUse> use = problem.memoryUse(assignment);
    for (ExpertStreaming::Candidate c : streaming.all()) {
      int64_t slots = ExpertStreaming::slotBytes(c.op);
      int64_t left = int64_t(c.gpu->budgetBytes()) -
                     use[size_t(c.gpu - target.devices.data())].total();
      if (slots > left)
        return c.gpu->name + " has " +
               formatCapacity(double(std::max<int64_t>(left, 0))) +
               " left, but the slots for streaming the experts of " +
               labelOf(c.op) + " take " + formatCapacity(double(slots));
    }
    return "";
  }

  static std::string tokens(int64_t count) {
    return std::to_string(count) + (count == 1 ? " token" : " tokens");
  }

  std::string describe(const ExpertStreaming &streaming, int64_t from,
                       int64_t computed, PhaseAttr phase) const {
    ExpertStreaming::Seconds seconds =
        streaming.secondsOf(phase.getMaxTokens());
    size_t layers = streaming.all().size();
    std::string text = "experts of " + std::to_string(layers) +
                       (layers == 1 ? " layer are" : " layers are") +
                       " streamed to the GPU in steps of " + tokens(from) +
                       " or more, through slots of " +
                       formatCapacity(double(streaming.slotBytes())) +
                       ": in one of " + tokens(phase.getMaxTokens()) +
                       " the link takes " + formatSeconds(seconds.link) +
                       " and the GPU " + formatSeconds(seconds.gpu) +
                       ", where the CPU would take " +
                       formatSeconds(seconds.host);
    if (streamExperts > 0)
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
