// ClampedMul: out = silu(min(gate, limit)) * max(-limit, min(up, limit)), or
// with the limit on silu(gate); or SiTU, whose limits are soft. A thread computes
// one element.

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
