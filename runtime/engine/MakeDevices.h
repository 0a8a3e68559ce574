//===- MakeDevices.h - The devices that a plan names ------------*- C++ -*-===//
//
// The one place that knows which kinds of devices there are. CPU devices share
// the machine's cores: never more workers than cores, but one at least for
// each.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_MAKEDEVICES_H
#define MOE_RUNTIME_ENGINE_MAKEDEVICES_H

#include "runtime/device/Device.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moert {

struct BoundInstruction;
class ArgumentStore;

struct DeviceOptions {
  int threads = 1; ///< Of all CPU devices.
  /// By worker of all CPU devices; see CpuDeviceOptions.
  std::vector<int> cpus, nodes;
  /// See CpuDeviceOptions.
  std::function<void(BoundInstruction &, ArgumentStore &, size_t workers)>
      instrument;
  /// What GPUs are reached through; CudaDriver::kLibrary.
  std::string cudaLibrary = "libcuda.so.1";
};

using DeviceList = std::vector<std::unique_ptr<Device>>;

/// WrongMachine where the plan has a GPU and there is no driver for it.
Status checkGpus(const Plan &plan);

/// Those of `plan`, in its order, with nothing reserved. `plan` and `files`
/// outlive them. A plan's GPUs are the driver's, in its order. WrongMachine
/// where there is no driver for them.
StatusOr<DeviceList> makeDevices(const Plan &plan, const WeightFiles &files,
                                 DeviceOptions options);

/// The workers of each device, if `threads` are shared out in the ratio of the
/// CPU devices' cores: at least one for each of them, none for others.
std::vector<int32_t> teamsOf(const fb::Plan &plan, int threads);

/// What is listed by worker of all devices, by device; those for whom the list
/// has nothing get nothing.
std::vector<std::vector<int>> byDevice(std::span<const int32_t> teams,
                                       std::span<const int> workers);

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_MAKEDEVICES_H
