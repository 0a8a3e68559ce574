//===- Limits.h - Limits of GPUs for a kernel launch ------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_LIMITS_H
#define MOE_KERNELS_CUDA_LIMITS_H

#include <algorithm>
#include <cstdint>

namespace moek::cuda {

// CUDA C++ Programming Guide, "Technical specifications per compute
// capability", from 7.5 on.

/// Largest number of blocks of a grid in x, y and z; of threads of a block.
inline constexpr uint32_t kMaxGrid[3] = {INT32_MAX, 65535, 65535};
inline constexpr uint32_t kMaxThreads = 1024;
/// Largest shared memory of a block, which sm_90 and sm_100 have.
inline constexpr uint32_t kMaxSharedBytes = 227 * 1024;

/// Resources of a multiprocessor for its blocks.
struct Multiprocessor {
  int warps, blocks, sharedBytes;
  int registers = 64 * 1024;
};

constexpr Multiprocessor multiprocessorOf(int arch) {
  constexpr int kKiB = 1024;
  if (arch < 80)
    return {32, 16, 64 * kKiB};
  if (arch == 80)
    return {64, 32, 164 * kKiB};
  if (arch == 87) // Jetson Orin.
    return {48, 16, 164 * kKiB};
  if (arch < 89)
    return {48, 16, 100 * kKiB};
  if (arch < 90)
    return {48, 24, 100 * kKiB};
  if (arch < 110)
    return {64, 32, 228 * kKiB};
  return {48, 24, arch < 120 ? 228 * kKiB : 100 * kKiB};
}

/// Returns the largest shared memory of a block, static and dynamic together.
constexpr int64_t maxSharedBytes(int arch) {
  return multiprocessorOf(arch).sharedBytes - (arch < 80 ? 0 : 1024);
}

/// Returns how many warps a multiprocessor holds at once, for blocks of
/// `threads` threads with `registers` registers each and `sharedBytes` of
/// static and dynamic shared memory; 0 if a block does not fit.
constexpr int residentWarps(int arch, int threads, int registers,
                            int64_t sharedBytes) {
  Multiprocessor sm = multiprocessorOf(arch);
  int warps = (threads + 31) / 32;
  // Each quarter of a multiprocessor has a quarter of the registers and
  // allocates them to warps in units of 256. From sm_80 on a block takes 1 KiB
  // of shared memory more.
  int each = std::max((registers * 32 + 255) / 256 * 256, 256);
  int byRegisters = sm.registers / 4 / each * 4 / std::max(warps, 1);
  int64_t shared = sharedBytes + (arch < 80 ? 0 : 1024);
  int64_t byShared = shared > 0 ? sm.sharedBytes / shared : int64_t(sm.blocks);
  int64_t blocks = std::min<int64_t>(
      {sm.blocks, sm.warps / std::max(warps, 1), byRegisters, byShared});
  return int(blocks) * warps;
}

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LIMITS_H
