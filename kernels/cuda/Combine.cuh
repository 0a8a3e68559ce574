//===- Combine.cuh - Combines the KV splits of attention --------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_COMBINE_CUH
#define MOE_KERNELS_CUDA_COMBINE_CUH

#include "kernels/cuda/Device.cuh"

constexpr int kMostSplits = 512; // Larger than any device's number of splits.
constexpr int kCombined = 64, kParts = 4;

/// Combines the sums of `used` KV splits of a token's head, weighted by
/// exp(maximum of the split - maximum of all), for 64 columns from `block` * 64
/// on. The row of a split is [heads * value sums | heads maxima | heads sums of
/// weights]; rows are `stride` apart. Needs 256 threads: four divide the splits
/// of a column by turns and their results are added in order.
MOE_DEVICE void combineSplits(const float *rows, i64 stride, int used, int heads,
                             int value, int head, int block, float *out) {
  __shared__ float factors[kMostSplits], parts[kParts][kCombined];
  __shared__ float inverse;
  const float *stats = rows + i64(heads) * value + head;
  if (threadIdx.x < 32) {
    int lane = threadIdx.x;
    float most = -infinity();
    for (int i = lane; i < used; i += 32)
      most = fmaxf(most, stats[i * stride]);
    most = warpMax(most);
    float shift = most == -infinity() ? 0 : most, total = 0;
    for (int i = lane; i < used; i += 32) {
      float factor = expf(stats[i * stride] - shift);
      factors[i] = factor;
      total = fmaf(factor, stats[i * stride + heads], total);
    }
    total = warpSum(total);
    if (lane == 0)
      inverse = 1 / total;
  }
  __syncthreads();
  int column = threadIdx.x % kCombined, part = threadIdx.x / kCombined;
  int c = block * kCombined + column;
  float sum = 0;
  if (c < value) {
    const float *x = rows + i64(head) * value + c;
#pragma unroll 8
    for (int i = part; i < used; i += kParts)
      sum = fmaf(factors[i], x[i * stride], sum);
  }
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
