//===- ThreadCount.h - Chooses the number of workers ------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H
#define MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H

#include "runtime/base/Status.h"

namespace moert {

/// CPUs of the machine that this process may use.
struct CpuBudget {
  int cores; ///< Physical cores: the default number of workers.
  int cpus;  ///< Logical CPUs: the maximum number of workers.
};

/// Reads the affinity mask and, if a control group sets one, the CPU quota.
CpuBudget readCpuBudget();

/// Returns the number of workers for a request of `threads`; 0 asks for one per
/// core. More than the number of CPUs is a Usage error: workers spin at
/// barriers, so more workers than CPUs are never faster.
StatusOr<int> resolveThreads(int threads, const CpuBudget &budget);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_THREADCOUNT_H
