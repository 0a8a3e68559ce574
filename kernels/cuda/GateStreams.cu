// GateStreams: out = sigmoid(sign(s) sqrt(max(|s|, 10^-6))) * value for each
// residual stream, where s is the product of its query and key, divided by the
// root of the number of columns. A block has one stream of a token.

#include "kernels/cuda/Device.cuh"

MOE_KERNEL(256, 4, GateStreamsArgs) {
  __shared__ float shared[32];
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  i64 stream = (i64(t) * a.streams + blockIdx.y) * a.cols;
  const float *q = a.q + stream, *k = a.k + stream;
  const float *value = a.value + t * a.cols;
  float *out = a.out + stream, sum = 0;
  for (i64 c = threadIdx.x; c < a.cols; c += blockDim.x)
    sum = fmaf(q[c], k[c], sum);
  double score = double(blockSum(sum, shared)) / sqrt(double(a.cols));
  // A gate of 0 or 1 would hide a score that is not finite.
  float gate = nanValue();
  if (fabs(score) < double(infinity()))
    gate =
        float(1 / (1 + exp(-copysign(sqrt(fmax(fabs(score), 1e-6)), score))));
  for (i64 c = threadIdx.x; c < a.cols; c += blockDim.x)
    out[c] = gate * value[c];
}
