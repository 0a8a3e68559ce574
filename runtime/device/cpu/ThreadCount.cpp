#include "runtime/device/cpu/ThreadCount.h"

#include "runtime/base/ControlGroups.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace moert {

CpuBudget cpuBudget(const Topology &topology, double quota) {
  std::set<int> cores;
  for (const CpuPlace &place : topology)
    cores.insert(place.core);
  int cpus = int(topology.size());
  if (quota > 0)
    cpus = int(std::clamp(std::ceil(quota), 1.0, double(cpus)));
  CpuBudget budget{std::min(int(cores.size()), cpus), cpus, quota};
  for (int mark : teamMarks(topology))
    if (mark < cpus)
      budget.marks.push_back(mark);
  budget.marks.push_back(cpus);
  return budget;
}

CpuBudget readCpuBudget(const std::string &systemRoot,
                        const std::string &processRoot) {
  return cpuBudget(readTopology(allowedCpus(), systemRoot),
                   cpuQuota(systemRoot, processRoot));
}

StatusOr<TeamRange> resolveThreads(int threads, const CpuBudget &budget) {
  if (threads < 0 || threads > budget.cpus)
    return Status(StatusCode::Usage,
                  fmt::format("{} threads were requested, but this process may "
                              "use 1 to {} (it has {})",
                              threads, budget.cpus,
                              counted(budget.cores, "physical core")));
  TeamRange range{1, budget.cores, budget.cpus, budget.marks};
  if (threads > 0) {
    range.first = range.most = threads;
    std::erase_if(range.marks, [&](int mark) { return mark > threads; });
  }
  if (budget.quota > 0) {
    range.unstopped = std::max(1, int(budget.quota));
    range.marks.push_back(std::min(range.unstopped, range.most));
  }
  return range;
}

} // namespace moert
