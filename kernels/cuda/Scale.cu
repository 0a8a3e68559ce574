// Scale: out = factor * x, or softcap * tanh(factor * x / softcap), clamped if
// there is a limit. A thread computes one element.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, ScaleArgs) {
  i64 count = a.step->tokens * a.cols;
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float scaled = a.factor * a.x[i];
  if (a.softcap > 0)
    scaled = a.softcap * tanhf(scaled / a.softcap);
  // A NaN is neither above nor below a limit.
  if (a.limit > 0)
    scaled = scaled > a.limit ? a.limit : scaled < -a.limit ? -a.limit : scaled;
  a.out[i] = scaled;
}
