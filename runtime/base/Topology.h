//===- Topology.h - CPUs, cores and memory nodes ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_TOPOLOGY_H
#define MOE_RUNTIME_BASE_TOPOLOGY_H

#include <span>
#include <string>
#include <vector>

namespace moert {

/// A logical CPU.
struct CpuPlace {
  int cpu;
  int core; ///< Its lowest hyper-thread sibling.
  int node; ///< The memory node that it reads fastest.

  bool operator==(const CpuPlace &) const = default;
};

/// The CPUs that a process may use, ascending; never empty.
using Topology = std::vector<CpuPlace>;

/// The CPUs in this process's affinity mask, which a cpuset narrows.
std::vector<int> allowedCpus();

/// What the system tells about the CPUs in `allowed`, which is not empty. A CPU
/// that it tells nothing about is a core of its own on the first node. `root`
/// is where the system's folder is: tests describe other machines.
Topology readTopology(std::span<const int> allowed,
                      const std::string &root = "/sys");

/// Memory nodes of the machine, at least 1.
int countMemoryNodes(const std::string &root = "/sys");

/// Where a worker runs.
struct WorkerPlace {
  int cpu, node;

  bool operator==(const WorkerPlace &) const = default;
};

/// Places for `workers`, at most as many as CPUs: a core each before any
/// sibling, spread over nodes by how many cores they have, so that all of the
/// machine's memory channels work. In the order of nodes: neighbours in a
/// team share one.
std::vector<WorkerPlace> placeWorkers(const Topology &topology, int workers);

/// Memory that this thread touches first from now on comes from `node` while it
/// has some; -1 is the system's default again. Where the system refuses, memory
/// stays where it would have been.
void preferMemoryNode(int node);

/// The same, from `nodes` in turn, a page each.
void interleaveMemoryNodes(std::span<const int> nodes);

} // namespace moert

#endif // MOE_RUNTIME_BASE_TOPOLOGY_H
