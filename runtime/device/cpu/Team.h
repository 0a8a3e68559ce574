//===- Team.h - Creates the workers of an executor --------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_TEAM_H
#define MOE_RUNTIME_DEVICE_CPU_TEAM_H

#include "kernels/Types.h"

#include <algorithm>
#include <span>
#include <vector>

namespace moert {

/// Returns `count` workers without scratch memory. `nodes` has each worker's
/// memory node in ascending order; empty if all workers share one.
inline std::vector<moek::Worker> makeWorkers(int32_t count,
                                             std::span<const int> nodes) {
  std::vector<moek::Worker> team;
  for (int32_t i = 0; i < count; ++i) {
    moek::Worker worker{i, count, nullptr};
    if (!nodes.empty()) {
      auto same = std::ranges::equal_range(nodes, nodes[size_t(i)]);
      worker.nodeBegin = int32_t(same.begin() - nodes.begin());
      worker.nodeEnd = int32_t(same.end() - nodes.begin());
    }
    team.push_back(worker);
  }
  return team;
}

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_TEAM_H
