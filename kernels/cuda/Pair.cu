// ActivationMul and Add: an element a thread.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4)(const __grid_constant__ PairArgs a) {
  i64 count = a.step->tokens * a.perToken;
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
#ifdef MOE_SILU
  a.out[i] = silu(a.x[i]) * a.y[i];
#else
  a.out[i] = a.x[i] + a.y[i];
#endif
}
