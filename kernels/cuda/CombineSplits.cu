// CombineSplits: combines the KV splits that a token sees. A block has some
// columns of a head of a token.

#include "kernels/cuda/Combine.cuh"
#include "kernels/cuda/Spans.cuh"

MOE_KERNEL(256, 3, CombineSplitsArgs) {
  int t = blockIdx.x;
  if (t >= a.step->tokens)
    return;
  const Sequence &s = a.step->sequence[sequenceOf(a.step, t)];
  // The splits in which the token sees something.
  int position = s.position + t - s.begin;
  Spans spans = spansOf(s, a.splits, a.window);
  int first = (firstVisible(position, a.window) - spans.base) / spans.length;
  int used = (position - spans.base) / spans.length + 1 - first;
  combineSplits(a.x + (i64(t) * a.splits + first) * a.xStride, a.xStride, used,
                a.heads, a.latent, blockIdx.y, blockIdx.z,
                a.out + t * a.outStride);
}
