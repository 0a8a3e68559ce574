// LatentCombine: sums of a token's spans, weighted by exp(maximum of the span -
// maximum of all). A block is 64 columns of a head of a token; four threads
// share out the spans of a column, in turn, and add up in their order.

#include "kernels/cuda/Spans.cuh"

constexpr int kSplits = 512; // More than any plan has.
constexpr int kColumns = 64, kParts = 4;

MOE_KERNEL(256, 4, LatentCombineArgs) {
  __shared__ float factors[kSplits], parts[kParts][kColumns];
  __shared__ float inverse;
  int t = blockIdx.x, head = blockIdx.y;
  if (t >= a.step->tokens)
    return;
  const Sequence &s = a.step->sequence[sequenceOf(a.step, t)];
  // The spans in which the token sees something.
  int position = s.position + t - s.begin;
  Spans spans = spansOf(s, a.splits, a.window);
  int first = (firstVisible(position, a.window) - spans.base) / spans.length;
  int used = (position - spans.base) / spans.length + 1 - first;
  const float *rows = a.x + (i64(t) * a.splits + first) * a.xStride;
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
  int column = threadIdx.x % kColumns, part = threadIdx.x / kColumns;
  int c = blockIdx.z * kColumns + column;
  float sum = 0;
  if (c < a.latent) {
    const float *x = rows + i64(head) * a.latent + c;
#pragma unroll 8
    for (int i = part; i < used; i += kParts)
      sum = fmaf(factors[i], x[i * a.xStride], sum);
  }
  parts[part][column] = sum;
  __syncthreads();
  if (part != 0 || c >= a.latent)
    return;
#pragma unroll
  for (int k = 1; k < kParts; ++k)
    sum += parts[k][column];
  a.out[t * a.outStride + i64(head) * a.latent + c] = sum * inverse;
}
