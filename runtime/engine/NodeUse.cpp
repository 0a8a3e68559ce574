#include "runtime/engine/NodeUse.h"

#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <map>
#include <set>

namespace moert {

namespace {
/// Of the CPU that has weights of several nodes; null where none has.
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

/// The physical cores of each.
std::map<int, std::set<int>> coresByNode(const Topology &topology) {
  std::map<int, std::set<int>> cores;
  for (const CpuPlace &place : topology)
    cores[place.node].insert(place.core);
  return cores;
}
} // namespace

NodeUse useOfNodes(const fb::Plan &plan, NodeUse asked, Topology topology) {
  NodeUse use = std::move(asked);
  use.topology = std::move(topology);
  const fb::Device *device = planned(plan);
  std::set<int> nodes = nodesOf(use.topology);
  if (!device)
    return use;
  if (nodes.size() == 1) {
    use.note = fmt::format(
        "the plan is for {} memory nodes, and this process has the cores of "
        "one: predictions are of another machine",
        device->nodes());
    return use;
  }
  std::string as = ", as the plan says; --no-numa leaves them as they are";
  switch (device->node_use()) {
  case fb::NodeUse::Any:
    break;
  case fb::NodeUse::Split:
    use.pin = use.copyWeights = true;
    use.note = fmt::format("weights are copied, to each of {} memory nodes "
                           "what its cores read{}",
                           nodes.size(), as);
    break;
  case fb::NodeUse::Interleaved:
    use.copyWeights = true;
    use.interleaved.assign(nodes.begin(), nodes.end());
    use.note = fmt::format("weights are copied, to pages of {} memory nodes in "
                           "turn{}",
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
    if (use.threads == 0)
      use.threads = int(most->second.size());
    use.note = fmt::format("workers are on memory node {} of {}{}", most->first,
                           nodes.size(), as);
    break;
  }
  }
  return use;
}

InterleavedMemory::InterleavedMemory(const std::vector<int> &nodes)
    : isOn_(!nodes.empty()) {
  if (isOn_)
    interleaveMemoryNodes(nodes);
}

InterleavedMemory::~InterleavedMemory() {
  if (isOn_)
    preferMemoryNode(-1);
}

} // namespace moert
