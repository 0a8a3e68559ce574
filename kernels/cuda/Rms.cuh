//===- Rms.cuh - One over the root mean square ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CUDA_RMS_CUH
#define MOE_KERNELS_CUDA_RMS_CUH

#include "kernels/cuda/Device.cuh"

/// 1 / sqrt(mean of squares + eps), for all threads of a block. NaN where the
/// mean is infinite: a scale of zero would make zeros of numbers that are too
/// large.
MOE_DEVICE float rmsScale(const float *x, int cols, float eps, float *shared) {
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    sum = fmaf(x[c], x[c], sum);
  float mean = blockSum(sum, shared) / float(cols);
  return mean < infinity() ? 1.0f / sqrtf(mean + eps) : nanValue();
}

#endif // MOE_KERNELS_CUDA_RMS_CUH
