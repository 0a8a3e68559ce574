//===- Rms.cuh - Reciprocal of the root mean square -------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_RMS_CUH
#define MOE_KERNELS_CUDA_RMS_CUH

#include "kernels/cuda/Device.cuh"

/// Whether rows of `cols` floats can be read and written four columns at a
/// time; `addresses` are those of all rows, combined by OR.
MOE_DEVICE bool isVector(int cols, u64 addresses) {
  return cols % 4 == 0 && addresses % 16 == 0;
}

/// Returns 1 / sqrt(mean of squares + eps) to all threads of a block, or NaN if
/// the mean is infinite: with a scale of zero, a row of too large numbers would
/// become a row of zeros.
MOE_DEVICE float rmsScale(const float *x, int cols, float eps, float *shared) {
  float sum = 0;
  if (isVector(cols, u64(x))) {
#pragma unroll 4 // The loads of an iteration are in flight together.
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

/// Returns 1 / sqrt(sum of squares + eps) to all lanes of a warp, each of which
/// passes its part of the sum. NaN as in rmsScale().
MOE_DEVICE float unitScale(float squares, float eps) {
  squares = warpSum(squares) + eps;
  return squares < infinity() ? 1.0f / sqrtf(squares) : nanValue();
}

#endif // MOE_KERNELS_CUDA_RMS_CUH
