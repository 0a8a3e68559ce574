//===- CudaDriver.h - The CUDA driver, opened at run time -------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDADRIVER_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDADRIVER_H

#include "runtime/base/Status.h"
#include "runtime/device/cuda/CudaApi.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace moert {

/// Properties of a GPU as reported by its driver. Values that the driver does
/// not report are 0 or "" where that is not an error.
struct CudaGpu {
  cu::Device handle = 0;
  std::string name;
  int arch = 0; ///< Compute capability * 10: 89 for 8.9.
  int multiprocessors = 0;
  uint64_t memoryBytes = 0;
  uint64_t l2Bytes = 0;
  double clockHz = 0;       ///< Maximum.
  double memoryClockHz = 0; ///< Maximum.
  int memoryBusBits = 0;    ///< Width of its memory.
  bool sharesHostMemory = false;
  /// The driver ends a kernel that takes longer than some seconds.
  bool hasTimeLimit = false;
  std::string pciAddress; ///< "0000:01:00.0".

  /// Peak bandwidth of its memory: two transfers per clock.
  double peakBytesPerSecond() const {
    return 2 * memoryClockHz * memoryBusBits / 8;
  }
};

/// An initialised driver with at least one device.
class CudaDriver {
public:
  static constexpr const char *kLibrary = "libcuda.so.1";

  /// Fails with WrongMachine if this machine has no CUDA driver or no GPU, with
  /// Unsupported if the driver lacks a call that we need, and with Io if the
  /// driver does not start.
  static StatusOr<CudaDriver> load(const std::string &library = kLibrary);

  const cu::Api &api() const { return api_; }
  int deviceCount() const { return deviceCount_; }
  StatusOr<CudaGpu> describe(int ordinal) const;

  /// Returns the error of a driver call under the driver's name, such as
  /// "allocating 2 GiB of device memory: CUDA_ERROR_OUT_OF_MEMORY (2: out of
  /// memory)". The code is DoesNotFit for lack of memory, WrongMachine for lack
  /// of devices, Unsupported if driver or GPU cannot do it, else Io.
  Status check(cu::Result result, std::string_view action) const;

private:
  using Library = std::unique_ptr<void, int (*)(void *)>;
  explicit CudaDriver(Library library) : library_(std::move(library)) {}
  /// Fills api_.
  Status findCalls(const std::string &library);

  Library library_;
  cu::Api api_;
  int deviceCount_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDADRIVER_H
