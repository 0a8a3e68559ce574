//===- Combine.cuh - Combines the KV splits of attention --------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_COMBINE_CUH
#define MOE_KERNELS_CUDA_COMBINE_CUH

#include "kernels/cuda/Device.cuh"

constexpr int kMostSplits = 512; // kernels/Scratch.h: kMostKvSplits
/// Columns of a block, and threads that divide the splits of each.
constexpr int kCombined = MOE_COLUMNS, kParts = 256 / kCombined;
/// Loads of a thread that are in flight together: two round trips to memory
/// take as many splits as an RTX 4090 needs for sixteen heads.
constexpr int kAhead = 16;

/// Combines the sums of `used` KV splits of a token's head, weighted by
/// exp(maximum of the split - maximum of all), for kCombined columns from
/// `block` * kCombined on. The row of a split is [heads * value sums | heads
/// maxima | heads sums of weights]; rows are `stride` apart. Needs 256 threads:
/// those of a column take splits by turns and their results are added in order.
MOE_DEVICE void combineSplits(const float *rows, i64 stride, int used,
                              int heads, int value, int head, int block,
                              float *out) {
  __shared__ float factors[kMostSplits], parts[kParts][kCombined];
  __shared__ float inverse;
  int column = threadIdx.x % kCombined, part = threadIdx.x / kCombined;
  int c = block * kCombined + column;
  const float *x = rows + i64(head) * value + c;
  int end = c < value ? used : 0;
  // These loads need no factors.
  float ahead[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (part + j * kParts < end)
      ahead[j] = x[(part + j * kParts) * stride];
  if (threadIdx.x < 32) {
    const float *stats = rows + i64(heads) * value + head;
    constexpr int kEach = kMostSplits / 32;
    float maxima[kEach], sums[kEach], most = -infinity(), total = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (32 * j >= used)
        break;
      int i = threadIdx.x + 32 * j;
      maxima[j] = i < used ? stats[i * stride] : -infinity();
      sums[j] = i < used ? stats[i * stride + heads] : 0;
      most = fmaxf(most, maxima[j]);
    }
    most = warpMax(most);
    float shift = most == -infinity() ? 0 : most;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (32 * j >= used)
        break;
      float factor = expf(maxima[j] - shift);
      factors[threadIdx.x + 32 * j] = factor;
      total = fmaf(factor, sums[j], total);
    }
    total = warpSum(total);
    if (threadIdx.x == 0)
      inverse = 1 / total;
  }
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    int i = part + j * kParts;
    if (i < end)
      sum = fmaf(factors[i], ahead[j], sum);
  }
#pragma unroll 8
  for (int i = part + kAhead * kParts; i < end; i += kParts)
    sum = fmaf(factors[i], x[i * stride], sum);
  parts[part][column] = sum;
  __syncthreads();
  if (part != 0 || c >= value)
    return;
#pragma unroll
  for (int k = 1; k < kParts; ++k)
    sum += parts[k][column];
  out[i64(head) * value + c] = sum * inverse;
}

#endif // MOE_KERNELS_CUDA_COMBINE_CUH
