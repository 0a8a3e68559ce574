// RmsNorm: out = x / rms(x) * weight, or x / rms(x), for each group of columns of each token. A
// block is a group; what it reads twice stays in L1.

#include "kernels/cuda/Device.cuh"
#include "kernels/cuda/Rms.cuh"

MOE_KERNEL(1024, 1)(const __grid_constant__ RmsNormArgs a) {
  __shared__ float shared[32];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  i64 group = i64(blockIdx.y) * a.cols;
  const float *x = a.x + t * a.xStride + group;
  float *out = a.out + t * a.outStride + group;
  float scale = rmsScale(x, a.cols, a.eps, shared);
  // In place no thread writes before all have read: blockSum met.
  for (int c = threadIdx.x; c < a.cols; c += blockDim.x)
    out[c] = x[c] * scale * (a.weight ? a.weight[c] : 1);
}
