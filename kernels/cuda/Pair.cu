// ActivationMul, SigmoidMul and Add: a thread computes one element.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, PairArgs) {
  i64 count = a.step->tokens * a.perToken;
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
#if defined(MOE_ACTIVATION)
  a.out[i] = activate(a.x[i], a.y[i]);
#elif defined(MOE_SIGMOID_OF_ROW)
  a.out[i] = timesSigmoid(a.x[i], a.y[i / a.perToken]);
#elif defined(MOE_SIGMOID)
  a.out[i] = timesSigmoid(a.x[i], a.y[i]);
#else
  a.out[i] = a.x[i] + a.y[i];
#endif
}
