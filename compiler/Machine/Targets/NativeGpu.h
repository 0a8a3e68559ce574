//===- NativeGpu.h - Describing this machine's GPUs -------------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_NATIVEGPU_H
#define MOE_COMPILER_MACHINE_TARGETS_NATIVEGPU_H

#include "compiler/Machine/Targets/Target.h"
#include "runtime/device/cuda/CudaCalibrate.h"

#include <functional>

namespace moec {

struct NativeGpus {
  std::vector<DeviceDesc> devices;
  std::vector<std::string> notes; ///< Each GPU that is left out, and why.
};

/// The GPUs of this machine: memory and link measured, matrix rates computed
/// from published figures, as their `source` says. `cudaLibrary` is the driver
/// to open; a machine without one has no GPU, which needs no note. `progress`
/// receives a GPU's name before it is measured.
NativeGpus
measureGpus(const std::string &cudaLibrary,
            const moert::CudaCalibrationOptions &options,
            const std::function<void(const std::string &)> &progress);

/// Names, as titles of descriptions, of the GPUs that measureGpus() would
/// measure.
std::vector<std::string> plannableGpus(const std::string &cudaLibrary);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_NATIVEGPU_H
