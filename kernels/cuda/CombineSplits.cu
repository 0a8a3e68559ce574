// CombineSplits: combines the KV splits that a token sees. A block has
// MOE_COLUMNS columns (Combine.cuh) of a head of a token.

#include "kernels/cuda/Combine.cuh"
#include "kernels/cuda/Spans.cuh"

MOE_KERNEL(256, kColumns == 4 ? 2 : 3, CombineSplitsArgs) {
  int t = blockIdx.x;
  Divisor splits(u32(a.splits));
  int tokens = a.step->tokens;
  Sequence s = loadSequence(a.step->sequence);
  if (t >= tokens)
    return;
  s = sequenceFrom(s, a.step, t);
  // The splits in which the token sees something.
  int position = s.position + t - s.begin;
  Spans spans = spansOf(s, splits, a.window);
  int first = 0, used = spans.splitOf(position) + 1;
  if (MOE_RARE(a.window > 0)) {
    first = spans.splitOf(firstVisible(position, a.window));
    used -= first;
  }
  combineSplits(a.x + (i64(t) * a.splits + first) * a.xStride, a.xStride, used,
                a.heads, a.latent, blockIdx.y, blockIdx.z,
                a.out + t * a.outStride);
}
