// ActivationMul, GateMul and Add: a thread computes one element. In GateMul
// with MOE_SHARED, a gate is for `share` elements.

#ifdef MOE_GATE
#if MOE_GATE == 1
#include "kernels/cuda/Softplus.cuh"
#endif
#endif
#include "kernels/cuda/Device.cuh"

#ifdef MOE_GATE // The value is a moek::Gate.
MOE_DEVICE float gated(float x, float gate) {
#if MOE_GATE == 0
  return timesSigmoid(x, gate);
#elif MOE_GATE == 1
  return x * float(softplus(gate));
#else
  return x * gate;
#endif
}
#endif

MOE_KERNEL(256, 4, PairArgs) {
  i64 count = a.step->tokens * a.perToken;
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
#if defined(MOE_ACTIVATION)
  a.out[i] = activate(a.x[i], a.y ? a.y[i] : 1);
#elif defined(MOE_SHARED)
  a.out[i] = gated(a.x[i], a.y[i / a.share]);
#elif defined(MOE_GATE)
  a.out[i] = gated(a.x[i], a.y[i]);
#else
  a.out[i] = a.x[i] + a.y[i];
#endif
}
