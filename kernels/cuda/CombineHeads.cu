// CombineSplits for heads of at most 256 columns: a warp combines the KV splits
// that a token sees, for 32 * MOE_COLUMNS columns of a head. In decode it is
// part of the launch of attention (Fuse.h): of the blocks that read a KV head,
// the last one to end combines the splits of its queries, 4 KB a split for
// eight heads of 128 columns. Loads have no branch around them, because the
// target of a jump has to be fetched first: beyond the last split they read the
// last one again, with a weight of zero.

#include "kernels/cuda/Spans.cuh"

/// A lane loads its kColumns (at most 4) neighbouring columns with one
/// instruction, and has the loads of kAhead splits in flight: 64 registers.
struct alignas(4 * MOE_COLUMNS) Columns {
  float of[MOE_COLUMNS];
};
constexpr int kColumns = MOE_COLUMNS, kAhead = 16;
static_assert(kColumns == 1 || MOE_VALUE % (32 * kColumns) == 0,
              "only single columns may be missing");

MOE_KERNEL(128, 4, CombineSplitsArgs) {
  int lane = threadIdx.x % 32, t = blockIdx.x;
  int head = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
  Divisor splits(u32(a.splits));
  int tokens = a.step->tokens;
  Sequence s = loadSequence(a.step->sequence);
  if (t >= tokens || head >= a.heads)
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
  i64 stride = a.xStride;
  const float *rows = a.x + (i64(t) * a.splits + first) * stride;
  // A row is [heads * value sums | heads maxima | heads sums of weights].
  u32 pitch = u32(stride) * 4; // Distance of rows in bytes.
  const char *stats = (const char *)(rows + i64(a.heads) * MOE_VALUE + head);
  const char *x = (const char *)(rows + i64(head) * MOE_VALUE);
  // Beyond the last column or split, a lane loads the last one again.
  int column = (blockIdx.z * 32 + lane) * kColumns;
  bool isThere = column < MOE_VALUE;
  x += min(column, MOE_VALUE - kColumns) * 4;
  auto rowOf = [&](const char *from, int i) {
    return (const float *)(from + u64(u32(min(i, used - 1))) * pitch);
  };
  float most = -infinity(), total = 0, sums[kColumns] = {};
  // Lane i has the maximum and the sum of weights of split i, then i + 32, ...
  float own = rowOf(stats, lane)[0], weight = rowOf(stats, lane)[a.heads];
  float factor = 0;
  for (int at = 0; at < used; at += kAhead) {
    Columns ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      ahead[i] = *(const Columns *)rowOf(x, at + i);
    if (at % 32 == 0) {
      // Unused lanes repeat the last split.
      float next = fmaxf(most, warpMax(own));
      float shift = next == -infinity() ? 0 : next;
      float alpha = expf(most - shift);
      most = next;
      factor = at + lane < used ? expf(own - shift) : 0;
      total = fmaf(factor, weight, total * alpha);
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        sums[c] *= alpha;
      own = rowOf(stats, at + 32 + lane)[0];
      weight = rowOf(stats, at + 32 + lane)[a.heads];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      float of = __shfl_sync(kAllLanes, factor, at % 32 + i);
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        sums[c] = fmaf(of, at + i < used ? ahead[i].of[c] : 0, sums[c]);
    }
  }
  float inverse = 1 / warpSum(total);
  float *out = a.out + t * a.outStride + i64(head) * MOE_VALUE + column;
  if (isThere)
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      out[c] = sums[c] * inverse;
}
