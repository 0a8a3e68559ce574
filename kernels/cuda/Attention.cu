// Attention whose heads share keys and values in groups (GQA), for any shape
// and cache type, in float. A block processes sixteen queries of a sequence
// that read the same KV head, over one KV split. Queries are numbered token by
// token, and within a token over the heads of the group, so that one token's
// queries share each key that is read. A warp has four queries. 32 keys at a
// time are converted to floats in shared memory, and a lane scores one of them
// for four queries; then their values replace the keys, and lanes are columns.
//
// Floats in shared memory: keys [32][key + 1], with an odd stride so that lanes
// read from 32 banks, or values [32][value]; queries [16][key]. For 256 columns
// that is 49 KB.

#include "kernels/cuda/Spans.cuh"

constexpr int kKeys = 32, kQueries = 16, kOwn = 4, kThreads = 128;
/// Value columns that a lane sums; MOE_VALUE is the number of all.
constexpr int kColumns = (MOE_VALUE + 31) / 32;

extern __shared__ float shared[];

struct Query {
  int t, head;    ///< Token in the sequence; head in the group.
  int begin, end; ///< Positions in the block's split that the query sees.
};

/// Copies `columns` columns of the cache, from column `from` on, to shared
/// memory as floats: those of `count` positions from `at` on, `stride` floats
/// apart.
MOE_DEVICE void loadRows(float *to, int stride, const AttentionArgs &a,
                         const Sequence &s, int at, int count, int from,
                         int columns) {
  for (int r = 0; r < count; ++r) {
    i64 row = cacheRow(s.pages, s.state, a.ring, at + r);
    for (int c = threadIdx.x; c < columns; c += kThreads)
      to[r * stride + c] = loadKv(a.kv, row, from + c);
  }
}

MOE_KERNEL(128, 2, AttentionArgs) {
  __shared__ float weights[kQueries][kKeys];
  // Tiles are numbered across all sequences; a tile's rows are of one sequence.
  int tile = blockIdx.x, span = blockIdx.y, kvHead = blockIdx.z, s = 0;
  int group = a.heads / a.kvHeads;
  for (; s < a.step->sequences; ++s) {
    int tiles = (a.step->sequence[s].count * group + kQueries - 1) / kQueries;
    if (tile < tiles)
      break;
    tile -= tiles;
  }
  if (s == a.step->sequences)
    return;
  const Sequence &sequence = a.step->sequence[s];
  int count = min(sequence.count * group - tile * kQueries, kQueries);
  Spans spans = spansOf(sequence, Divisor(u32(a.splits)), a.window);
  int spanBegin = spans.base + span * spans.length;
  int spanEnd = spanBegin + spans.length;
  auto queryOf = [&](int i) {
    int row = tile * kQueries + i;
    Query q = {row / group, row % group, 0, 0};
    int position = sequence.position + q.t;
    q.begin = max(firstVisible(position, a.window), spanBegin);
    q.end = min(position + 1, spanEnd);
    return q;
  };
  // Positions that any query of the tile sees: from the first one of the first
  // query to the last one of the last query.
  int begin = queryOf(0).begin, end = queryOf(count - 1).end;
  if (begin >= end)
    return;

  int lane = threadIdx.x % 32, own = threadIdx.x / 32 * kOwn;
  int stride = a.key | 1, rowFloats = max(stride, MOE_VALUE);
  float *rows = shared, *queries = rows + kKeys * rowFloats;
  int keyAt = kvHead * kvBlocks(a.key) * kKvBlock;
  int valueAt =
      (a.kvHeads * kvBlocks(a.key) + kvHead * kvBlocks(MOE_VALUE)) * kKvBlock;
  for (int i = threadIdx.x; i < kQueries * a.key; i += kThreads) {
    int r = i / a.key, c = i % a.key;
    Query q = queryOf(r);
    queries[i] = r < count ? a.q[(sequence.begin + q.t) * a.qStride +
                                 i64(kvHead * group + q.head) * a.key + c]
                           : 0;
  }
  Query query[kOwn];
  float most[kOwn], sum[kOwn], sums[kOwn][kColumns];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    query[i] = queryOf(own + i);
    if (own + i >= count)
      query[i].end = 0;
    // A sink is a score in the first split that its token sees.
    bool hasSink =
        a.sinks && own + i < count &&
        spanBegin <= firstVisible(sequence.position + query[i].t, a.window);
    most[i] = hasSink ? a.sinks[kvHead * group + query[i].head] : -infinity();
    sum[i] = hasSink ? 1 : 0;
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      sums[i][j] = 0;
  }
  for (int at = begin; at < end; at += kKeys) {
    int rowCount = min(end - at, kKeys);
    __syncthreads();
    loadRows(rows, stride, a, sequence, at, rowCount, keyAt, a.key);
    __syncthreads();
    float score[kOwn] = {};
    if (lane < rowCount)
      for (int c = 0; c < a.key; ++c) {
        float key = rows[lane * stride + c];
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
          score[i] = fmaf(key, queries[(own + i) * a.key + c], score[i]);
      }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      bool isSeen = at + lane >= query[i].begin && at + lane < query[i].end;
      float x = score[i] * a.scale;
      if (a.softcap != 0) // tanh, with an error of one epsilon of the cap.
        x = a.softcap * (1 - 2 / (expf(x * (2 / a.softcap)) + 1));
      x = isSeen ? x : -infinity();
      // fmaxf drops a NaN, but the NaN's own weight is NaN.
      float next = fmaxf(most[i], warpMax(x));
      float shift = next == -infinity() ? 0 : next;
      float weight = isSeen ? expf(x - shift) : 0;
      float alpha = expf(most[i] - shift);
      sum[i] = sum[i] * alpha + warpSum(weight);
      most[i] = next;
      weights[own + i][lane] = weight;
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        sums[i][j] *= alpha;
    }
    __syncthreads(); // No thread reads the previous keys any more.
    loadRows(rows, MOE_VALUE, a, sequence, at, rowCount, valueAt, MOE_VALUE);
    __syncthreads();
    for (int r = 0; r < rowCount; ++r)
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        // A weight of zero would not hide a NaN in a row that the query does
        // not see.
        if (at + r < query[i].begin || at + r >= query[i].end)
          continue;
        float weight = weights[own + i][r];
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          if (lane + 32 * j < MOE_VALUE)
            sums[i][j] =
                fmaf(weight, rows[r * MOE_VALUE + lane + 32 * j], sums[i][j]);
      }
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (query[i].begin >= query[i].end)
      continue;
    int head = kvHead * group + query[i].head;
    float *row = a.out + (i64(sequence.begin + query[i].t) * a.splits + span) *
                             a.outStride;
    float *out = row + i64(head) * MOE_VALUE;
    float factor = a.splits > 1 ? 1 : 1 / sum[i];
    if (a.splits > 1 && lane == 0) {
      float *stats = row + i64(a.heads) * MOE_VALUE + head;
      stats[0] = most[i];
      stats[a.heads] = sum[i];
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      if (lane + 32 * j < MOE_VALUE)
        out[lane + 32 * j] = sums[i][j] * factor;
  }
}
