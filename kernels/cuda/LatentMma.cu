// LatentAttention with tensor cores: decode. A team of four warps has one
// token, a KV split and sixteen heads, which are the rows of an mma tile; keys
// and values are the same rows of the cache, read once. With more heads a block
// has two teams (MOE_TEAMS), which share the tiles that they multiply.
// SparseAttention (MOE_LISTED) uses the same code, with the rows of a token's
// list. Tiles are those of LatentHalf.cuh (F16, BF16) or LatentCodes.cuh
// (Q8_0).
//
// 32 rows at a time are copied to shared memory in the background, into one of
// two tiles. Then
//   scores   Each of four warps has a quarter of the columns, for which it
//            keeps the queries in registers: 9 steps of 16 columns for 576, 72
//            registers; partial scores are added up in the order of warps.
//   softmax  Eight threads per head, four rows each.
//   values   Each warp has a quarter of the latent's columns: 128, 64
//            registers.
// Scores and sums are floats. Queries and weights are split into sums of two
// 16-bit numbers, each multiplied separately: the error is at most 2^-16 (BF16,
// Q8_0) or 2^-22 (F16) of the largest, where a single 16-bit number would have
// an error of 2^-8 or 2^-11 of itself.
//
// A tile is 36 KB (19 KB of Q8_0) and 136 mma per warp. On a 4090 the mma of a
// team take 4.4 of the 11.7 thousand cycles in which a multiprocessor's share
// of the bandwidth delivers the tile of F16, on an H100 0.9 of 2.6 thousand:
// with 16 heads memory is the limit, with 128 the mma. A team has barriers of
// its own between scores, softmax and values, so that one of two teams keeps
// the tensor cores busy while the other waits.
//
// Shared memory: two tiles of 32 rows of 1168 bytes (16 more than a row has, so
// that eight rows use all banks), and for each team scores [4][16][36] floats
// and weights [16][40] floats: 87 KB for one team, 99 KB for two, one
// block per multiprocessor on GeForce (99 KB), two on an H100.

#include "kernels/cuda/KvHalf.cuh"
#ifdef MOE_LISTED
#include "kernels/cuda/Listed.cuh"
using AttentionOf = SparseSplitsArgs;
#else
#include "kernels/cuda/Spans.cuh"
using AttentionOf = LatentAttentionArgs;
#endif

constexpr int kTeams = MOE_TEAMS, kThreads = 128 * kTeams;
/// Heads of a team, rows of a tile, and warps of a team.
constexpr int kHeads = 16, kKeys = 32, kWarps = 4;
constexpr int kLatent = MOE_LATENT, kWidth = MOE_LATENT + MOE_ROPE;
/// Steps of the columns that a warp has.
constexpr int kSteps = kWidth / 16 / kWarps;
/// mma tiles of columns that a warp has.
constexpr int kColumns = kLatent / 8 / kWarps;
static_assert(kWidth % 64 == 0 && kLatent % 64 == 0, "whole steps for warps");

constexpr int kScorePitch = kKeys + 4;
/// Floats from the weights of a head to those of the next one: more than kKeys,
/// so that lanes load eight bytes, or sixteen for Q8_0, from all banks.
constexpr int kWeightPitch = kKeys + (MOE_KV == MOE_KV_Q8_0 ? 16 : 8);

/// The rows that a block reads: numbers `begin` .. `end` - 1 of those that the
/// token sees. row(i) is the address of number i. Number i is position i or,
/// with MOE_LISTED, the i-th of the token's list.
struct Seen {
  const AttentionOf &a;
  Place place;
  int begin, end;
#ifdef MOE_LISTED
  Listed list;
  const int *chosen;

  __device__ __forceinline__ Seen(const AttentionOf &a, const Sequence &s,
                                  int t, int span)
      : a(a), place{s.position + t - s.begin, s.pages, s.state},
        list(listedFor(a, place.position)),
        chosen(a.chosen ? a.chosen + i64(t) * a.topK : nullptr) {
    begin = span * list.length;
    end = min(begin + list.length, list.count());
  }
  __device__ __forceinline__ const u8 *row(int i) const {
    if (i < list.rows)
      return a.kv.data + a.kv.rowStride * cacheRow(place.pages, place.state,
                                                   a.ring, list.begin + i);
    int entry = listedEntry(a, list, chosen, i - list.rows);
    return a.entries.data +
           a.entries.rowStride *
               cacheRow(place.pages, (entry + 1) * a.ratio - 1);
  }
#else
  __device__ __forceinline__ Seen(const AttentionOf &a, const Sequence &s,
                                  int t, int span)
      : a(a), place{s.position + t - s.begin, s.pages, s.state} {
    int length = spansOf(s, Divisor(u32(a.splits)), 0).length;
    begin = span * length;
    end = min(begin + length, place.position + 1);
  }
  __device__ __forceinline__ const u8 *row(int i) const {
    return a.kv.data + a.kv.rowStride * cacheRow(place.pages, i);
  }
#endif
};

#if MOE_KV == MOE_KV_Q8_0
#include "kernels/cuda/LatentCodes.cuh"
#else
#include "kernels/cuda/LatentHalf.cuh"
#endif

/// A team's shared memory: each warp's partial scores; weights; and each warp's
/// largest query elements and the factors that rescale sums.
struct Team {
  float scores[kWarps][kHeads][kScorePitch];
  float weights[kHeads][kWeightPitch];
  float most[kWarps][kHeads], alpha[kHeads];
};
struct Shared {
  u8 tile[2][kTileBytes];
  Team team[kTeams];
};

/// A barrier of the four warps of a team. With two teams, barrier 0 is that of
/// the whole block, and 1 and 2 are theirs.
MOE_DEVICE void joinTeam(int team) {
  if constexpr (kTeams == 1)
    __syncthreads();
  else if (team == 0) // With an operand that is not constant, all barriers
                      // would be reserved.
    asm volatile("bar.sync 1, 128;" : : : "memory");
  else
    asm volatile("bar.sync 2, 128;" : : : "memory");
}

MOE_KERNEL(kThreads, kTeams == 1 ? 2 : 1, AttentionOf) {
  extern __shared__ uint4 memory[];
  Shared &block = *(Shared *)memory;
  int team = threadIdx.x / 128;
  Team &shared = block.team[team];
  int t = blockIdx.x, span = blockIdx.y;
  int firstHead = (blockIdx.z * kTeams + team) * kHeads;
  int tokens = a.step->tokens;
  Sequence first = loadSequence(a.step->sequence);
  if (t >= tokens)
    return;
  Seen seen(a, sequenceFrom(first, a.step, t), t, span);
  int begin = seen.begin, end = seen.end;
  if (begin >= end)
    return;
  copyTile(block.tile[0], seen, begin);

  int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % kWarps;
  int g = lane / 4, c = lane % 4;
  int heads = min(max(a.heads - firstHead, 0), kHeads);
  // The warp's columns of queries g and g + 8.
  u32 high[kSteps][4], low[kSteps][4];
  int exponent[2];
  {
    // All loads are in flight at once: one after the other they would take
    // longer than a short split. They have no branches: rows after the last
    // head read the queries of the last head, and their results are not stored.
    float x[2][2 * kSteps][2], most[2] = {0, 0};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int own = min(firstHead + g + 8 * half, a.heads - 1);
      const float *q = a.q + t * a.qStride + i64(own) * kWidth;
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        const float *pair = q + queryColumn(warp, i, c);
#ifdef MOE_PAIRS
        float2 both = *(const float2 *)pair;
        x[half][i][0] = both.x;
        x[half][i][1] = both.y;
#else
        x[half][i][0] = pair[0];
        x[half][i][1] = pair[1];
#endif
      }
    }
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
    joinTeam(team);
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
  // Softmax: eight threads have a head. `most` and `sum` are its largest score
  // and sum of weights so far, the same in all eight; a thread weighs rows
  // `own` .. `own` + 3 of each tile.
  int head = threadIdx.x % 128 / 8, own = threadIdx.x % 8 * 4;
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
    waitCopies<0>();
    __syncthreads(); // This tile is complete, and the other one is free.
    if (at + kKeys < end)
      copyTile(block.tile[which ^ 1], seen, at + kKeys);
    const u8 *tile = block.tile[which];

    float scores[kKeys / 8][4] = {};
    multiplyKeys(scores, tile, warp, high, low);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      storeScores(shared.scores[warp][g + 8 * half], scores, half, c);
    joinTeam(team);

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
      // fmaxf drops a NaN, but the NaN's own weight is NaN.
      next = fmaxf(next, x[i]);
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
    *(float4 *)&shared.weights[head][own] = make_float4(x[0], x[1], x[2], x[3]);
    if (own == 0)
      shared.alpha[head] = alpha;
    joinTeam(team);

    float up = shared.alpha[g], down = shared.alpha[g + 8];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      sums[i][0] *= up;
      sums[i][1] *= up;
      sums[i][2] *= down;
      sums[i][3] *= down;
    }
    addValues(sums, shared.weights, tile, warp);
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
  joinTeam(team);
  if (own == 0)
    shared.alpha[head] = (a.splits > 1 ? 1 : 1 / sum) / kWeightScale;
  joinTeam(team);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (g + 8 * half >= heads)
      continue;
    float scale = shared.alpha[g + 8 * half];
    float *to = out + i64(firstHead + g + 8 * half) * kLatent;
    forPairs([&](int i, int k, int otherI, int otherK) {
      float *pair = to + valueColumn(warp, i, k, c);
      float x = sums[i][2 * half + k] * scale;
      float y = sums[otherI][2 * half + otherK] * scale;
#ifdef MOE_PAIRS
      storeTwo(pair, x, y);
#else
      pair[0] = x;
      pair[1] = y;
#endif
    });
  }
}
