// Copy: a thread copies sixteen bytes at a time if the addresses allow it, else
// one.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, CopyArgs) {
  i64 bytes = a.step->tokens * a.tokenBytes + a.fixedBytes;
  i64 thread = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  i64 threads = i64(gridDim.x) * blockDim.x;
  i64 done = 0;
  if (((u64(a.x) | u64(a.out)) & 15) == 0) {
    done = bytes / 16 * 16;
    i64 words = bytes / 16, i = thread;
    const uint4 *from = (const uint4 *)a.x;
    uint4 *to = (uint4 *)a.out;
    for (; i + threads < words; i += 2 * threads) {
      // Both loads are in flight together.
      uint4 one = from[i], other = from[i + threads];
      to[i] = one;
      to[i + threads] = other;
    }
    if (i < words)
      to[i] = from[i];
  }
  for (i64 i = done + thread; i < bytes; i += threads)
    a.out[i] = a.x[i];
}
