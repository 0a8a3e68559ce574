#include "passes/moe/placement/WholePlan.h"

#include "passes/moe/placement/NodeUses.h"

using namespace mlir;
using namespace mlir::moe;

/// The most tokens of steps that are tried for streamed experts.
static constexpr int64_t kLongSteps[] = {moec::kLongUbatch, 2048};

/// Streaming is chosen if a request takes at most this part of its seconds
/// without: predictions are no more precise.
static constexpr double kGain = 0.98;

WholePlan::WholePlan(ModuleOp module, const moec::TargetDesc &target,
                     const PlacementOptions &options, Streaming streaming)
    : target(target), problem(module, this->target, streaming),
      times(problem, this->target,
            requestMix(module, options.objective, options.typicalPrompt,
                       options.deferExperts),
            options.mayPack),
      search(problem, this->target, times), choice(search.run()) {
  func::FuncOp prefill = findPhase(module, PhaseKind::Prefill);
  stepTokens = prefill ? phaseOf(prefill).getMaxTokens() : 0;
}

static void setStepTokens(ModuleOp module, int64_t tokens) {
  func::FuncOp prefill = findPhase(module, PhaseKind::Prefill);
  PhaseAttr phase = prefill ? phaseOf(prefill) : nullptr;
  if (phase && phase.getMaxTokens() != tokens)
    prefill->setAttr(kPhaseAttr,
                     PhaseAttr::get(module.getContext(), phase.getName(),
                                    phase.getMinTokens(), tokens,
                                    phase.getContextLength(),
                                    phase.getSequences()));
}

/// Returns whether the host has experts that streaming could bring to a GPU.
static bool mayStream(ModuleOp module, const WholePlan &plan) {
  const auto &target = plan.target;
  return findPhase(module, PhaseKind::Prefill) &&
         llvm::any_of(target.devices,
                      [](const moec::DeviceDesc &device) {
                        return device.kind == moec::DeviceKind::Cuda &&
                               !device.sharesMemory;
                      }) &&
         llvm::any_of(llvm::enumerate(plan.problem.groups()),
                      [&](const auto &group) {
                        return isa<ExpertsOp>(group.value().ops.front()) &&
                               plan.choice.assignment[group.index()] ==
                                   int(target.devices.size()) - 1;
                      });
}

std::unique_ptr<WholePlan>
moe::chooseWholePlan(ModuleOp module, ArrayRef<moec::TargetDesc> targets,
                     const PlacementOptions &options, SearchCounts &counts,
                     std::string &compared) {
  std::unique_ptr<WholePlan> best;
  auto request = [](const WholePlan &plan) {
    return plan.choice.predicted.request;
  };
  auto attempt = [&](const moec::TargetDesc &target, Streaming streaming) {
    auto plan = std::make_unique<WholePlan>(module, target, options, streaming);
    counts += SearchCounts(1, plan->problem, plan->times);
    return plan;
  };
  for (const moec::TargetDesc &target : targets) {
    auto plan = attempt(target, {});
    compared +=
        (compared.empty() ? "" : "; ") + textOf(target.host().nodeUse).str() +
        " " +
        (plan->choice.fits ? formatSeconds(request(*plan)) : "does not fit");
    // Without a fit, the first one tells what is missing.
    if (!best || (plan->choice.fits &&
                  (!best->choice.fits || request(*plan) < request(*best))))
      best = std::move(plan);
  }
  if (options.streamExperts == 0 || !best->choice.fits ||
      !mayStream(module, *best))
    return best;
  const bool isAsked = options.streamExperts > 0;
  const moec::TargetDesc target = best->target;
  const int64_t context =
      phaseOf(findPhase(module, PhaseKind::Prefill)).getContextLength();
  const int64_t usual = best->stepTokens;
  const double without = request(*best);
  auto gains = [&](const WholePlan &plan) {
    return plan.choice.fits && (isAsked || (plan.choice.predicted.streams &&
                                            request(plan) <= kGain * without));
  };
  // Longer steps stream each expert for more tokens, but need more memory.
  bool isFound = false;
  auto tryLength = [&](int64_t tokens) {
    if (isFound || (isAsked && tokens < options.streamExperts))
      return;
    setStepTokens(module, tokens);
    auto plan = attempt(target, {std::max<int64_t>(1, options.streamExperts),
                                 isAsked, options.pinWeights});
    if ((isFound = gains(*plan)))
      best = std::move(plan);
  };
  if (options.ubatch == 0)
    for (int64_t tokens : kLongSteps)
      if (usual < tokens)
        tryLength(std::min(tokens, context));
  if (isAsked || options.ubatch > 0)
    tryLength(usual);
  setStepTokens(module, best->stepTokens);
  return best;
}
