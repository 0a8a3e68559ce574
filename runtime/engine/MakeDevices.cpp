#include "runtime/engine/MakeDevices.h"

#include "runtime/base/HostCpu.h"
#include "runtime/base/Text.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanWeights.h"
#include "runtime/plan/Recompile.h"

#include <algorithm>

namespace moert {

static bool isCpu(const fb::Plan &plan, size_t device) {
  return plan.devices()->Get(uint32_t(device))->kind() == fb::DeviceKind::Cpu;
}

std::vector<int32_t> workersByDevice(const fb::Plan &plan, int threads) {
  std::vector<int32_t> teams(count(plan.devices()));
  for (size_t i = 0; i < teams.size(); ++i)
    threads -= teams[i] = isCpu(plan, i);
  // Number of cores per worker if the device got one more worker; the device
  // with the largest number gets it.
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

StatusOr<TeamRange> workersFor(const fb::Plan &plan, int threads,
                               const CpuBudget &budget) {
  MOE_ASSIGN_OR_RETURN(TeamRange range, resolveThreads(threads, budget));
  return count(plan.devices()) > 1 ? TeamRange::fixed(range.first) : range;
}

/// Adds to `failure`, about a missing driver, how to run the plan's model
/// without its GPUs.
static Status adviseDriver(Status failure, const Plan &plan) {
  double weights = double(weightBytes(plan));
  double memory = double(hostMemoryLimit().bytes);
  if (weights <= memory)
    return std::move(failure).suggesting(
        recompile(Suggestion::DriverOrThisMachine, plan.table(), plan.path(),
                  {{"--target", "native"}}));
  return std::move(failure).append(fmt::format(
      "; install NVIDIA's driver, or use another machine: without the GPU, the "
      "model's weights of {} are more than this machine's {} of memory",
      humanBytes(weights), humanBytes(memory)));
}

/// Loads the driver; an error names device number `gpu`.
static StatusOr<std::shared_ptr<const CudaDriver>>
openDriver(const Plan &plan, uint32_t gpu, const std::string &library) {
  StatusOr<CudaDriver> driver = CudaDriver::load(library);
  if (driver)
    return std::make_shared<const CudaDriver>(*std::move(driver));
  return adviseDriver(driver.status(), plan)
      .at(fmt::format("{}: {} is a GPU", plan.path(),
                      text(plan.table().devices()->Get(gpu)->name())));
}

Status checkGpus(const Plan &plan) {
  for (uint32_t i = 0; i < count(plan.table().devices()); ++i)
    if (!isCpu(plan.table(), i))
      return openDriver(plan, i, DeviceOptions().cudaLibrary).status();
  return Status::ok();
}

StatusOr<DeviceList> makeDevices(const Plan &plan, const WeightFiles &files,
                                 DeviceOptions options) {
  DeviceList devices;
  std::vector<int32_t> teams = workersByDevice(plan.table(), options.threads);
  // The calling thread joins the largest thread pool, for which it would
  // otherwise wait longest.
  auto callers = size_t(std::ranges::max_element(teams) - teams.begin());
  auto cpus =
      splitByDevice(teams, std::span<const std::vector<int>>(options.cpus));
  auto nodes = splitByDevice(teams, std::span<const int>(options.nodes));
  std::shared_ptr<const CudaDriver> driver;
  std::shared_ptr<const CudaLinks> links;
  int gpus = 0;
  for (uint32_t i = 0; i < teams.size(); ++i) {
    if (!isCpu(plan.table(), i)) {
      if (!driver) {
        MOE_ASSIGN_OR_RETURN(driver, openDriver(plan, i, options.cudaLibrary));
        MOE_ASSIGN_OR_RETURN(links, CudaLinks::create(plan));
      }
      devices.push_back(std::make_unique<CudaDevice>(
          plan, i, files, driver, gpus++, links, options.cuda));
      continue;
    }
    CpuDeviceOptions device;
    device.team = teams[i];
    device.first = i == callers ? FirstWorker::Caller : FirstWorker::Thread;
    device.cpus = std::move(cpus[i]);
    device.nodes = std::move(nodes[i]);
    device.range = teams.size() == 1 && options.range
                       ? *options.range
                       : TeamRange::fixed(teams[i]);
    device.instrument = options.instrument;
    devices.push_back(
        std::make_unique<CpuDevice>(plan, i, files, std::move(device)));
  }
  return devices;
}

} // namespace moert
