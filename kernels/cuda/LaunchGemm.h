//===- LaunchGemm.h - Launches of matrix products ---------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LAUNCHGEMM_H
#define MOE_KERNELS_CUDA_LAUNCHGEMM_H

#include "kernels/cuda/Launch.h"

#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace moek::cuda {

constexpr uint32_t blocksFor(int64_t count, int64_t perBlock) {
  return uint32_t((count + perBlock - 1) / perBlock);
}

template <class Args>
Launch makeLaunch(KernelSpec spec, std::initializer_list<uint32_t> grid,
                  uint32_t threads, uint32_t sharedBytes, const Args &args) {
  static_assert(sizeof(Args) <= kMaxArgBytes &&
                std::is_trivially_copyable_v<Args>);
  Launch launch;
  launch.kernel = std::move(spec);
  size_t i = 0;
  for (uint32_t size : grid)
    launch.grid[i++] = size;
  launch.threads = threads;
  launch.sharedBytes = sharedBytes;
  std::memcpy(launch.args.data(), &args, sizeof(args));
  launch.argBytes = sizeof(args);
  return launch;
}

inline Matrix matrixOf(const WeightView &w) {
  return {w.data, w.rows, w.cols, w.outerStride, w.rowStride};
}

/// What a kernel's name has for one that is not SiLU.
const char *activationSuffix(Activation activation);

/// Compiles `spec` for a weight format; false if that has no kernels.
bool addFormat(KernelSpec &spec, Format format);

/// Of Linear, GateUp, HeadLinear, ExpertsLinear, ExpertsGateUp.
/// With context.parts what is streamed of the latter two.
std::vector<Launch> gemmLaunches(OpCode op, const void *args,
                                 const LaunchContext &context);

/// Of the slots of such an instruction.
int64_t slotBytes(OpCode op, const void *args, const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCHGEMM_H
