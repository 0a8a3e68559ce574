// ClampedMul: out = silu(min(g, limit)) * clamp(u, -limit, limit), with g the
// gate and u the up value; with `activated` it is min(silu(g), limit) instead
// of silu(min(g, limit)). With `soft` (SiTU) limits are soft: limit * tanh(g /
// limit) * sigmoid(g) * soft * tanh(u / soft). A thread computes one element.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, ClampedMulArgs) {
  i64 count = a.step->tokens * a.rowsPerToken * a.cols;
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  // fminf and fmaxf would drop a NaN.
  float g = a.gate[i], u = a.up[i];
  if (a.soft > 0) {
    a.out[i] = timesSigmoid(a.limit * tanhf(g / a.limit), g) *
               (a.soft * tanhf(u / a.soft));
    return;
  }
  g = g > a.limit && !a.activated ? a.limit : g;
  u = u > a.limit ? a.limit : u < -a.limit ? -a.limit : u;
  float active = timesSigmoid(g, g);
  a.out[i] = (active > a.limit && a.activated ? a.limit : active) * u;
}
