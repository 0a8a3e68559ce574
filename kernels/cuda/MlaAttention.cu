// MlaAttention on rows that Decompress computed, in float. A block has one head
// and a tile of sixteen queries of a sequence, a warp four of them. 32 keys at
// a time, with their rope part from the cache, are in shared memory, and a lane
// scores one of them for four queries; then lanes are columns of values.
//
// Floats in shared memory: keys [32][nope + rope + 1], with an odd stride so
// that lanes read from 32 banks; values [32][value]; queries [16][nope + rope].
// For 192 and 128 columns that is 25 + 16 + 12 = 53 KB.

#include "kernels/cuda/KvCache.cuh"

constexpr int kKeys = 32, kQueries = 16, kOwn = 4, kThreads = 128;
/// Value columns that a lane sums; MOE_VALUE is the number of all.
constexpr int kColumns = (MOE_VALUE + 31) / 32;

extern __shared__ float shared[];

MOE_KERNEL(128, 2, MlaHeadsArgs) {
  __shared__ float weights[kQueries][kKeys];
  // Tiles are numbered across all sequences; a tile's rows are of one sequence.
  int tile = blockIdx.x, head = blockIdx.y, s = 0;
  i64 base = 0;
  for (; s < a.step->sequences; ++s) {
    const Sequence &sequence = a.step->sequence[s];
    int tiles = (sequence.count + kQueries - 1) / kQueries;
    if (tile < tiles)
      break;
    tile -= tiles;
    base += sequence.position + sequence.count;
  }
  if (s == a.step->sequences)
    return;
  const Sequence &sequence = a.step->sequence[s];
  int first = tile * kQueries, count = min(sequence.count - first, kQueries);
  int keyWidth = a.nope + a.rope, stride = keyWidth | 1;
  int rowWidth = a.nope + MOE_VALUE;
  int lane = threadIdx.x % 32, own = threadIdx.x / 32 * kOwn;
  float *keys = shared, *values = keys + kKeys * stride;
  float *queries = values + kKeys * MOE_VALUE;
  const float *rows = a.rows + (head * a.positions + base) * rowWidth;
  i64 token = sequence.begin + first;
  for (int i = threadIdx.x; i < kQueries * keyWidth; i += kThreads) {
    int query = i / keyWidth, c = i % keyWidth;
    queries[i] = query < count ? a.q[(token + query) * a.qStride +
                                     i64(a.firstHead + head) * keyWidth + c]
                               : 0;
  }
  float most[kOwn], sum[kOwn], sums[kOwn][kColumns];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    most[i] = -infinity();
    sum[i] = 0;
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      sums[i][j] = 0;
  }
  // The end of what the last query sees.
  int end = sequence.position + first + count;
  for (int at = 0; at < end; at += kKeys) {
    int rowCount = min(end - at, kKeys);
    __syncthreads();
    for (int r = 0; r < rowCount; ++r) {
      const float *row = rows + i64(at + r) * rowWidth;
      i64 cached = cacheRow(sequence.pages, at + r);
      for (int c = threadIdx.x; c < a.nope; c += kThreads)
        keys[r * stride + c] = row[c];
      for (int c = threadIdx.x; c < a.rope; c += kThreads)
        keys[r * stride + a.nope + c] = loadKv(a.kv, cached, a.latent + c);
      for (int c = threadIdx.x; c < MOE_VALUE; c += kThreads)
        values[r * MOE_VALUE + c] = row[a.nope + c];
    }
    __syncthreads();
    float score[kOwn] = {};
    if (lane < rowCount)
      for (int c = 0; c < keyWidth; ++c) {
        float key = keys[lane * stride + c];
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
          score[i] = fmaf(key, queries[(own + i) * keyWidth + c], score[i]);
      }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      bool isSeen =
          lane < rowCount && at + lane <= sequence.position + first + own + i;
      float x = isSeen ? score[i] * a.scale : -infinity();
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
    __syncwarp();
    for (int r = 0; r < rowCount; ++r)
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        // A weight of zero would not hide a NaN in a row that the query does
        // not see.
        if (at + r > sequence.position + first + own + i)
          continue;
        float weight = weights[own + i][r];
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          if (lane + 32 * j < MOE_VALUE)
            sums[i][j] =
                fmaf(weight, values[r * MOE_VALUE + lane + 32 * j], sums[i][j]);
      }
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (own + i >= count)
      continue;
    float *out = a.out + (token + own + i) * a.outStride +
                 i64(a.firstHead + head) * MOE_VALUE;
    float inverse = 1 / sum[i];
#pragma unroll
    for (int j = 0; j < kColumns; ++j)
      if (lane + 32 * j < MOE_VALUE)
        out[lane + 32 * j] = sums[i][j] * inverse;
  }
}
