// RmsNorm: out = x / rms(x) * weight, or x / rms(x), for each group of columns
// of each token. A block has one group; what it reads twice stays in L1.

#include "kernels/cuda/Device.cuh"
#include "kernels/cuda/Rms.cuh"

MOE_KERNEL(1024, 1, RmsNormArgs) {
  __shared__ float shared[32];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  i64 group = i64(blockIdx.y) * a.cols;
  const float *x = a.x + t * a.xStride + group;
  float *out = a.out + t * a.outStride + group;
  const float *weight = a.weight && a.whole ? a.weight + group : a.weight;
  float scale = rmsScale(x, a.cols, a.eps, shared);
  // In place this is safe: rmsScale has a barrier after all threads have read.
  if (isVector(a.cols, u64(x) | u64(out) | u64(weight))) {
#pragma unroll 4
    for (int c = threadIdx.x * 4; c < a.cols; c += blockDim.x * 4) {
      float4 v = *(const float4 *)(x + c), w = {1, 1, 1, 1};
      if (weight)
        w = *(const float4 *)(weight + c);
      *(float4 *)(out + c) = {v.x * scale * w.x, v.y * scale * w.y,
                              v.z * scale * w.z, v.w * scale * w.w};
    }
    return;
  }
  for (int c = threadIdx.x; c < a.cols; c += blockDim.x)
    out[c] = x[c] * scale * (weight ? weight[c] : 1);
}
