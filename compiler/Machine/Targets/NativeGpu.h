//===- NativeGpu.h - Measures this machine's GPUs ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_NATIVEGPU_H
#define MOE_COMPILER_MACHINE_TARGETS_NATIVEGPU_H

#include "compiler/Machine/Targets/Target.h"
#include "runtime/device/cuda/CudaCalibrate.h"

#include <functional>

namespace moec {

struct NativeGpus {
  std::vector<DeviceDesc> devices;
  /// One message for each GPU that is left out, with the reason.
  std::vector<std::string> notes;
};

/// Describes the GPUs of this machine. Memory and link are measured, matrix
/// rates are computed from published figures; `source` says so. `cudaLibrary`
/// is the driver to open. A machine without a driver has no GPU, which needs no
/// note. `progress` receives a GPU's name before it is measured.
NativeGpus
measureGpus(const std::string &cudaLibrary,
            const moert::CudaCalibrationOptions &options,
            const std::function<void(const std::string &)> &progress);

/// Describes the GPUs that measureGpus() would measure, with assumed rates and
/// all of their memory free.
std::vector<DeviceDesc> assumedGpus(const std::string &cudaLibrary);

/// Returns the titles of the GPUs that measureGpus() would measure.
std::vector<std::string> plannableGpus(const std::string &cudaLibrary);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_NATIVEGPU_H
