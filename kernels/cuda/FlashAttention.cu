// Attention whose heads share keys and values in groups (GQA), with tensor
// cores, on caches of F16, BF16 (FlashHalf.cuh) and Q8_0 (FlashCodes.cuh).
// Queries that read the same KV head are rows of one tile: they are numbered
// token by token, and within a token over the heads of the group. A warp
// multiplies sixteen of them with some keys, keeps scores, softmax and weighted
// sums in registers, and takes the next keys.
//
//   Decode   A block has sixteen queries and a KV split. Its four warps have
//   the
//            same queries and every fourth group of sixteen keys, each group in
//            a ring of its own, so that no barrier is in the loop: 4 warps x 2
//            stages x 8 KB of F16 with 128 columns are in flight, where a 4090
//            needs 5 KB per multiprocessor and an H100 15 KB. At the end their
//            sums are added in the order of warps.
//   Prefill  (MOE_PREFILL) A block has sixteen queries for each of four warps,
//            which share tiles of 32 keys in two stages; three blocks fit on a
//            multiprocessor. (sm_90: eight warps and 64 keys, one block.) A
//            matrix load of 16 x 16 elements, four wavefronts, serves two mma:
//            16 cycles of a 4090's multiprocessor, 4 of an A100's, which is as
//            long as the load. Tiles that see the most keys come first.
//
// Registers of a thread with 128 columns: sums 64, scores 16 or 32 in prefill
// and 8 in decode, queries 32 in prefill. Decode has them in shared memory,
// once for all warps.
//
// Precision. Scores, weights and sums are floats. In decode, where memory is
// the limit, queries and weights are each split into a high and a low 16-bit
// part, which are multiplied separately (kParts): the error is 2^-17 (BF16,
// Q8_0) or 2^-21 of a number. In prefill that would halve the rate of tensor
// cores, so there they are rounded to one 16-bit number, as the cache has
// rounded its keys and values (F16: 2^-11; BF16: 2^-8; Q8_0: 2^-8 of
// a block's largest): the error of a result grows by no more than a factor of
// sqrt(2).

#include "kernels/cuda/KvHalf.cuh"
#include "kernels/cuda/Spans.cuh"

constexpr int kWarps = MOE_WARPS, kStages = MOE_STAGES;
#ifdef MOE_PREFILL
constexpr int kParts = 1;
constexpr int kKeys = MOE_KEYS; ///< Of a tile, which all warps share.
constexpr int kRows = 16 * kWarps;
constexpr int kRings = 1, kRingWarps = kWarps;
#else
constexpr int kParts = 2;
constexpr int kKeys = 16; ///< Of a tile, which belongs to one warp.
constexpr int kRows = 16;
constexpr int kRings = kWarps, kRingWarps = 1;
#endif
constexpr int kGroups = kKeys / 16; ///< Rows of a tile, sixteen at a time.
constexpr int kSteps = (MOE_KEY + 15) / 16;
/// Warps that copy a group of sixteen rows.
constexpr int kCopyWarps = kRingWarps / kGroups;
static_assert(kCopyWarps * kGroups == kRingWarps && kCopyWarps <= 4,
              "whole groups for warps");
constexpr float kLog2E = 1.4426950408889634f;

/// Positions from `begin` up to `end`.
struct Span {
  int begin, end;
};

/// Sixteen rows of the cache, of which a tile has `kGroups`.
struct Group {
  i64 row;      ///< First row in the cache.
  int position; ///< Its position.
};

MOE_DEVICE void addParts(float (&d)[4], const u32 (&a)[kParts][4], u32 b0,
                         u32 b1) {
#pragma unroll
  for (int part = 0; part < kParts; ++part)
    mma(d, a[part], b0, b1);
}

/// Weights of sixteen keys as the fragments of one step.
MOE_DEVICE void narrowWeights(u32 (&parts)[kParts][4], const float (&x)[4],
                              const float (&y)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float *p = (i / 2 ? y : x) + i % 2 * 2;
    if constexpr (kParts == 2) {
      Split both = split(p[0], p[1]);
      parts[0][i] = both.high;
      parts[kParts - 1][i] = both.low;
    } else {
      parts[0][i] = narrow(p[0], p[1]);
    }
  }
}

#if MOE_KV == MOE_KV_Q8_0
#include "kernels/cuda/FlashCodes.cuh"
#else
#include "kernels/cuda/FlashHalf.cuh"
#endif

constexpr int kRingBytes = kStages * kTileBytes;
/// At the end of decode, the sums of each warp replace its tiles.
constexpr int kSumPitch = kColumnTiles * 8 + 4;
constexpr int kSumBytes = 16 * kSumPitch * 4;
/// Bytes of a warp's tiles in decode, which the queries follow.
constexpr int kWarpBytes = kRingBytes > kSumBytes ? kRingBytes : kSumBytes;

/// 2^x, within two units in the last place.
MOE_DEVICE float exp2Of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// What a block computes: queries of a KV head, from `first` on, and a split.
struct Work {
  const AttentionArgs &a;
  const Sequence &sequence;
  int group, kvHead, first, count; ///< count: queries of the whole sequence.
  Span span;
  i64 base; ///< Row of the sequence's first position, with MOE_CONTIGUOUS.

  /// Returns the positions that a query sees, the last one's after the last.
  __device__ __forceinline__ Span seenBy(int query) const {
    int position = sequence.position + min(query, count - 1) / group;
    return {max(firstVisible(position, a.window), span.begin),
            min(position + 1, span.end)};
  }
  __device__ __forceinline__ const float *query(int query) const {
    return a.q + (sequence.begin + query / group) * a.qStride +
           i64(kvHead * group + query % group) * MOE_KEY;
  }
  __device__ __forceinline__ Group groupAt(int position) const {
#ifdef MOE_CONTIGUOUS
    return {base + position, position};
#else
    return {cacheRow(sequence.pages, sequence.state, a.ring, position),
            position};
#endif
  }
};

/// The column of a query, of two that follow each other, in a step's fragment.
MOE_DEVICE int queryColumn(int step, int half, int c) {
  return 16 * step + (kHasCodes ? 4 * c + 2 * half : 2 * c + 8 * half);
}

/// Queries g and g + 8 of a warp as the fragments of steps, in one or two
/// parts. They are scaled by 2^-exponent.
struct Query {
  const float *row[2]; ///< Null beyond the last query.
  int c, exponent[2];

  __device__ __forceinline__ float at(int half, int column) const {
    return row[half] && column < MOE_KEY ? row[half][column] : 0;
  }
  __device__ __forceinline__ void findExponents() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = 0;
#if MOE_KV == MOE_KV_F16
      // All loads are in flight together.
#pragma unroll
      for (int i = 0; i < kSteps * 4; ++i)
        most = fmaxf(most, fabsf(at(half, 16 * (i / 4) + 4 * c + i % 4)));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
#endif
      exponent[half] = exponentFor(most);
    }
  }
  __device__ __forceinline__ void load(u32 (&parts)[kParts][4],
                                       int step) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int half = i % 2, column = queryColumn(step, i / 2, c);
      float scale = powerOfTwo(-exponent[half]);
      float x = at(half, column) * scale, y = at(half, column + 1) * scale;
      if constexpr (kParts == 2) {
        Split both = split(x, y);
        parts[0][i] = both.high;
        parts[kParts - 1][i] = both.low;
      } else {
        parts[0][i] = narrow(x, y);
      }
    }
  }
};

/// In prefill, twelve warps of a multiprocessor hide each other's latencies if
/// a thread has 168 registers.
#ifdef MOE_PREFILL
constexpr bool isNarrow = MOE_KEY <= 128 && MOE_VALUE <= 128 && !kHasCodes;
constexpr int kPerSm = kWarps == 4 ? (isNarrow ? 3 : 2) : 1;
#else
constexpr int kPerSm = 1;
#endif

MOE_KERNEL(kWarps * 32, kPerSm, AttentionArgs) {
  extern __shared__ uint4 memory[];
  // Tiles are numbered across all sequences; a tile's rows are of one sequence.
  int index = gridDim.x - 1 - blockIdx.x, s = 0;
  int groupHeads = a.heads / a.kvHeads;
  i64 base = 0;
  for (; s < a.step->sequences; ++s) {
    int tiles = (a.step->sequence[s].count * groupHeads + kRows - 1) / kRows;
    if (index < tiles)
      break;
    index -= tiles;
    base += (a.step->sequence[s].position + a.step->sequence[s].count + 15) /
            16 * 16;
  }
  if (s == a.step->sequences)
    return;
  const Sequence &sequence = a.step->sequence[s];
  Spans spans = spansOf(sequence, a.splits, a.window);
  int split = blockIdx.y;
  Work work = {a,
               sequence,
               groupHeads,
               int(blockIdx.z),
               index * kRows,
               sequence.count * groupHeads,
               {spans.base + split * spans.length,
                spans.base + (split + 1) * spans.length},
               base};
  Span seen = {work.seenBy(work.first).begin,
               work.seenBy(work.first + kRows - 1).end};
  if (seen.begin >= seen.end)
    return;

  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int g = lane / 4, c = lane % 4;
#ifdef MOE_PREFILL
  constexpr int kStride = kKeys;
  int ownQuery = work.first + 16 * warp, firstAt = seen.begin / 16 * 16;
  u8 *ring = (u8 *)memory;
  int copyGroup = warp / kCopyWarps;
  int copyThread = warp % kCopyWarps * 32 + lane;
#else
  constexpr int kStride = 16 * kWarps;
  int ownQuery = work.first, firstAt = seen.begin / 16 * 16 + 16 * warp;
  u8 *ring = (u8 *)memory + warp * kWarpBytes;
  int copyGroup = 0, copyThread = lane;
#endif
  auto groupOf = [&](int at) {
    int position = at + 16 * copyGroup;
    return work.groupAt(position < seen.end ? position : seen.begin / 16 * 16);
  };
  auto copy = [&](int at, int stage, i64 row) {
    if (at < seen.end)
      copyRows(ring + stage * kTileBytes, copyGroup, copyThread, a, work.kvHead,
               {row, at + 16 * copyGroup}, seen);
    commitCopies();
  };
  // The page of a tile is looked up one tile before it is copied.
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i)
    copy(firstAt + i * kStride, i, groupOf(firstAt + i * kStride).row);
  i64 nextRow = groupOf(firstAt + (kStages - 1) * kStride).row;

  // What the thread's queries see, and what all or some of the warp's do.
  Span own[2] = {work.seenBy(ownQuery + g), work.seenBy(ownQuery + g + 8)};
  Span some = {work.seenBy(ownQuery).begin, work.seenBy(ownQuery + 15).end};
  Span all = {work.seenBy(ownQuery + 15).begin, work.seenBy(ownQuery).end};
  Query query;
  query.c = c;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int i = ownQuery + g + 8 * half;
    query.row[half] = i < work.count ? work.query(i) : nullptr;
  }
  query.findExponents();
  float scoreScale[2] = {a.scale * powerOfTwo(query.exponent[0]),
                         a.scale * powerOfTwo(query.exponent[1])};
#ifdef MOE_PREFILL
  u32 fragments[kSteps][kParts][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    query.load(fragments[step], step);
  auto queryOf = [&](u32(&parts)[kParts][4], int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      parts[0][i] = fragments[step][0][i];
  };
#else
  uint4 *fragments = memory + kWarps * kWarpBytes / 16;
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    if (step % kWarps == warp) {
      u32 parts[kParts][4];
      query.load(parts, step);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        fragments[(step * kParts + part) * 32 + lane] = make_uint4(
            parts[part][0], parts[part][1], parts[part][2], parts[part][3]);
    }
  __syncthreads();
  auto queryOf = [&](u32(&parts)[kParts][4], int step) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      uint4 x = fragments[(step * kParts + part) * 32 + lane];
      parts[part][0] = x.x;
      parts[part][1] = x.y;
      parts[part][2] = x.z;
      parts[part][3] = x.w;
    }
  };
#endif

  float most[2], sum[2], sums[kColumnTiles][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int i = ownQuery + g + 8 * half;
    // A sink is a score in the first split that its token sees.
    bool hasSink =
        a.sinks && i < work.count && (kRings == 1 || warp == 0) &&
        work.span.begin <=
            firstVisible(sequence.position + i / groupHeads, a.window);
    most[half] = hasSink ? a.sinks[work.kvHead * groupHeads + i % groupHeads]
                         : -infinity();
    // The four lanes of a query add up parts of its sum.
    sum[half] = hasSink && c == 0 ? kWeightScale : 0;
  }

  for (int at = firstAt, stage = 0; at < seen.end; at += kStride) {
    waitCopies<kStages - 2>();
    // This tile is complete, and the one before it not read any more.
#ifdef MOE_PREFILL
    __syncthreads();
#else
    __syncwarp();
#endif
    int later = at + (kStages - 1) * kStride;
    copy(later, (stage + kStages - 1) % kStages, nextRow);
    nextRow = groupOf(later + kStride).row;
    const u8 *tile = ring + stage * kTileBytes;
    stage = (stage + 1) % kStages;
    if (at >= some.end || at + kKeys <= some.begin)
      continue;

    float scores[2 * kGroups][4] = {};
    multiplyKeys(scores, tile, queryOf);
    bool isMasked = at < all.begin || at + kKeys > all.end;
    auto isSeen = [&](int key, int half) {
      return at + key >= own[half].begin && at + key < own[half].end;
    };
#pragma unroll
    for (int i = 0; i < 2 * kGroups; ++i)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        scores[i][k] *= scoreScale[k / 2];
    if (a.softcap != 0) // tanh, with an error of one epsilon of the cap.
#pragma unroll
      for (int i = 0; i < 2 * kGroups; ++i)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          scores[i][k] =
              a.softcap * (1 - 2 / (expf(scores[i][k] * (2 / a.softcap)) + 1));
    if (isMasked)
#pragma unroll
      for (int i = 0; i < 2 * kGroups; ++i)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (!isSeen(keyOf(i, k, c), k / 2))
            scores[i][k] = -infinity();
    float alpha[2], shift[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // fmaxf drops a NaN, but the NaN's own weight is NaN.
      float next = most[half];
#pragma unroll
      for (int i = 0; i < 2 * kGroups; ++i)
        next = fmaxf(next, fmaxf(scores[i][2 * half], scores[i][2 * half + 1]));
      next = fmaxf(next, __shfl_xor_sync(kAllLanes, next, 1));
      next = fmaxf(next, __shfl_xor_sync(kAllLanes, next, 2));
      shift[half] = next == -infinity() ? 0 : next;
      alpha[half] = exp2Of((most[half] - shift[half]) * kLog2E);
      sum[half] *= alpha[half];
      most[half] = next;
    }
#pragma unroll
    for (int i = 0; i < 2 * kGroups; ++i)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        scores[i][k] = exp2Of(
            fmaf(scores[i][k] - shift[k / 2], kLog2E, float(kWeightExponent)));
        sum[k / 2] += scores[i][k];
      }
    if (__any_sync(kAllLanes, alpha[0] != 1 || alpha[1] != 1))
#pragma unroll
      for (int i = 0; i < kColumnTiles; ++i)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          sums[i][k] *= alpha[k / 2];
    addValues(sums, scores, tile, isMasked, isSeen);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] += __shfl_xor_sync(kAllLanes, sum[half], 1);
    sum[half] += __shfl_xor_sync(kAllLanes, sum[half], 2);
  }

  // Writes the weighted sums of a query, or divides them by their sum.
  auto outOf = [&](int query) {
    return a.out +
           (i64(sequence.begin + query / groupHeads) * a.splits + split) *
               a.outStride;
  };
  auto headOf = [&](int query) {
    return work.kvHead * groupHeads + query % groupHeads;
  };
  auto finish = [&](int query, float most, float sum) {
    if (a.splits > 1) {
      float *stats = outOf(query) + i64(a.heads) * MOE_VALUE + headOf(query);
      stats[0] = most;
      stats[a.heads] = sum / kWeightScale;
    }
  };
  auto factorOf = [&](float sum) {
    return a.splits > 1 ? 1 / kWeightScale : 1 / sum;
  };
#ifdef MOE_PREFILL
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int i = ownQuery + g + 8 * half;
    if (i >= work.count || own[half].begin >= own[half].end)
      continue;
    if (c == 0)
      finish(i, most[half], sum[half]);
    float factor = factorOf(sum[half]);
    float *out = outOf(i) + i64(headOf(i)) * MOE_VALUE;
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j)
#pragma unroll
      for (int k = 0; k < 2; ++k)
        if (valueColumn(j, k, c) < MOE_VALUE)
          out[valueColumn(j, k, c)] = sums[j][2 * half + k] * factor;
  }
#else
  // The warps' sums, relative to their own maxima, one after the other.
  waitCopies<0>();
  __syncthreads();
  float(*parts)[16][kSumPitch] = (float(*)[16][kSumPitch])memory;
  float(*stats)[2][16] = (float(*)[2][16])fragments; // Maximum and sum.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j)
#pragma unroll
      for (int k = 0; k < 2; ++k)
        parts[warp][g + 8 * half][valueColumn(j, k, c)] = sums[j][2 * half + k];
    if (c == 0) {
      stats[warp][0][g + 8 * half] = most[half];
      stats[warp][1][g + 8 * half] = sum[half];
    }
  }
  __syncthreads();
  constexpr int kThreadsOfRow = 2 * kWarps;
  int r = threadIdx.x / kThreadsOfRow, i = work.first + r;
  Span span = work.seenBy(i);
  if (i >= work.count || span.begin >= span.end)
    return;
  float top = -infinity(), total = 0, factors[kWarps];
#pragma unroll
  for (int w = 0; w < kWarps; ++w)
    top = fmaxf(top, stats[w][0][r]);
  float shift = top == -infinity() ? 0 : top;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    factors[w] = exp2Of((stats[w][0][r] - shift) * kLog2E);
    total = fmaf(factors[w], stats[w][1][r], total);
  }
  if (threadIdx.x % kThreadsOfRow == 0)
    finish(i, top, total);
  float factor = factorOf(total);
  float *out = outOf(i) + i64(headOf(i)) * MOE_VALUE;
  for (int column = threadIdx.x % kThreadsOfRow; column < MOE_VALUE;
       column += kThreadsOfRow) {
    float x = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w)
      x = fmaf(factors[w], parts[w][r][column], x);
    out[column] = x * factor;
  }
#endif
}
