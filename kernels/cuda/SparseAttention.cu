// SparseAttention: attention to a window of rows and to entries (chosen ones or
// all), with one head of keys and values for all query heads; and, with
// MOE_BLOCKS, BlockAttention, whose list has positions. For any shape and cache
// type, in float. A block has sixteen heads of a token, four per warp,
// and a KV split of the token's list. 32 rows at a time are converted to floats
// in shared memory, 128 columns after the other: a lane scores one of the rows
// for four heads; then lanes are columns of the values.
//
// Floats in shared memory: rows [32][129], with an odd stride so that lanes
// read from 32 banks; queries [16][128]; weights [16][32]. That is 27 KB for
// any shape, so that three blocks share a multiprocessor. Rows that are read
// twice, as key and as value, are still in L1 the second time: 32 rows of 576
// columns in F16 are 36 KB.

#include "kernels/cuda/Listed.cuh"

#ifndef MOE_ENTRIES // KV type of the entries' cache, if not that of the rows.
#define MOE_ENTRIES MOE_KV
#endif

constexpr int kRows = 32, kHeads = 16, kOwn = 4, kThreads = 128, kChunk = 128;
constexpr int kStride = kChunk + 1;
constexpr int kChunks = (MOE_VALUE + kChunk - 1) / kChunk;
/// Columns of a chunk that a lane sums.
constexpr int kColumns = kChunk / 32;

MOE_KERNEL(128, 3, ListedArgs) {
  __shared__ alignas(16) float queries[kHeads * kChunk];
  __shared__ float tile[kRows * kStride], weights[kHeads][kRows];
  __shared__ i64 rowAt[kRows];
  int t = blockIdx.x, span = blockIdx.z;
  if (t >= a.step->tokens)
    return;
  Place place = placeOf(a.step, t);
  Listed list = listedFor(a, place.position);
  int begin = span * list.length;
  int end = min(begin + list.length, list.count());
  if (begin >= end)
    return;
  int lane = threadIdx.x % 32, own = threadIdx.x / 32 * kOwn;
  ListedHeads of = listedHeads(a, t, blockIdx.y, kHeads);
  int head = of.first, heads = of.count;
  const float *q = a.q + t * a.qStride + i64(head) * a.key;
  const float *sinks = sinksOf(a);

  // Loads `columns` columns from column `from` on, of the list's `count` items
  // from item `at` on, whose rows are in rowAt.
  auto load = [&](int at, int count, int from, int columns) {
    for (int r = 0; r < count; ++r)
      for (int c = threadIdx.x; c < columns; c += kThreads)
        tile[r * kStride + c] =
            at + r < list.rows
                ? loadKvAs<MOE_KV>(a.kv, rowAt[r], from + c)
                : loadKvAs<MOE_ENTRIES>(entriesOf(a), rowAt[r], from + c);
  };

  float most[kOwn], sum[kOwn], sums[kOwn][kChunks * kColumns];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    bool hasSink = sinks && span == 0 && own + i < heads;
    most[i] = hasSink ? sinks[head + own + i] : -infinity();
    sum[i] = hasSink ? 1 : 0;
#pragma unroll
    for (int j = 0; j < kChunks * kColumns; ++j)
      sums[i][j] = 0;
  }
  for (int at = begin; at < end; at += kRows) {
    int count = min(end - at, kRows);
    __syncthreads(); // No thread reads the previous contents any more.
    if (threadIdx.x < count)
      rowAt[threadIdx.x] =
          listedRow(a, list, of.chosen, place, at + threadIdx.x);
    float score[kOwn] = {};
    for (int from = 0; from < a.key; from += kChunk) {
      int columns = min(a.key - from, kChunk);
      __syncthreads();
      load(at, count, of.key + from, columns);
      for (int h = 0; h < kHeads; ++h)
        for (int c = threadIdx.x; c < columns; c += kThreads)
          queries[h * kChunk + c] =
              h < heads ? q[i64(h) * a.key + from + c] : 0;
      __syncthreads();
      if (lane < count)
#pragma unroll 4
        for (int c = 0; c < columns; ++c) {
          float key = tile[lane * kStride + c];
#pragma unroll
          for (int i = 0; i < kOwn; ++i)
            score[i] = fmaf(key, queries[(own + i) * kChunk + c], score[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      float x = lane < count ? score[i] * a.scale : -infinity();
      // fmaxf drops a NaN, but the NaN's own weight is NaN.
      float next = fmaxf(most[i], warpMax(x));
      float shift = next == -infinity() ? 0 : next;
      float weight = lane < count ? expf(x - shift) : 0;
      float alpha = expf(most[i] - shift);
      sum[i] = sum[i] * alpha + warpSum(weight);
      most[i] = next;
      weights[own + i][lane] = weight;
#pragma unroll
      for (int j = 0; j < kChunks * kColumns; ++j)
        sums[i][j] *= alpha;
    }
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      int columns = min(MOE_VALUE - chunk * kChunk, kChunk);
      __syncthreads(); // No thread reads the previous columns any more.
      load(at, count, of.value + chunk * kChunk, columns);
      __syncthreads();
      for (int r = 0; r < count; ++r)
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          if (lane + 32 * j < columns) {
            float value = tile[r * kStride + lane + 32 * j];
#pragma unroll
            for (int i = 0; i < kOwn; ++i)
              sums[i][chunk * kColumns + j] = fmaf(
                  weights[own + i][r], value, sums[i][chunk * kColumns + j]);
          }
    }
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (own + i >= heads)
      continue;
    float *row = a.splits > 1 ? a.spans + (i64(t) * a.splits + span) * a.heads *
                                              (MOE_VALUE + 2)
                              : a.out + t * a.outStride;
    float *out = row + i64(head + own + i) * MOE_VALUE;
    float factor = a.splits > 1 ? 1 : 1 / sum[i];
    if (a.splits > 1 && lane == 0) {
      float *stats = row + i64(a.heads) * MOE_VALUE + head + own + i;
      stats[0] = most[i];
      stats[a.heads] = sum[i];
    }
#pragma unroll
    for (int j = 0; j < kChunks * kColumns; ++j)
      if (lane + 32 * j < MOE_VALUE)
        out[lane + 32 * j] = sums[i][j] * factor;
  }
}
