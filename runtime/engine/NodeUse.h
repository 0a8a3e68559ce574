//===- NodeUse.h - How a plan uses memory nodes here ------------*- C++ -*-===//
//
// The compiler chooses how a machine with several memory nodes holds weights,
// by what it knows of one (compiler/Machine/CostModel/MemoryNodes.h). Here that
// becomes places of workers and of memory on the machine that there is.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_NODEUSE_H
#define MOE_RUNTIME_ENGINE_NODEUSE_H

#include "runtime/base/Topology.h"
#include "runtime/schema/plan_generated.h"

#include <string>
#include <vector>

namespace moert {

/// What an engine was asked for, and then does.
struct NodeUse {
  int threads = 0; ///< 0: one worker per physical core.
  bool pin = false, copyWeights = false;
  /// Private memory and copies of weights take pages of these in turn; none: of
  /// the node that touches them first.
  std::vector<int> interleaved = {};
  /// The CPUs for workers that are pinned.
  Topology topology = {};
  /// For people; "" where the plan says nothing of nodes.
  std::string note = {};
};

/// `asked` as the plan has it on a machine with the CPUs of `topology`, where
/// that has several nodes: split, workers are pinned and weights copied, each
/// node's part to its memory; interleaved, weights are copied; with one node,
/// workers are on the one with the most cores.
NodeUse useOfNodes(const fb::Plan &plan, NodeUse asked, Topology topology);

/// While it lives, memory that this thread touches first, and threads that it
/// starts, comes from `nodes` in turn; of none, from wherever it would.
class InterleavedMemory {
public:
  explicit InterleavedMemory(const std::vector<int> &nodes);
  ~InterleavedMemory();
  InterleavedMemory(const InterleavedMemory &) = delete;
  InterleavedMemory &operator=(const InterleavedMemory &) = delete;

private:
  bool isOn_;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_NODEUSE_H
