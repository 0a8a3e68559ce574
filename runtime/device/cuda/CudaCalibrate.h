//===- CudaCalibrate.h - What a GPU's memory and link do --------*- C++ -*-===//
//
// The counterpart of device/cpu/Calibrate.h, by copies alone: no kernel is
// needed, so matrix rates are not measured (CudaPeak.h computes them).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDACALIBRATE_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDACALIBRATE_H

#include "runtime/device/cuda/CudaDriver.h"

namespace moert {

struct CudaLimits {
  /// Of copies within the device, each byte counted as read and as written.
  double memoryBytesPerSecond = 0;
  /// Of copies from and to pinned host memory.
  double toDeviceBytesPerSecond = 0, toHostBytesPerSecond = 0;
  /// From asking for a small copy to the device until the host sees its event.
  double copyLatencySeconds = 0;
  /// Before anything was measured, but with our context open.
  uint64_t freeBytes = 0;
};

struct CudaCalibrationOptions {
  /// How long each measurement is repeated; the fastest run counts.
  double seconds = 0.3;
};

/// Fails with DoesNotFit where too little device memory is free, and with the
/// driver's reason where one of its calls fails.
StatusOr<CudaLimits>
measureCudaDevice(const CudaDriver &driver, const CudaGpu &device,
                  const CudaCalibrationOptions &options = {});

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDACALIBRATE_H
