// ResidualMix: the sum of a row and of those on its stack, weighted by the
// softmax of their scores. The score of a row is the product of row / rms(row)
// and `weight`. A block has one token; what it reads twice is in L2.

#include "kernels/cuda/Rms.cuh"

constexpr int kMostRows = 64; // The maximum is moek::kMaxResiduals + 1.

MOE_KERNEL(512, 1, ResidualMixArgs) {
  __shared__ float squares[32], products[32], weights[kMostRows];
  int t = blockIdx.x, cols = int(a.cols);
  if (t >= a.step->tokens)
    return;
  const float *x = a.x + t * a.xStride, *stack = a.stack + t * a.stackStride;
  for (int i = 0; i <= a.count; ++i) {
    const float *row = i < a.count ? stack + i64(i) * cols : x;
    float scale = rmsScale(row, cols, a.eps, squares), sum = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
      sum = fmaf(row[c], a.weight[c], sum);
    sum = blockSum(sum, products);
    if (threadIdx.x == 0)
      weights[i] = sum * scale;
  }
  __syncthreads();
  float most = -infinity(), all = 0;
  for (int i = 0; i <= a.count; ++i)
    most = fmaxf(most, weights[i]);
  for (int i = 0; i <= a.count; ++i)
    all +=
        expf(weights[i] - most); // fmaxf drops a NaN, but the sum becomes NaN.
  float *out = a.out + t * a.outStride;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float sum = expf(weights[a.count] - most) * x[c];
    for (int i = 0; i < a.count; ++i)
      sum = fmaf(expf(weights[i] - most), stack[i64(i) * cols + c], sum);
    out[c] = sum / all;
  }
}
