#include "runtime/device/cpu/CpuTopology.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sched.h>
#include <set>
#include <utility>

namespace moert {

namespace {
/// A topology number of `cpu`, or `fallback` where the kernel gives none.
int topologyNumber(int cpu, const char *what, int fallback) {
  std::ifstream file(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", cpu, what));
  int number;
  return file >> number ? number : fallback;
}

/// CPUs' worth of time that the cgroup grants, rounded up; `limit` if no quota
/// is set.
int quotaCpus(int limit) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  long long quota, period;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0)
    return limit; // "max 100000", or no cgroup v2
  long long cpus = (quota + period - 1) / period;
  return static_cast<int>(std::clamp<long long>(cpus, 1, limit));
}

std::vector<int> allowedCpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask))
        cpus.push_back(cpu);
  if (cpus.empty())
    cpus.push_back(0);
  return cpus;
}
} // namespace

CpuTopology readCpuTopology() {
  CpuTopology topology;
  std::vector<int> siblings;
  std::set<std::pair<int, int>> seen;
  for (int cpu : allowedCpus()) {
    std::pair<int, int> core(topologyNumber(cpu, "physical_package_id", 0),
                             topologyNumber(cpu, "core_id", cpu));
    (seen.insert(core).second ? topology.cpus : siblings).push_back(cpu);
  }
  topology.physicalCores = static_cast<int>(topology.cpus.size());
  topology.cpus.insert(topology.cpus.end(), siblings.begin(), siblings.end());
  topology.usableCpus = quotaCpus(static_cast<int>(topology.cpus.size()));
  topology.usableCores = std::min(topology.physicalCores, topology.usableCpus);
  return topology;
}

StatusOr<int> resolveThreads(int threads, const CpuTopology &topology) {
  if (threads == 0)
    return topology.usableCores;
  if (threads < 0 || threads > topology.usableCpus)
    return Status(
        StatusCode::Usage,
        fmt::format("{} threads were asked for, but this process may use 1 to "
                    "{} (it has {} physical cores)",
                    threads, topology.usableCpus, topology.usableCores));
  return threads;
}

} // namespace moert
