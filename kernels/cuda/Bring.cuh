//===- Bring.cuh - Copies experts from the host's memory --------*- C++ -*-===//
//
// Experts whose weights are in pinned memory of the host are copied in parts to
// two buffers on the GPU that alternate. The launch that multiplies one part
// copies the next one to the other buffer (GemmPartArgs); a launch before them
// copies the first one (StreamExperts.cu). The GPU reads mapped pages of the
// host over the link. Only the GPU knows at that time which experts have rows,
// and it skips the others.
//
// A few blocks saturate a link: 32 blocks of 256 threads have 4 x 16 bytes each
// in flight, 512 KiB, where 64 GB/s times 2 us is 128 KB.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_BRING_CUH
#define MOE_KERNELS_CUDA_BRING_CUH

#include "kernels/cuda/Device.cuh"

/// Loads without allocating in L1, because the data is not read again.
MOE_DEVICE uint4 loadOfHost(const uint4 *p) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(p));
  return x;
}

/// Copies the share of thread `thread` of `threads`: every `threads`-th word of
/// sixteen bytes, with four loads in flight, or every `threads`-th byte if an
/// address is not a multiple of sixteen.
MOE_DEVICE void bringMatrix(const u8 *from, u8 *to, i64 bytes, i64 thread,
                            i64 threads) {
  i64 done = 0;
  if (((u64(from) | u64(to)) & 15) == 0) {
    const uint4 *source = (const uint4 *)from;
    uint4 *target = (uint4 *)to;
    i64 words = bytes / 16, i = thread;
    for (; i + 3 * threads < words; i += 4 * threads) {
      uint4 x[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        x[k] = loadOfHost(source + i + k * threads);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        target[i + k * threads] = x[k];
    }
#pragma unroll 1
    for (; i < words; i += threads)
      target[i] = loadOfHost(source + i);
    done = words * 16;
  }
#pragma unroll 1
  for (i64 i = done + thread; i < bytes; i += threads)
    to[i] = from[i];
}

/// Copies what `b` says with the first kBringBlocks blocks of a grid of
/// `blocks` blocks; the calling block is number `block`. Nothing is signalled:
/// the launch after this one reads the copies.
MOE_DEVICE void bring(const Bring &b, i64 block, i64 blocks) {
  if (blocks > kBringBlocks)
    blocks = kBringBlocks;
  if (block >= blocks)
    return;
  i64 thread = block * blockDim.x + threadIdx.x, threads = blocks * blockDim.x;
#pragma unroll 1
  for (int e = 0; e < b.count; ++e) {
    if (b.offsets[e] == b.offsets[e + 1])
      continue;
#pragma unroll 1
    for (int i = 0; i < 2; ++i)
      bringMatrix(b.from[i] + e * b.matrixBytes[i],
                  b.to[i] + e * b.matrixBytes[i], b.matrixBytes[i], thread,
                  threads);
  }
}

#endif // MOE_KERNELS_CUDA_BRING_CUH
