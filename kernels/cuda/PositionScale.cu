// PositionScale: out = x * (1 + slope * ln(1 + floor((position + offset) /
// length))). A block has one token.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, PositionScaleArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  i64 periods = (i64(placeOf(a.step, t).position) + a.offset) / a.length;
  float factor = fmaf(a.slope, logf(float(1 + periods)), 1);
  for (i64 c = threadIdx.x; c < a.cols; c += blockDim.x)
    a.out[t * a.cols + c] = a.x[t * a.cols + c] * factor;
}
