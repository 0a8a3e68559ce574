// LatentCombine: sums of a token's spans, weighted by exp(maximum of the span -
// maximum of all), in the order of spans. A block is a head of a token.

#include "kernels/cuda/Spans.cuh"

constexpr int kSplits = 64; // kLatentSplits

MOE_KERNEL(128, 4)(const __grid_constant__ LatentCombineArgs a) {
  __shared__ float factors[kSplits];
  __shared__ float inverse;
  int t = blockIdx.x, head = blockIdx.y;
  if (t >= a.step->tokens)
    return;
  const Sequence &s = a.step->sequence[sequenceOf(a.step, t)];
  int visible = s.position + t - s.begin + 1, length = spanLength(s, a.splits);
  int used = (visible + length - 1) / length;
  const float *rows = a.x + i64(t) * a.splits * a.xStride;
  const float *stats = rows + i64(a.heads) * a.latent + head;
  if (threadIdx.x < 32) {
    int lane = threadIdx.x;
    float most = -infinity();
    for (int i = lane; i < used; i += 32)
      most = fmaxf(most, stats[i * a.xStride]);
    most = warpMax(most);
    float shift = most == -infinity() ? 0 : most, total = 0;
    for (int i = lane; i < used; i += 32) {
      float factor = expf(stats[i * a.xStride] - shift);
      factors[i] = factor;
      total = fmaf(factor, stats[i * a.xStride + a.heads], total);
    }
    total = warpSum(total);
    if (lane == 0)
      inverse = 1 / total;
  }
  __syncthreads();
  float *out = a.out + t * a.outStride + i64(head) * a.latent;
  for (int c = threadIdx.x; c < a.latent; c += blockDim.x) {
    const float *x = rows + i64(head) * a.latent + c;
    float sum = 0;
    for (int i = 0; i < used; ++i)
      sum = fmaf(factors[i], x[i * a.xStride], sum);
    out[c] = sum * inverse;
  }
}
