//===- ThreadCount.h - How many workers -------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H
#define MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H

#include "runtime/base/Status.h"

namespace moert {

/// What this process may use of the machine.
struct CpuBudget {
  int cores; ///< Physical cores: the default team.
  int cpus;  ///< Logical CPUs: the largest team.
};

/// From the affinity mask and, where a control group sets one, the CPU quota.
CpuBudget readCpuBudget();

/// The team for a request of `threads`; 0 asks for one worker per core. More
/// than the CPUs is a Usage error: workers spin at barriers, so that more of
/// them than CPUs are slower, never faster.
StatusOr<int> resolveThreads(int threads, const CpuBudget &budget);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H
