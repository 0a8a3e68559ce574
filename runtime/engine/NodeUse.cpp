#include "runtime/engine/NodeUse.h"

#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <map>
#include <set>

namespace moert {

namespace {
/// Returns the CPU device whose weights span several nodes, or null if none
/// does.
const fb::Device *planned(const fb::Plan &plan) {
  for (uint32_t i = 0; i < count(plan.devices()); ++i)
    if (const fb::Device *device = plan.devices()->Get(i);
        device->node_use() != fb::NodeUse::Any)
      return device;
  return nullptr;
}

std::set<int> nodesOf(const Topology &topology) {
  std::set<int> nodes;
  for (const CpuPlace &place : topology)
    nodes.insert(place.node);
  return nodes;
}

/// Returns the physical cores of each node.
std::map<int, std::set<int>> coresByNode(const Topology &topology) {
  std::map<int, std::set<int>> cores;
  for (const CpuPlace &place : topology)
    cores[place.node].insert(place.core);
  return cores;
}
} // namespace

NodeUse chooseNodeUse(const fb::Plan &plan, NodeUse asked, Topology topology) {
  NodeUse use = std::move(asked);
  use.topology = std::move(topology);
  const fb::Device *device = planned(plan);
  std::set<int> nodes = nodesOf(use.topology);
  if (!device)
    return use;
  if (nodes.size() == 1) {
    use.note = fmt::format(
        "the plan is for {} memory nodes, but this process may use the cores "
        "of only one: predicted speeds do not apply here",
        device->nodes());
    return use;
  }
  std::string as = ", as the plan says; --no-numa turns this off";
  switch (device->node_use()) {
  case fb::NodeUse::Any:
    break;
  case fb::NodeUse::Split:
    use.pin = use.copyWeights = true;
    use.note = fmt::format("weights are copied: each of {} memory nodes gets "
                           "the part that its cores read{}",
                           nodes.size(), as);
    break;
  case fb::NodeUse::Interleaved:
    use.copyWeights = true;
    use.interleaved.assign(nodes.begin(), nodes.end());
    use.note = fmt::format("weights are copied, page by page, to {} memory "
                           "nodes in turn{}",
                           nodes.size(), as);
    break;
  case fb::NodeUse::One: {
    use.pin = true;
    auto cores = coresByNode(use.topology);
    auto most = std::ranges::max_element(
        cores, {}, [](const auto &node) { return node.second.size(); });
    std::erase_if(use.topology, [&](const CpuPlace &place) {
      return place.node != most->first;
    });
    use.note = fmt::format("workers run on memory node {} of {}{}", most->first,
                           nodes.size(), as);
    break;
  }
  }
  return use;
}

InterleaveScope::InterleaveScope(const std::vector<int> &nodes)
    : isOn_(!nodes.empty()) {
  if (isOn_)
    interleaveMemoryNodes(nodes);
}

InterleaveScope::~InterleaveScope() {
  if (isOn_)
    preferMemoryNode(-1);
}

} // namespace moert
