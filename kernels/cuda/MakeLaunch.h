//===- MakeLaunch.h - What launches are put together of ---------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_MAKELAUNCH_H
#define MOE_KERNELS_CUDA_MAKELAUNCH_H

#include "kernels/Registry.h"
#include "kernels/cuda/Launch.h"

#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace moek::cuda {

/// Of most kernels' blocks.
inline constexpr uint32_t kThreads = 256;

constexpr uint32_t blocksFor(int64_t count, int64_t perBlock) {
  return uint32_t((count + perBlock - 1) / perBlock);
}

/// Blocks of `perBlock` of a step's rows each, none of which has rows of two
/// sequences: blocks are numbered through all of them.
constexpr uint32_t tilesFor(const LaunchContext &context, int64_t rowsPerToken,
                            int64_t perBlock) {
  return blocksFor(context.maxTokens * rowsPerToken, perBlock) +
         uint32_t(context.maxSequences) - 1;
}

constexpr uint32_t floatBytes(int64_t count) { return uint32_t(count) * 4; }

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
inline Kv kvOf(const KvView &kv) { return {kv.data, kv.width, kv.rowStride}; }

/// Whether LatentMma.cu takes rows of a cache: tensor cores of sm_80, columns
/// in whole steps of its four warps, of which it has registers for so many of
/// queries and of values, rows that are copied sixteen bytes at a time.
inline bool hasLatentMma(const KvView &kv, int64_t latent, int64_t width,
                         const LaunchContext &context) {
  auto address = reinterpret_cast<uintptr_t>(kv.data);
  return context.arch >= 80 &&
         (kv.type == KvType::F16 || kv.type == KvType::BF16) &&
         latent % 64 == 0 && width % 64 == 0 && width <= 576 && latent <= 512 &&
         kv.rowStride % 16 == 0 && address % 16 == 0;
}

/// Of such columns; blocks are sixteen heads, of so many threads.
inline constexpr uint32_t kLatentMmaHeads = 16, kLatentMmaThreads = 128;
inline constexpr char kLatentMmaFile[] = "kernels/cuda/LatentMma.cu";
inline void addLatentMma(KernelSpec &spec, int64_t latent, int64_t width) {
  std::string cols = std::to_string(latent),
              more = std::to_string(width - latent);
  spec.file = kLatentMmaFile;
  spec.entry += "_" + cols + "_" + more;
  spec.defines.push_back("MOE_LATENT=" + cols);
  spec.defines.push_back("MOE_ROPE=" + more);
}
/// As Shared in the file.
constexpr uint32_t latentMmaBytes(int64_t width) {
  constexpr int64_t kHeads = kLatentMmaHeads, kKeys = 32, kWarps = 4;
  return uint32_t(2 * kKeys * (width * 2 + 16) +
                  kWarps * kHeads * (kKeys + 4) * 4 +
                  2 * kHeads * (kKeys + 8) * 2 + (kWarps + 1) * kHeads * 4);
}

/// Compiles `spec` for a type of cache.
inline void addKv(KernelSpec &spec, KvType type) {
  spec.entry += "_kv_" + std::string(kvTypeName(type));
  spec.defines.push_back("MOE_KV=" + std::to_string(int(type)));
}

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_MAKELAUNCH_H
