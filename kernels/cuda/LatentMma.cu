// LatentAttention on a cache of F16 or BF16 with tensor cores: decode. A block
// has one token, a KV split and sixteen heads, which are the rows of an mma
// tile; keys and values are the same rows of the cache, read once.
// SparseAttention (MOE_LISTED) uses the same code, with the rows of a token's
// list.
//
// 32 rows at a time are copied to shared memory in the background, into one of
// two tiles. Then
//   scores   Each of four warps has a quarter of the columns, for which it
//            keeps the queries in registers: 9 steps of 16 columns for 576, 72
//            registers; partial scores are added up in the order of warps.
//   softmax  Eight threads per head, four rows each.
//   values   Each warp has a quarter of the latent's columns: 128, 64
//            registers.
// Scores and sums are floats. Queries and weights are floats too and are split
// into sums of two 16-bit numbers, each multiplied separately: the error is
// 2^-17 (BF16) or 2^-21 of the largest, where a single 16-bit number would have
// an error of 2^-9 or 2^-11 in each. F16 overflows at 65504: a head's queries
// are scaled by a power of two to below 2^14, and weights, which are at most 1,
// by 2^14, so that small ones keep their bits.
//
// A tile is 36 KB and 136 mma per warp. On a 4090 these take 4.4 of the 11.7
// thousand cycles in which a multiprocessor's share of the bandwidth delivers
// the tile, on an H100 about half of 2.6 thousand: with 16 heads memory is the
// limit, with 128 the mma.
//
// Shared memory: two tiles of 32 rows of 1168 bytes (16 more than a row has, so
// that eight rows use all banks), scores [4][16][36] floats, weights 2 x
// [16][40] halves: 86 KB, one block per multiprocessor on GeForce (99 KB), two
// on an H100.

#include "kernels/cuda/HalfMma.cuh"
#ifdef MOE_LISTED
#include "kernels/cuda/Listed.cuh"
using AttentionOf = SparseSplitsArgs;
#else
#include "kernels/cuda/Spans.cuh"
using AttentionOf = LatentAttentionArgs;
#endif

constexpr int kHeads = 16, kKeys = 32, kWarps = 4;
constexpr int kLatent = MOE_LATENT, kWidth = MOE_LATENT + MOE_ROPE;
constexpr int kSteps = kWidth / 16 / kWarps;   ///< Steps of a warp's columns.
constexpr int kColumns = kLatent / 8 / kWarps; ///< mma columns of a warp.
static_assert(kWidth % 64 == 0 && kLatent % 64 == 0, "whole steps for warps");

constexpr int kRowBytes = kWidth * 2, kTilePitch = kRowBytes + 16;
constexpr int kTileBytes = kKeys * kTilePitch;
constexpr int kScorePitch = kKeys + 4, kWeightPitch = kKeys + 8;
struct Shared {
  u8 tile[2][kTileBytes];
  float scores[kWarps][kHeads][kScorePitch];
  u16 weights[2][kHeads][kWeightPitch]; ///< High and low parts.
  float most[kWarps][kHeads], alpha[kHeads];
};

/// The rows that a block sees: a range of the token's rows in their order.
struct Seen {
  const AttentionOf &a;
  Place place;
  int begin, end;
#ifdef MOE_LISTED
  Listed list;
  const int *chosen;

  __device__ __forceinline__ Seen(const AttentionOf &a, int t, int span)
      : a(a), place(placeOf(a.step, t)), list(listedFor(a, place.position)),
        chosen(a.chosen ? a.chosen + i64(t) * a.topK : nullptr) {
    begin = span * list.length;
    end = min(begin + list.length, list.count());
  }
  __device__ __forceinline__ const u8 *row(int i) const {
    if (i < list.rows)
      return a.kv.data + a.kv.rowStride * cacheRow(place.pages, place.state,
                                                   a.ring, list.begin + i);
    i -= list.rows;
    int entry = chosen ? chosen[i] : i;
    return a.entries.data +
           a.entries.rowStride *
               cacheRow(place.pages, (entry + 1) * a.ratio - 1);
  }
#else
  __device__ __forceinline__ Seen(const AttentionOf &a, int t, int span)
      : a(a), place(placeOf(a.step, t)) {
    int length =
        spansOf(a.step->sequence[sequenceOf(a.step, t)], a.splits, 0).length;
    begin = span * length;
    end = min(begin + length, place.position + 1);
  }
  __device__ __forceinline__ const u8 *row(int i) const {
    return a.kv.data + a.kv.rowStride * cacheRow(place.pages, i);
  }
#endif
};

/// Copies rows from number `at` on in the background, with zeros after the last
/// one. Each lane looks up one row, so that a list's look-ups are in flight
/// together.
MOE_DEVICE void copyTile(u8 *tile, const Seen &seen, int at) {
  int lane = threadIdx.x % 32;
  u64 own = u64(seen.row(at + lane < seen.end ? at + lane : at));
#pragma unroll
  for (int i = 0; i < kKeys / kWarps; ++i) {
    int r = threadIdx.x / 32 + i * kWarps;
    bool isThere = at + r < seen.end;
    const u8 *row = (const u8 *)__shfl_sync(kAllLanes, own, r);
#pragma unroll
    for (int at = lane * 16; at < kRowBytes; at += 32 * 16)
      copyAsync(tile + r * kTilePitch + at, row + at, isThere ? 16 : 0);
  }
  commitCopies();
}

MOE_KERNEL(128, 2, AttentionOf) {
  extern __shared__ uint4 memory[];
  Shared &shared = *(Shared *)memory;
  int t = blockIdx.x, span = blockIdx.y, firstHead = blockIdx.z * kHeads;
  if (t >= a.step->tokens)
    return;
  Seen seen(a, t, span);
  int begin = seen.begin, end = seen.end;
  if (begin >= end)
    return;
  copyTile(shared.tile[0], seen, begin);

  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int g = lane / 4, c = lane % 4;
  int heads = min(a.heads - firstHead, kHeads);
  // The warp's columns of queries g and g + 8.
  u32 high[kSteps][4], low[kSteps][4];
  int exponent[2];
  {
    const float *q = a.q + t * a.qStride + i64(firstHead) * kWidth +
                     warp * kSteps * 16 + 2 * c;
    // All loads are in flight at once: one after the other they would take
    // longer than a short split.
    float x[2][2 * kSteps][2], most[2] = {0, 0};
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i)
#pragma unroll
        for (int k = 0; k < 2; ++k)
          x[half][i][k] = g + 8 * half < heads
                              ? q[i64(g + 8 * half) * kWidth + 8 * i + k]
                              : 0;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i)
        most[half] = fmaxf(most[half],
                           fmaxf(fabsf(x[half][i][0]), fabsf(x[half][i][1])));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = fmaxf(most[half], __shfl_xor_sync(kAllLanes, most[half], 1));
      most[half] = fmaxf(most[half], __shfl_xor_sync(kAllLanes, most[half], 2));
      if (c == 0)
        shared.most[warp][g + 8 * half] = most[half];
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w)
        all = fmaxf(all, shared.most[w][g + 8 * half]);
      exponent[half] = exponentFor(all);
      float scale = powerOfTwo(-exponent[half]);
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        Split parts = split(x[half][i][0] * scale, x[half][i][1] * scale);
        high[i / 2][i % 2 * 2 + half] = parts.high;
        low[i / 2][i % 2 * 2 + half] = parts.low;
      }
    }
  }

  float sums[kColumns][4] = {};
  // Values for head threadIdx.x / 8, the same in its eight threads.
  int head = threadIdx.x / 8, own = threadIdx.x % 8 * 4;
  float most = -infinity(), sum = 0, scoreScale;
#ifdef MOE_LISTED
  if (a.sinks && span == 0 && head < heads)
    most = a.sinks[firstHead + head], sum = 1;
#endif
  {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w)
      all = fmaxf(all, shared.most[w][head]);
    scoreScale = a.scale * powerOfTwo(exponentFor(all));
  }

  for (int at = begin, which = 0; at < end; at += kKeys, which ^= 1) {
    waitForCopies<0>();
    __syncthreads(); // This tile is complete, the other one free.
    if (at + kKeys < end)
      copyTile(shared.tile[which ^ 1], seen, at + kKeys);
    const u8 *tile = shared.tile[which];

    float scores[kKeys / 8][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int two = 0; two < kKeys / 16; ++two) {
        // ldmatrix order of the 8 x 8 tiles: rows 0 .. 7 with columns 0 .. 7
        // and 8 .. 15, then rows 8 .. 15 with the same columns.
        int row = two * 16 + lane / 16 * 8 + lane % 8;
        int column = (warp * kSteps + step) * 16 + lane / 8 % 2 * 8;
        u32 b[4];
        loadMatrices(b, tile + row * kTilePitch + column * 2);
        mma(scores[2 * two], high[step], b[0], b[1]);
        mma(scores[2 * two], low[step], b[0], b[1]);
        mma(scores[2 * two + 1], high[step], b[2], b[3]);
        mma(scores[2 * two + 1], low[step], b[2], b[3]);
      }
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *(float2 *)&shared.scores[warp][g + 8 * half][8 * i + 2 * c] =
            make_float2(scores[i][2 * half], scores[i][2 * half + 1]);
    __syncthreads();

    float x[4] = {};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      float4 part = *(const float4 *)&shared.scores[w][head][own];
      x[0] += part.x;
      x[1] += part.y;
      x[2] += part.z;
      x[3] += part.w;
    }
    float next = most;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = at + own + i < end ? x[i] * scoreScale : -infinity();
      next = fmaxf(next, x[i]); // Drops a NaN, but the NaN's own weight is NaN.
    }
#pragma unroll
    for (int i = 1; i < 8; i *= 2)
      next = fmaxf(next, __shfl_xor_sync(kAllLanes, next, i));
    float shift = next == -infinity() ? 0 : next, total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = expf(x[i] - shift);
      total += x[i];
    }
#pragma unroll
    for (int i = 1; i < 8; i *= 2)
      total += __shfl_xor_sync(kAllLanes, total, i);
    float alpha = expf(most - shift);
    sum = sum * alpha + total;
    most = next;
    Split first = split(x[0] * kWeightScale, x[1] * kWeightScale);
    Split second = split(x[2] * kWeightScale, x[3] * kWeightScale);
    *(uint2 *)&shared.weights[0][head][own] =
        make_uint2(first.high, second.high);
    *(uint2 *)&shared.weights[1][head][own] = make_uint2(first.low, second.low);
    if (own == 0)
      shared.alpha[head] = alpha;
    __syncthreads();

    float up = shared.alpha[g], down = shared.alpha[g + 8];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      sums[i][0] *= up;
      sums[i][1] *= up;
      sums[i][2] *= down;
      sums[i][3] *= down;
    }
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      u32 p[2][4];
#pragma unroll
      for (int part = 0; part < 2; ++part)
        loadMatrices(p[part], &shared.weights[part][lane / 8 % 2 * 8 + lane % 8]
                                             [step * 16 + lane / 16 * 8]);
#pragma unroll
      for (int i = 0; i < kColumns; i += 2) {
        // Rows 0 .. 7 and 8 .. 15 by columns 0 .. 7, then by columns 8 .. 15.
        int row = step * 16 + lane / 8 % 2 * 8 + lane % 8;
        int column = (warp * kColumns + i + lane / 16) * 8;
        u32 b[4];
        loadTransposed(b, tile + row * kTilePitch + column * 2);
        mma(sums[i], p[0], b[0], b[1]);
        mma(sums[i], p[1], b[0], b[1]);
        mma(sums[i + 1], p[0], b[2], b[3]);
        mma(sums[i + 1], p[1], b[2], b[3]);
      }
    }
  }

#ifdef MOE_LISTED
  float *out = a.splits > 1 ? a.spans + (i64(t) * a.splits + span) * a.heads *
                                            (kLatent + 2)
                            : a.out + t * a.outStride;
#else
  float *out = a.out + (i64(t) * a.splits + span) * a.outStride;
#endif
  if (a.splits > 1 && own == 0 && head < heads) {
    float *stats = out + i64(a.heads) * kLatent + firstHead + head;
    stats[0] = most;
    stats[a.heads] = sum;
  }
  __syncthreads();
  if (own == 0)
    shared.alpha[head] = (a.splits > 1 ? 1 : 1 / sum) / kWeightScale;
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (g + 8 * half >= heads)
      continue;
    float scale = shared.alpha[g + 8 * half];
    float *to = out + i64(firstHead + g + 8 * half) * kLatent +
                warp * kColumns * 8 + 2 * c;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      to[8 * i] = sums[i][2 * half] * scale;
      to[8 * i + 1] = sums[i][2 * half + 1] * scale;
    }
  }
}
