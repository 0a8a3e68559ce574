// Scale: out = factor * x, or softcap * tanh(factor * x / softcap). A thread
// computes one element.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, ScaleArgs) {
  i64 count = a.step->tokens * a.cols;
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float scaled = a.factor * a.x[i];
  a.out[i] = a.softcap > 0 ? a.softcap * tanhf(scaled / a.softcap) : scaled;
}
