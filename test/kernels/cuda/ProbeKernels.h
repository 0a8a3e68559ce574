//===- ProbeKernels.h - Kernels of gpu_probe --------------------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_CUDA_PROBEKERNELS_H
#define MOE_TEST_KERNELS_CUDA_PROBEKERNELS_H

namespace moek::test {

/// Words of a pattern, and so threads of patternRounds().
inline constexpr int kPatternWords = 64;

/// Flags are read and written by the instructions of kernels/cuda/Fused.cuh.
inline constexpr const char *kProbeKernels = R"(
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ __forceinline__ u32 acquire(const u32 *flag) {
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
               : "=r"(value) : "l"(flag) : "memory");
  return value;
}
static __device__ __forceinline__ void release(u32 *flag, u32 value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;"
               :: "l"(flag), "r"(value) : "memory");
}

extern "C" __global__ void nothing() {}

/// One thread signals the host and waits for its answer, `rounds` times.
/// from, to: [1] in host memory.
extern "C" __global__ void flagRounds(const u32 *from, u32 *to, u32 rounds) {
  for (u32 round = 1; round <= rounds; ++round) {
    release(to, round);
    while (acquire(from) != round)
      ;
  }
}

/// Word `i` of a round's pattern; the device's answer has its complement.
static __device__ __forceinline__ u32 patternOf(u32 round, u32 i) {
  u32 x = round * 0x9e3779b9u + i * 0x85ebca6bu;
  return x ^ x >> 15;
}

/// A block of 64 threads checks a pattern once the host's flag says that it is
/// there (the flag is the number of the round before), and answers with another:
/// what a layer whose experts the host has does (await() and signalHost()).
/// from, to: [1] in host memory. in, out: [64] in host memory, written anew in
/// every round. wrong: [64] on the device, sums of words that were not those of
/// the round.
extern "C" __global__ void patternRounds(const u32 *from, u32 *to,
                                         const u32 *in, u32 *out, u32 *wrong,
                                         u32 rounds) {
  u32 errors = 0, i = threadIdx.x;
  for (u32 round = 1; round <= rounds; ++round) {
    if (i < 32) {
      u32 flag;
      do
        flag = acquire(from);
      while (!__all_sync(0xffffffffu, flag == round - 1));
    }
    __syncthreads();
    errors += in[i] != patternOf(round, i);
    out[i] = ~patternOf(round, i);
    __threadfence_system();
    __syncthreads();
    if (i == 0)
      release(to, round);
  }
  wrong[i] = errors;
}

/// x: [count].
extern "C" __global__ void __launch_bounds__(256) fill(uint4 *x, u64 count) {
  u64 threads = u64(gridDim.x) * blockDim.x;
  for (u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x; at < count;
       at += threads)
    x[at] = {u32(at), u32(at) * 0x9e3779b9u, u32(at) * 0x85ebca6bu, 1};
}

/// Reads `count` vectors of 16 bytes, eight in flight a thread.
/// x: [count]. sink: [1], written if the sum is a number that it is not.
extern "C" __global__ void __launch_bounds__(256)
    readAll(const uint4 *x, u32 *sink, u64 count) {
  u64 threads = u64(gridDim.x) * blockDim.x;
  u64 at = u64(blockIdx.x) * blockDim.x + threadIdx.x;
  u32 sum = 0;
  for (; at + 7 * threads < count; at += 8 * threads) {
    uint4 v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                   : "l"(x + at + j * threads));
#pragma unroll
    for (int j = 0; j < 8; ++j)
      sum += v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
  }
  for (; at < count; at += threads)
    sum += x[at].x;
  if (sum == 0x12345678u)
    *sink = sum;
}
)";

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_PROBEKERNELS_H
