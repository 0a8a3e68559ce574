//===- Topology.h - CPUs, cores and memory nodes ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_TOPOLOGY_H
#define MOE_RUNTIME_BASE_TOPOLOGY_H

#include <span>
#include <string>
#include <vector>

namespace moert {

/// The capacity of the fastest cores of a machine.
inline constexpr int kFullCapacity = 1024;

/// A logical CPU.
struct CpuPlace {
  int cpu;
  int core; ///< The core's lowest-numbered logical CPU.
  int node; ///< The memory (NUMA) node that is local.
  /// What its core does in a time, relative to kFullCapacity. Cores that differ
  /// by a fifth or less, as those of one kind do by their highest clocks, have
  /// the same figure.
  int capacity = kFullCapacity;

  bool operator==(const CpuPlace &) const = default;
};

/// The CPUs that a process may use, in ascending order; never empty.
using Topology = std::vector<CpuPlace>;

/// Returns the CPUs in this process's affinity mask, which a cpuset restricts.
std::vector<int> allowedCpus();

/// Returns the system's description of the CPUs in `allowed`, which must not be
/// empty. A CPU without description counts as a core of its own on the first
/// node, as fast as any. `root` is the system's folder; tests describe other
/// machines.
///
/// Capacities are those of cpuN/cpu_capacity. Where these are equal or missing,
/// but the system lists efficiency cores (devices/cpu_atom/cpus), one of those
/// counts as two thirds of a performance core at the same clock, and the
/// highest clocks are those of cpufreq/cpuinfo_max_freq.
Topology readTopology(std::span<const int> allowed,
                      const std::string &root = "/sys");

/// Returns the number of memory nodes of the machine, at least 1.
int countMemoryNodes(const std::string &root = "/sys");

/// The CPU and memory node of a worker.
struct WorkerPlace {
  int cpu, node;

  bool operator==(const WorkerPlace &) const = default;
};

/// Returns places for `workers`, at most as many as there are CPUs. Fast cores
/// are used before slow ones and those before hyper-thread siblings, and
/// workers are spread over nodes in proportion to their cores, so that all
/// memory channels are used. Places are in order of nodes: neighbouring workers
/// share a node.
std::vector<WorkerPlace> placeWorkers(const Topology &topology, int workers);

/// Returns the numbers of workers at which placeWorkers() has used up a kind of
/// CPU: the fastest cores, those of each slower kind, all CPUs; ascending.
std::vector<int> teamMarks(const Topology &topology);

/// Returns, for each of `workers` workers in the order of placeWorkers(), the
/// CPUs of its kind, among which the system may move it; empty if all cores are
/// equally fast, because then any CPU will do.
std::vector<std::vector<int>> workerCpus(const Topology &topology, int workers);

/// Memory that this thread touches first from now on comes from `node` as long
/// as it has any; -1 restores the system's default. A refusal by the system is
/// ignored.
void preferMemoryNode(int node);

/// Interleaves such memory over `nodes`, page by page.
void interleaveMemoryNodes(std::span<const int> nodes);

} // namespace moert

#endif // MOE_RUNTIME_BASE_TOPOLOGY_H
