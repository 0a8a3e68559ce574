#include "runtime/device/MakeDevices.h"

#include "runtime/PlanAccess.h"
#include "runtime/device/cpu/CpuDevice.h"

#include <algorithm>

namespace moert {

static bool isCpu(const fb::Plan &plan, size_t device) {
  return plan.devices()->Get(uint32_t(device))->kind() == fb::DeviceKind::Cpu;
}

std::vector<int32_t> teamsOf(const fb::Plan &plan, int threads) {
  std::vector<int32_t> teams(count(plan.devices()));
  for (size_t i = 0; i < teams.size(); ++i)
    threads -= teams[i] = isCpu(plan, i);
  // What one more worker would make a worker's share of cores, where it is
  // largest.
  auto gain = [&](size_t i) {
    return isCpu(plan, i) ? double(plan.devices()->Get(uint32_t(i))->cores()) /
                                (teams[i] + 1)
                          : 0;
  };
  for (; threads > 0; --threads) {
    size_t best = 0;
    for (size_t i = 1; i < teams.size(); ++i)
      if (gain(i) > gain(best))
        best = i;
    teams[best] += isCpu(plan, best);
  }
  return teams;
}

std::vector<std::vector<int>> byDevice(std::span<const int32_t> teams,
                                       std::span<const int> workers) {
  std::vector<std::vector<int>> lists;
  for (int32_t team : teams) {
    auto own = workers.first(std::min(size_t(team), workers.size()));
    lists.emplace_back(own.begin(), own.end());
    workers = workers.subspan(own.size());
  }
  return lists;
}

StatusOr<DeviceList> makeDevices(const Plan &plan, const WeightFiles &files,
                                 DeviceOptions options) {
  DeviceList devices;
  std::vector<int32_t> teams = teamsOf(plan.table(), options.threads);
  // The caller works where it waits longest: with the largest team.
  auto callers = size_t(std::ranges::max_element(teams) - teams.begin());
  auto cpus = byDevice(teams, options.cpus);
  auto nodes = byDevice(teams, options.nodes);
  for (uint32_t i = 0; i < teams.size(); ++i) {
    if (!isCpu(plan.table(), i))
      return Status(
          StatusCode::WrongMachine,
          fmt::format("{}: {} is a GPU, and this moert runs on CPUs alone",
                      plan.path(),
                      text(plan.table().devices()->Get(i)->name())));
    CpuDeviceOptions device;
    device.team = teams[i];
    device.first = i == callers ? FirstWorker::Caller : FirstWorker::Thread;
    device.cpus = std::move(cpus[i]);
    device.nodes = std::move(nodes[i]);
    device.fixedTeam = teams.size() > 1;
    device.instrument = options.instrument;
    devices.push_back(
        std::make_unique<CpuDevice>(plan, i, files, std::move(device)));
  }
  return devices;
}

} // namespace moert
