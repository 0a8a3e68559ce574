//===- NodeUse.h - How a plan uses memory nodes here ------------*- C++ -*-===//
//
// The compiler chooses how weights are placed on a machine with several memory
// (NUMA) nodes, from its description of such a machine
// (compiler/Machine/CostModel/MemoryNodes.h). The functions here apply that
// choice to the machine at hand: they place workers and memory.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_NODEUSE_H
#define MOE_RUNTIME_ENGINE_NODEUSE_H

#include "runtime/base/Topology.h"
#include "runtime/schema/plan_generated.h"

#include <string>
#include <vector>

namespace moert {

/// How workers and weights are placed: first the user's request, then the
/// decision.
struct NodeUse {
  int threads = 0; ///< See EngineOptions.
  bool pin = false, copyWeights = false;
  /// Nodes over which private memory and copies of weights are interleaved,
  /// page by page. If empty, memory comes from the node that touches it first.
  std::vector<int> interleaved = {};
  /// CPUs that pinned workers may use.
  Topology topology = {};
  /// A note for users; "" if the plan does not specify a use of nodes.
  std::string note = {};
};

/// Combines the user's request with the plan's choice, on a machine with the
/// CPUs of `topology`. With more than one node: Split pins workers and copies
/// to each node the part of the weights that it reads; Interleaved copies
/// weights; One puts all workers on the node with the most cores.
NodeUse chooseNodeUse(const fb::Plan &plan, NodeUse asked, Topology topology);

/// While an object of this class lives, memory that is first touched by this
/// thread, or by threads that it starts, is interleaved over `nodes`. With no
/// nodes it has no effect.
class InterleaveScope {
public:
  explicit InterleaveScope(const std::vector<int> &nodes);
  ~InterleaveScope();
  InterleaveScope(const InterleaveScope &) = delete;
  InterleaveScope &operator=(const InterleaveScope &) = delete;

private:
  bool isOn_;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_NODEUSE_H
