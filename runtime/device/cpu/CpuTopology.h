//===- CpuTopology.h - Which cores may be used ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_CPUTOPOLOGY_H
#define MOE_RUNTIME_DEVICE_CPU_CPUTOPOLOGY_H

#include "runtime/base/Status.h"

#include <vector>

namespace moert {

/// The part of the machine that this process may use.
struct CpuTopology {
  /// Logical CPUs of the affinity mask: first one of each physical core, then
  /// their hyper-thread siblings.
  std::vector<int> cpus;
  int physicalCores = 1; ///< Leading entries of `cpus`.
  /// Of the above, what a container's CPU quota leaves; at least 1.
  int usableCores = 1;
  int usableCpus = 1;
};

CpuTopology readCpuTopology();

/// The worker count for a request of `threads` (0: one per usable physical
/// core). More than the usable CPUs is a Usage error: workers wait by spinning,
/// so that more of them than CPUs are slower, not faster.
StatusOr<int> resolveThreads(int threads, const CpuTopology &topology);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_CPUTOPOLOGY_H
