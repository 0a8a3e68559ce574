// DeltaGates: the write strength of each head, and its decay or those of its
// channels: a row of the result is [heads strengths | decays]. A thread
// computes one decay of a token, in double as on the CPU, because a decay close
// to one is raised to the power of the text's length.

#include "kernels/cuda/Softplus.cuh"

MOE_DEVICE double sigmoid(double x) { return 1 / (1 + exp(-x)); }

MOE_KERNEL(128, 4, DeltaGatesArgs) {
  i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.step->tokens * a.decays)
    return;
  i64 t = i / a.decays, channel = i % a.decays, each = a.decays / a.heads;
  i64 head = channel / each;
  float *out = a.out + t * (a.heads + a.decays);
  double x = double(a.alpha[i]) + double(a.dt[channel]);
  double rate = double(a.a[head]), floor = double(a.floor);
  if (channel % each == 0)
    out[head] = float(a.beta ? sigmoid(double(a.beta[t * a.heads + head]))
                             : softplus(x));
  out[a.heads + channel] = float(
      exp(floor < 0 ? floor * sigmoid(fabs(rate) * x) : rate * softplus(x)));
}
