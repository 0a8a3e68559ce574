//===- ThreadCount.h - Chooses the number of workers ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H
#define MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H

#include "runtime/base/Status.h"
#include "runtime/base/Topology.h"

namespace moert {

/// CPUs of the machine that this process may use.
struct CpuBudget {
  int cores; ///< Physical cores: the first number of workers that is tried.
  int cpus;  ///< Logical CPUs: the maximum number of workers.
  /// CPU time that control groups grant, in CPUs; 0: no quota. It bounds the
  /// other two, rounded up.
  double quota = 0;
  /// Result of teamMarks(), up to `cpus`.
  std::vector<int> marks = {};
};

/// The numbers of workers among which a team may change while it runs.
struct TeamRange {
  int least = 1, first = 1, most = 1; ///< The order is least <= first <= most.
  /// Numbers where the speed may change abruptly; these are tried early.
  std::vector<int> marks = {};
  /// Teams of this size and larger are stopped by a quota until its period
  /// ends; 0: none is.
  int unstopped = 0;

  static TeamRange fixed(int team) { return {team, team, team}; }
  bool isFixed() const { return least == most; }
};

/// Returns what a process may use that has these CPUs and this quota.
CpuBudget cpuBudget(const Topology &topology, double quota);

/// Reads the affinity mask, the system's description of its CPUs and the quotas
/// of control groups. Tests use other roots.
CpuBudget readCpuBudget(const std::string &systemRoot = "/sys",
                        const std::string &processRoot = "/proc");

/// Returns the workers for a request of `threads`: at most so many, and as many
/// as are fastest; 0 sets no limit. A fixed number would be slower by a factor
/// while another program uses one of the CPUs. More than the number of CPUs is
/// a Usage error: workers spin at barriers, so more workers than CPUs are never
/// faster.
StatusOr<TeamRange> resolveThreads(int threads, const CpuBudget &budget);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H
