//===- KernelImages.h - Machine code of a plan's kernels --------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_KERNELIMAGES_H
#define MOE_COMPILER_SERIALIZE_KERNELIMAGES_H

#include "dialects/plan/Plan.h"
#include "runtime/base/Status.h"

#include <functional>
#include <string>
#include <vector>

namespace moec {

struct KernelImageOptions {
  /// Path of the NVRTC library; "" takes the newest one that is found.
  std::string nvrtc;
  /// Further compute capabilities * 10, besides those of the plan's GPUs.
  std::vector<int> archs;
  /// Folder of the cache of compiled kernels; "" for no cache.
  std::string cacheFolder;
  /// Called with the number of compiled kernels; a result of false cancels.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

/// Compiles the kernels of the program's modules and adds their images. Looks
/// for NVRTC only if there are modules. Fails with Unsupported if this machine
/// has no NVRTC or its NVRTC does not know a GPU, and with Usage for options
/// that contradict each other.
moert::Status addKernelImages(mlir::plan::ProgramOp program,
                              const KernelImageOptions &options);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_KERNELIMAGES_H
