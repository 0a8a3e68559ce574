#include "passes/moe/placement/NodeUses.h"

#include "compiler/Machine/CostModel/MemoryNodes.h"
#include "compiler/Machine/Targets/TargetAttr.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"

namespace mlir::moe {
#define GEN_PASS_DEF_USENODESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;
using moec::NodeUse;

StringRef moe::textOf(NodeUse use) {
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

FailureOr<std::vector<moec::TargetDesc>>
moe::withNodeUses(ModuleOp module, const moec::TargetDesc &target,
                  StringRef numa) {
  const moec::DeviceDesc &host = target.host();
  std::optional<NodeUse> asked;
  if (numa != "auto" && !(asked = moec::nodeUseFromName(numa.str())))
    return module.emitError() << "numa is \"" << numa << "\", expected auto, "
                              << "any, split, interleaved or one";
  const bool isAny = !asked || *asked == NodeUse::Any;
  if (host.numaNodes == 1 && !isAny)
    return userError(module,
                     host.name + " of " + target.name +
                         " has one memory node, so weights cannot be " +
                         textOf(*asked),
                     "compile without --numa");
  // There is nothing to choose.
  if (host.numaNodes == 1 || asked == NodeUse::Any ||
      host.nodeUse != NodeUse::Any)
    return std::vector{target};
  std::vector<moec::TargetDesc> targets;
  for (NodeUse use : {NodeUse::Split, NodeUse::Interleaved, NodeUse::One})
    if (auto used = moec::withNodes(host, use);
        used && (!asked || *asked == use)) {
      targets.push_back(target);
      targets.back().devices.back() = *std::move(used);
    }
  if (!targets.empty())
    return targets;
  if (!asked)
    return std::vector{target};
  return userError(module,
                   "the speed of " + host.name + " of " + target.name +
                       " with weights " + textOf(*asked) + " is unknown",
                   "add node_link_gbps to its description, remove its "
                   "measured kernels, or compile without --numa");
}

void moe::recordNodeUse(ModuleOp module, const moec::TargetDesc &target,
                        const Twine &why) {
  const moec::DeviceDesc &host = target.host();
  module->setAttr(kTargetAttr, moec::toAttr(module.getContext(), target));
  addNote(module,
          "weights of " + host.name + " are " + textOf(host.nodeUse) + why);
}

namespace {
struct UseNodes : moe::impl::UseNodesPassBase<UseNodes> {
  using UseNodesPassBase::UseNodesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    auto uses = withNodeUses(module, *target, numa);
    if (failed(uses))
      return signalPassFailure();
    if (numa != "auto" &&
        uses->front().host().nodeUse != target->host().nodeUse)
      recordNodeUse(module, uses->front(), ", as --numa says");
  }
};
} // namespace
