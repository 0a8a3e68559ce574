// DeltaGates: the write strength and the decay of each head. A thread computes
// one head of a token, in double as on the CPU: a decay close to one is raised
// to the power of the text's length.

#include "kernels/cuda/Softplus.cuh"

MOE_KERNEL(128, 4, DeltaGatesArgs) {
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.step->tokens * a.heads)
    return;
  i64 head = i % a.heads;
  float *out = a.out + 2 * (i - head) + head;
  out[0] = float(1 / (1 + exp(-double(a.beta[i]))));
  out[a.heads] = float(exp(double(a.a[head]) *
                           softplus(double(a.alpha[i]) + double(a.dt[head]))));
}
