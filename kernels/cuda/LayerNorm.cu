// LayerNorm: out = (x - mean) / deviation * weight + bias, for each token. A
// block has one token. Deviations are taken from the mean as rounded to a
// float. The error of the mean adds only its square to the variance, which is
// negligible.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, LayerNormArgs) {
  __shared__ float shared[2][32];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  const float *x = a.x + t * a.xStride;
  float *out = a.out + t * a.outStride;
  float sum = 0, squares = 0;
  for (int c = threadIdx.x; c < a.cols; c += blockDim.x)
    sum += x[c];
  float mean = blockSum(sum, shared[0]) / float(a.cols);
  for (int c = threadIdx.x; c < a.cols; c += blockDim.x)
    squares = fmaf(x[c] - mean, x[c] - mean, squares);
  float variance = blockSum(squares, shared[1]) / float(a.cols);
  float scale = 1.0f / sqrtf(variance + a.eps);
  // In place this is safe: blockSum has a barrier after all threads have read.
  for (int c = threadIdx.x; c < a.cols; c += blockDim.x)
    out[c] = fmaf((x[c] - mean) * scale, a.weight[c], a.bias ? a.bias[c] : 0);
}
