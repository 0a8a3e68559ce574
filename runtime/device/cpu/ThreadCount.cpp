#include "runtime/device/cpu/ThreadCount.h"

#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <sched.h>

namespace moert {

namespace {
/// Returns the CPU time that the control group grants, in CPUs, rounded up, or
/// `limit` if it sets no quota.
int quotaCpus(int limit) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  long long quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0)
    return limit; // "max 100000", or no control groups of version 2.
  long long cpus = (quota + period - 1) / period;
  return static_cast<int>(std::clamp<long long>(cpus, 1, limit));
}
} // namespace

CpuBudget readCpuBudget() {
  int cores = static_cast<int>(physicalCores().size());
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int allowed = ::sched_getaffinity(0, sizeof(mask), &mask) == 0
                    ? std::max(CPU_COUNT(&mask), cores)
                    : cores;
  int cpus = quotaCpus(allowed);
  return {std::min(cores, cpus), cpus};
}

StatusOr<int> resolveThreads(int threads, const CpuBudget &budget) {
  if (threads == 0)
    return budget.cores;
  if (threads < 0 || threads > budget.cpus)
    return Status(StatusCode::Usage,
                  fmt::format("{} threads were requested, but this process may "
                              "use 1 to {} (it has {})",
                              threads, budget.cpus,
                              counted(budget.cores, "physical core")));
  return threads;
}

} // namespace moert
