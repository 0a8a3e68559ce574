//===- CudaCalibrate.h - Measures a GPU's memory and link -------*- C++ -*-===//
//
// The counterpart of device/cpu/Calibrate.h. It measures copies, and reads of
// the host's memory by a kernel, as launches do that stream experts; matrix
// rates are computed (CudaPeak.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDACALIBRATE_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDACALIBRATE_H

#include "runtime/device/cuda/CudaDriver.h"

namespace moert {

struct CudaLimits {
  /// Rate of copies within the device; each byte counts as one read and one
  /// write.
  double memoryBytesPerSecond = 0;
  /// Rates of copies from and to pinned host memory.
  double toDeviceBytesPerSecond = 0, toHostBytesPerSecond = 0;
  /// Rate at which a kernel reads mapped host memory; 0: the driver does not
  /// compile PTX, or does not map memory.
  double kernelReadBytesPerSecond = 0;
  /// Time from requesting a small copy to the device until the host sees its
  /// event.
  double copyLatencySeconds = 0;
  /// Free memory before the measurements, but with our context open.
  uint64_t freeBytes = 0;
};

struct CudaCalibrationOptions {
  /// Duration of each measurement; the fastest run counts.
  double seconds = 0.3;
};

/// Fails with DoesNotFit if too little device memory is free, and with the
/// driver's error if one of its calls fails.
StatusOr<CudaLimits>
measureCudaDevice(const CudaDriver &driver, const CudaGpu &device,
                  const CudaCalibrationOptions &options = {});

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDACALIBRATE_H
