//===- Rms.cuh - One over the root mean square ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_RMS_CUH
#define MOE_KERNELS_CUDA_RMS_CUH

#include "kernels/cuda/Device.cuh"

/// Whether columns may be taken four at a time, of rows whose addresses have
/// these bits.
MOE_DEVICE bool isVector(int cols, u64 addresses) {
  return cols % 4 == 0 && addresses % 16 == 0;
}

/// 1 / sqrt(mean of squares + eps), for all threads of a block. NaN where the
/// mean is infinite: a scale of zero would make zeros of numbers that are too
/// large.
MOE_DEVICE float rmsScale(const float *x, int cols, float eps, float *shared) {
  float sum = 0;
  if (isVector(cols, u64(x))) {
#pragma unroll 4 // Loads that are under way together.
    for (int c = threadIdx.x * 4; c < cols; c += blockDim.x * 4) {
      float4 v = *(const float4 *)(x + c);
      sum = fmaf(v.x, v.x, sum);
      sum = fmaf(v.y, v.y, sum);
      sum = fmaf(v.z, v.z, sum);
      sum = fmaf(v.w, v.w, sum);
    }
  } else {
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
      sum = fmaf(x[c], x[c], sum);
  }
  float mean = blockSum(sum, shared) / float(cols);
  return mean < infinity() ? 1.0f / sqrtf(mean + eps) : nanValue();
}

/// 1 / sqrt(sum of squares + eps) for all lanes of a warp, each of which has a
/// part of the sum. NaN as above.
MOE_DEVICE float unitScale(float squares, float eps) {
  squares = warpSum(squares) + eps;
  return squares < infinity() ? 1.0f / sqrtf(squares) : nanValue();
}

#endif // MOE_KERNELS_CUDA_RMS_CUH
