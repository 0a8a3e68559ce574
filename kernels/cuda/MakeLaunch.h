//===- MakeLaunch.h - Helpers of the code that makes launches ---*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_MAKELAUNCH_H
#define MOE_KERNELS_CUDA_MAKELAUNCH_H

#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "kernels/cuda/DeviceArgs.h"
#include "kernels/cuda/Launch.h"

#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace moek::cuda {

/// Threads of most kernels' blocks.
inline constexpr uint32_t kThreads = 256;

constexpr uint32_t blocksFor(int64_t count, int64_t perBlock) {
  return uint32_t((count + perBlock - 1) / perBlock);
}

/// Returns the number of blocks for `perBlock` of a step's rows each, if no
/// block has rows of two sequences.
constexpr uint32_t tilesFor(const LaunchContext &context, int64_t rowsPerToken,
                            int64_t perBlock) {
  return blocksFor(context.maxTokens * rowsPerToken, perBlock) +
         uint32_t(context.maxSequences) - 1;
}

/// Returns the columns of a block of Combine.cuh: 64, so that many blocks hide
/// the latency of memory, or 128 where many heads make enough blocks; 32, one
/// per lane, if rows are not aligned to sixteen bytes, because a lane loads its
/// columns at once.
constexpr int64_t combinedColumns(int64_t heads, int64_t value,
                                  bool isAligned) {
  return !isAligned || value % 4 ? 32 : heads * value >= 128 * 256 ? 128 : 64;
}
inline KernelSpec combineSpec(const char *file, std::string entry,
                              int64_t columns) {
  return {
      file, entry + "_" + std::to_string(columns), {{"MOE_COLUMNS", columns}}};
}

constexpr uint32_t floatBytes(int64_t count) { return uint32_t(count) * 4; }

/// `args` is the struct of the kernel, which kernels/cuda/Abi.h has.
template <class Args>
Launch makeLaunch(KernelSpec spec, std::initializer_list<uint32_t> grid,
                  uint32_t threads, uint32_t sharedBytes, const Args &args,
                  const Fusion &fusion = {}) {
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
  launch.fusion = fusion;
  return launch;
}

/// Returns whether LatentMma.cu can read the rows of a cache. It needs the
/// tensor cores of sm_80, columns in whole steps of its four warps, of which it
/// has registers for 576 of queries and 512 of values, and rows that are copied
/// sixteen bytes at a time. Codes of Q8_0 are read by pages, not by lists, and
/// each warp has whole units of 32 columns.
inline bool hasLatentMma(const KvView &kv, int64_t latent, int64_t width,
                         bool isListed, const LaunchContext &context) {
  auto address = reinterpret_cast<uintptr_t>(kv.data);
  bool hasCodes = kv.type == KvType::Q8_0;
  return context.arch >= 80 && kv.type != KvType::F32 &&
         !(hasCodes && (isListed || latent % 128 != 0)) && latent % 64 == 0 &&
         width % 64 == 0 && width <= 576 && latent <= 512 &&
         kv.rowStride % (hasCodes ? 1 : 16) == 0 && address % 16 == 0;
}

/// A team of four warps of LatentMma.cu has sixteen heads.
inline constexpr uint32_t kLatentMmaHeads = 16, kLatentMmaThreads = 128;
inline constexpr char kLatentMmaFile[] = "kernels/cuda/LatentMma.cu";
inline constexpr Fusion kLatentMmaFusion = Fusion::wide();
/// Returns the teams of a block, which read a tile once for all their heads.
constexpr uint32_t latentMmaTeams(int64_t heads) {
  return heads > kLatentMmaHeads ? 2 : 1;
}
inline void addLatentMma(KernelSpec &spec, int64_t latent, int64_t width,
                         uint32_t teams) {
  spec.file = kLatentMmaFile;
  spec.entry += (teams > 1 ? "_2x_" : "_") + std::to_string(latent) + "_" +
                std::to_string(width - latent);
  spec.define("MOE_LATENT", latent);
  spec.define("MOE_ROPE", width - latent);
  spec.define("MOE_TEAMS", teams);
}
/// Bytes of the struct Shared of the file.
constexpr uint32_t latentMmaBytes(KvType type, int64_t width, uint32_t teams) {
  constexpr int64_t kHeads = kLatentMmaHeads, kKeys = 32, kWarps = 4;
  bool hasCodes = type == KvType::Q8_0;
  int64_t rowBytes = hasCodes ? kvRowBytes(type, width) : width * 2 + 16;
  int64_t team = kWarps * kHeads * (kKeys + 4) * 4 +
                 kHeads * (kKeys + (hasCodes ? 16 : 8)) * 4 +
                 (kWarps + 1) * kHeads * 4;
  return uint32_t(2 * kKeys * rowBytes + teams * team);
}

/// Specialises `spec` for a type of cache.
inline void addKv(KernelSpec &spec, KvType type) {
  spec.entry += "_kv_" + std::string(kvTypeName(type));
  spec.define("MOE_KV", int(type));
}

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_MAKELAUNCH_H
