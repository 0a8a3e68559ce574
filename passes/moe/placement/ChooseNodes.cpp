#include "compiler/Machine/CostModel/MemoryNodes.h"
#include "compiler/Machine/Targets/TargetAttr.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/placement/PlacementSearch.h"
#include "passes/moe/placement/SearchCounts.h"

namespace mlir::moe {
#define GEN_PASS_DEF_CHOOSENODESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;
using moec::NodeUse;

namespace {

/// Describes where weights lie, to complete "weights are ...".
StringRef textOf(NodeUse use) {
  switch (use) {
  case NodeUse::Any:
    return "anywhere";
  case NodeUse::Split:
    return "split, each node with the rows that its cores read";
  case NodeUse::Interleaved:
    return "interleaved over all nodes, page by page";
  case NodeUse::One:
    return "on one node, whose cores do everything";
  }
  llvm_unreachable("a use of nodes");
}

struct ChooseNodes : moe::impl::ChooseNodesPassBase<ChooseNodes> {
  using ChooseNodesPassBase::ChooseNodesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    std::optional<NodeUse> asked;
    if (numa != "auto")
      asked = moec::nodeUseFromName(numa.getValue());
    if (numa != "auto" && !asked) {
      module.emitError() << "numa is \"" << numa << "\", expected auto, any, "
                         << "split, interleaved or one";
      return signalPassFailure();
    }
    if (target->host().numaNodes == 1) {
      if (!asked || *asked == NodeUse::Any)
        return;
      (void)userError(module,
                      target->host().name + " of " + target->name +
                          " has one memory node, so weights cannot be " +
                          textOf(*asked),
                      "compile without --numa");
      return signalPassFailure();
    }
    // There is nothing to compare.
    if (asked == NodeUse::Any || target->host().nodeUse != NodeUse::Any)
      return;
    if (asked) {
      auto used = moec::withNodes(target->host(), *asked);
      if (!used) {
        (void)userError(module,
                        "the speed of " + target->host().name + " of " +
                            target->name + " with weights " + textOf(*asked) +
                            " is unknown",
                        "add node_link_gbps to its description, remove its "
                        "measured kernels, or compile without --numa");
        return signalPassFailure();
      }
      return set(module, *target, *used,
                 "weights of " + used->name + " are " + textOf(*asked) +
                     ", as --numa says");
    }
    choose(module, *target);
  }

private:
  /// Chooses the use of nodes with the fewest predicted seconds of a request.
  void choose(ModuleOp module, const moec::TargetDesc &target) {
    std::optional<moec::DeviceDesc> best;
    double fastest = 0;
    std::string compared;
    for (NodeUse option :
         {NodeUse::Split, NodeUse::Interleaved, NodeUse::One}) {
      auto used = moec::withNodes(target.host(), option);
      if (!used)
        continue;
      moec::TargetDesc with = target;
      with.devices.back() = *used;
      PlacementProblem problem(module, with);
      StepPrediction times(problem, with,
                           requestMix(optimizeFor, typicalPrompt, deferExperts),
                           weights != WeightsMode::Reference);
      auto placed = PlacementSearch(problem, with, times).run();
      double seconds = placed.predicted.request;
      SearchCounts(1, problem, times).addTo(module);
      compared += (compared.empty() ? "" : "; ") + textOf(option).str() + " " +
                  (placed.fits ? formatSeconds(seconds) : "does not fit");
      if (placed.fits && (!best || seconds < fastest)) {
        best = std::move(used);
        fastest = seconds;
      }
    }
    // Without a fit, moe-place-devices reports what is missing.
    if (!best)
      return;
    set(module, target, *best,
        "weights of " + best->name + " are " + textOf(best->nodeUse) +
            " (predicted for a request: " + compared + ")");
  }

  void set(ModuleOp module, moec::TargetDesc target,
           const moec::DeviceDesc &host, const Twine &note) {
    target.devices.back() = host;
    module->setAttr(kTargetAttr, moec::toAttr(module.getContext(), target));
    addNote(module, note);
  }
};

} // namespace
