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
  /// The library; "": the newest that is found.
  std::string nvrtc;
  /// Compute capabilities * 10 besides those of the plan's GPUs.
  std::vector<int> archs;
  /// Where compiled kernels are kept; "": nowhere.
  std::string cacheFolder;
  /// Called with how many of the kernels are compiled; false gives up.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

/// Compiles the kernels of the program's modules and adds their images. Nothing
/// is looked for where there are none. Unsupported where this machine has no
/// NVRTC, or one that does not know a GPU; Usage for options that make no
/// sense.
moert::Status addKernelImages(mlir::plan::ProgramOp program,
                              const KernelImageOptions &options);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_KERNELIMAGES_H
