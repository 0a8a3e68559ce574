//===- MakeDevices.h - The devices that a plan names ------------*- C++ -*-===//
//
// Only this file knows which kinds of devices exist. The CPU devices of a plan
// share the machine's cores: together they have no more workers than cores, but
// each has at least one.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_MAKEDEVICES_H
#define MOE_RUNTIME_ENGINE_MAKEDEVICES_H

#include "runtime/device/Device.h"
#include "runtime/device/cpu/ThreadCount.h"
#include "runtime/device/cuda/CudaSync.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moert {

struct BoundInstruction;
class ArgumentStore;

struct DeviceOptions {
  int threads = 1; ///< Threads that all CPU devices share.
  /// One entry per worker of all CPU devices; see CpuDeviceOptions.
  std::vector<std::vector<int>> cpus;
  std::vector<int> nodes;
  /// How many workers may run a step if the plan has a single device; all run
  /// every step if this is empty.
  std::optional<TeamRange> range = {};
  /// See CpuDeviceOptions.
  std::function<void(BoundInstruction &, ArgumentStore &, size_t workers)>
      instrument;
  /// Library of the GPU driver; the default is CudaDriver::kLibrary.
  std::string cudaLibrary = "libcuda.so.1";
  CudaOptions cuda = {}; ///< Options of all GPUs.
};

using DeviceList = std::vector<std::unique_ptr<Device>>;

/// Fails with WrongMachine if the plan has a GPU but there is no driver for it.
Status checkGpus(const Plan &plan);

/// Returns the devices of `plan`, in its order, without reserving their memory.
/// `plan` and `files` must outlive them. The plan's GPUs are those of the
/// driver, in the driver's order. Fails with WrongMachine if there is no
/// driver.
StatusOr<DeviceList> makeDevices(const Plan &plan, const WeightFiles &files,
                                 DeviceOptions options);

/// Distributes `threads` over the CPU devices in proportion to their cores, and
/// returns the number of workers of each device: at least one for each CPU,
/// zero for other devices.
std::vector<int32_t> workersByDevice(const fb::Plan &plan, int threads);

/// Returns the workers for a request of `threads`; see resolveThreads(). If the
/// plan has several devices, the team does not change: they run at the same
/// time, so step times do not show which number of workers is best.
StatusOr<TeamRange> workersFor(const fb::Plan &plan, int threads,
                               const CpuBudget &budget);

/// Splits a list with one entry per worker of all devices into one list per
/// device. If the list is too short, the last devices get fewer entries or
/// none.
template <class Entry>
std::vector<std::vector<Entry>> splitByDevice(std::span<const int32_t> teams,
                                              std::span<const Entry> workers) {
  std::vector<std::vector<Entry>> lists;
  for (int32_t team : teams) {
    auto own = workers.first(std::min(size_t(team), workers.size()));
    lists.emplace_back(own.begin(), own.end());
    workers = workers.subspan(own.size());
  }
  return lists;
}

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_MAKEDEVICES_H
