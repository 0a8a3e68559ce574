// Attention whose heads share keys and values in groups (GQA), with tensor
// cores, on caches of F16, BF16 (FlashHalf.cuh) and Q8_0 (FlashCodes.cuh).
// Queries that read the same KV head are rows of one tile: they are numbered
// token by token, and within a token over the heads of the group. A warp
// multiplies sixteen of them with some keys, keeps scores, softmax and weighted
// sums in registers, and takes the next keys.
//
//   Decode   A block has eight queries or sixteen (MOE_QUERIES) and a KV split.
//            Its eight warps have the same queries and every eighth group of
//            sixteen keys, each group in a ring of its own, so that no barrier
//            is in the loop: 8 warps x 8 KB of F16 with 128 columns are in
//            flight (two stages of them on an A100 or H100), where a 4090 needs
//            5 KB per multiprocessor and an H100 15 KB. At the end each warp
//            leaves its sums where its tiles were, and they are added in the
//            order of warps. A split of 4096 positions takes few microseconds,
//            of which code that has to be fetched is a large part: there are
//            few branches, and what is rare is out of the way (MOE_RARE).
//   Prefill  (MOE_PREFILL) A block has sixteen queries for each of four warps,
//            which share tiles of 32 keys in two stages; three blocks fit on a
//            multiprocessor. A matrix load of 16 x 16 elements, four
//            wavefronts, serves two mma: 16 cycles of a 4090's multiprocessor,
//            4 of an A100's, which is as long as the load: there a warp has 32
//            queries (MOE_TALL), for which it loads operands once, and with F16
//            and BF16 two teams of four warps multiply in turns (MOE_TEAMS,
//            FlashTeams.cuh). (sm_90 to 103: eight warps and 64 keys, one
//            block.) Tiles that see the most keys come first. Those that do not
//            fill a wave are divided (FlashParts.cuh). On an H100, F16 and BF16
//            are multiplied by warpgroups, of 64 queries each
//            (FlashWarpgroup.cuh) or, where a prompt has many rows, of 128
//            (FlashTurns.cuh).
//
// Registers of a thread with 128 columns: sums 64, scores 16 in prefill and 8
// in decode, queries 32 in prefill; with 32 queries of a warp sums and scores
// twice that. Then, and in decode, queries are in shared memory.
//
// Precision. Scores, weights and sums are floats. In decode, where memory is
// the limit, queries and weights are each split into a high and a low 16-bit
// part, which are multiplied separately (kParts): the error is at most 2^-16
// (BF16, Q8_0) or 2^-22 (F16) of a number. Of eight queries, both parts are the
// sixteen rows of one product. In prefill two products would halve the rate of
// tensor cores, so there they are rounded to one 16-bit number, as the cache
// has rounded its keys and values (F16: 2^-11; BF16: 2^-8; Q8_0: 2^-8 of a
// block's largest): the error of a result grows by no more than a factor of
// sqrt(2).

#include "kernels/cuda/KvHalf.cuh"
#include "kernels/cuda/Spans.cuh"
#include "kernels/cuda/Warpgroup.cuh"
#ifdef MOE_PARTS
#include "kernels/cuda/FlashParts.cuh"
using AttentionOf = AttentionPartsArgs;
#else
using AttentionOf = AttentionArgs;
#endif

constexpr int kWarps = MOE_WARPS, kStages = MOE_STAGES;
constexpr int kHeads = MOE_GROUP; ///< Query heads that share a KV head.
#ifdef MOE_PREFILL
constexpr int kParts = 1;
constexpr int kKeys = MOE_KEYS; ///< Keys of a tile, which all warps share.
constexpr int kTall = MOE_TALL; ///< A warp has 16 * kTall queries.
constexpr int kRows = 16 * kTall * kWarps;
constexpr int kRings = 1, kRingWarps = kWarps;
constexpr int kAhead = kStages - 1; ///< Tiles that are copied ahead.
constexpr int kHalves = 2;          ///< Queries of a lane in each 16.
#else
constexpr int kHalves = MOE_QUERIES / 8;
constexpr int kParts = kHalves; ///< One product computes all eights of queries.
constexpr int kKeys = 16;       ///< Keys of a tile, which belongs to one warp.
constexpr int kTall = 1;
constexpr int kRows = MOE_QUERIES;
constexpr int kRings = kWarps, kRingWarps = 1;
constexpr int kAhead = kStages;
#endif
constexpr int kGroups = kKeys / 16; ///< Number of 16 rows in a tile.
constexpr int kSteps = (MOE_KEY + 15) / 16;
/// Warps that copy a group of sixteen rows.
constexpr int kCopyWarps = kRingWarps / kGroups;
static_assert(kCopyWarps * kGroups == kRingWarps && kCopyWarps <= 4,
              "whole groups for warps");
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

/// Positions from `begin` up to `end`.
struct Span {
  int begin, end;
  __device__ __forceinline__ bool has(int position) const {
    return position >= begin && position < end;
  }
};

/// Sixteen rows of the cache, of which a tile has `kGroups`.
struct Group {
  i64 row;      ///< Row in the cache of the first position.
  int position; ///< The first position.
};

/// Weights are relative to a running maximum of scores. In prefill that is
/// raised only when a score exceeds it by more than this exponent of two: after
/// the first tiles, sums hardly ever need to be rescaled.
constexpr int kSlack = kRings == 1 ? 4 : 0;
/// kOne is the weight of a score that equals the running maximum. Weights in
/// F16 are thus at most 2^kWeightExponent (KvHalf.cuh).
constexpr int kOneExponent = kWeightExponent > 0 ? kWeightExponent - kSlack : 0;
constexpr float kOne = float(1 << kOneExponent);

/// Adds to d: (sum of the parts of a) * b.
MOE_DEVICE void addParts(float (&d)[4], const u32 (&a)[kParts][4], u32 b0,
                         u32 b1) {
#pragma unroll
  for (int part = 0; part < kParts; ++part)
    mma(d, a[part], b0, b1);
}

/// A fragment of eight queries has the products of the high parts in elements 0
/// and 1, and those of the low parts in elements 2 and 3. Adds the latter to
/// the former.
template <int Count> MOE_DEVICE void addRows(float (&products)[Count][4]) {
  if constexpr (kHalves == 1)
#pragma unroll
    for (int i = 0; i < Count; ++i)
#pragma unroll
      for (int k = 0; k < 2; ++k)
        products[i][k] += products[i][k + 2];
}

/// Makes operand A, in 16-bit parts, of the weights of sixteen keys: `x` and
/// `y` are the fragments of a group's two score tiles.
MOE_DEVICE void narrowWeights(u32 (&parts)[kParts][4], const float (&x)[4],
                              const float (&y)[4]) {
#pragma unroll
  for (int i = 0; i < 4; i += 3 - kHalves) {
    const float *p = (i / 2 ? y : x) + (kHalves == 2 ? i % 2 * 2 : 0);
    if constexpr (kHalves == 1) {
      Split both = split(p[0], p[1]);
      parts[0][i] = both.high;
      parts[0][i + 1] = both.low;
    } else if constexpr (kParts == 2) {
      Split both = split(p[0], p[1]);
      parts[0][i] = both.high;
      parts[kParts - 1][i] = both.low;
    } else {
      parts[0][i] = narrow(p[0], p[1]);
    }
  }
}

/// A barrier of the warps that read a tile; afterwards all see what they wrote
/// to it.
MOE_DEVICE void syncReaders() {
#ifdef MOE_HAS_WARPGROUPS
  fenceShared();
#endif
  if constexpr (kRingWarps > 1)
    __syncthreads();
  else
    __syncwarp();
}
MOE_DEVICE bool anyReader(bool is) {
  if constexpr (kRingWarps > 1)
    return __syncthreads_or(is);
  else
    return __any_sync(kAllLanes, is);
}

/// A named barrier of all threads of the block: half of them arrive and go on,
/// the others wait, and then see what those have written before they arrived.
MOE_DEVICE void arriveAt(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(32 * kWarps)
               : "memory");
}
MOE_DEVICE void waitAt(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(32 * kWarps) : "memory");
}

#if MOE_KV == MOE_KV_Q8_0
#include "kernels/cuda/FlashCodes.cuh"
#else
#include "kernels/cuda/FlashHalf.cuh"
#endif

constexpr int kRingBytes = kStages * kTileBytes;
#ifdef MOE_PREFILL
/// Steps whose queries a thread of prefill has in registers.
constexpr int kHeldSteps = MOE_HELD < kSteps ? MOE_HELD : kSteps;
#endif
/// At the end of decode, the sums of each warp replace its tiles: rows of sums,
/// and then the maximum and the sum of weights.
constexpr int kSumPitch = kColumnTiles * 8 + 4;
constexpr int kSumBytes = kRows * kSumPitch * 4;
/// Bytes of a warp's tiles in decode, which the queries follow.
constexpr int kWarpBytes = kRingBytes > kSumBytes ? kRingBytes : kSumBytes;

#include "kernels/cuda/FlashQuery.cuh"
#include "kernels/cuda/FlashSoftmax.cuh"
#ifdef MOE_PREFILL
#include "kernels/cuda/FlashPrompt.cuh"
#endif
#ifdef MOE_TEAMS
#include "kernels/cuda/FlashTeams.cuh"
#endif

/// Blocks per multiprocessor. In prefill, three blocks of four warps hide each
/// other's latencies if a thread gets by with 168 registers.
#ifdef MOE_PREFILL
constexpr bool isNarrow =
    MOE_KEY <= 128 && MOE_VALUE <= 128 && !kHasCodes && kTall == 1;
constexpr int kPerSm = kWarps == 4 ? (isNarrow ? 3 : 2) : 1;
#else
constexpr int kPerSm = 1;
#endif

#ifdef MOE_HAS_WARPGROUPS
#include "kernels/cuda/FlashProducts.cuh"
#if MOE_TALL == 2
#include "kernels/cuda/FlashTurns.cuh"
#else
#include "kernels/cuda/FlashWarpgroup.cuh"
#endif
#else
MOE_KERNEL(kWarps * 32, kPerSm, AttentionOf) {
  extern __shared__ uint4 memory[];
  Work work{a};
  if (!work.find(blockIdx, gridDim))
    return;
  const Span seen = work.seen;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int g = lane / 4, c = lane % 4;
#ifdef MOE_PREFILL
  // Tiles begin at the same positions for every row, wherever it is in a step.
  constexpr int kStride = kKeys;
  int ownQuery = work.first + 16 * kTall * warp;
  int firstAt = seen.begin / kKeys * kKeys;
  u8 *ring = (u8 *)memory;
  int copyGroup = warp / kCopyWarps;
  int copyThread = warp % kCopyWarps * 32 + lane;
#else
  constexpr int kStride = 16 * kWarps;
  int ownQuery = work.first, firstAt = seen.begin / 16 * 16 + 16 * warp;
  u8 *ring = (u8 *)memory + warp * kWarpBytes;
  int copyGroup = 0, copyThread = lane;
#endif
  auto rowOf = [&](int at) { return work.rowOf(at + 16 * copyGroup); };
#ifdef MOE_TEAMS
  auto copyKeysAt = [&](int at, u8 *tile) {
    if (at < seen.end)
      copyKeys(tile, copyGroup, copyThread, a, work.kvHead,
               {rowOf(at), at + 16 * copyGroup}, seen);
  };
  auto copyValuesAt = [&](int at, u8 *tile) {
    if (at < seen.end)
      copyValues(tile, copyGroup, copyThread, a, work.kvHead,
                 {rowOf(at), at + 16 * copyGroup}, seen);
  };
#else
  auto copy = [&](int at, int stage, i64 row) {
    if (at < seen.end)
      copyRows(ring + stage * kTileBytes, copyGroup, copyThread, a, work.kvHead,
               {row, at + 16 * copyGroup}, seen);
    commitCopies();
  };
#endif
  // What all queries see that read a tile. Of a tile at an edge, a warp of
  // prefill computes again what its queries see: it has no registers for that.
  Span common = work.common();
  auto spanOf = [&](int query) {
    int i = ownQuery;
    // Keeps the compiler from moving this before the loop.
    asm volatile("" : "+r"(i));
    return work.seenBy(i + query);
  };
#ifdef MOE_PREFILL
  auto seenOf = [&](int tall, int half) {
    return spanOf(16 * tall + 8 * half + g);
  };
#else
  // A warp has every kWarps-th step. These loads come before those of the
  // cache, which memory takes long to deliver; nothing waits for them before.
  constexpr int kOwnSteps = (kSteps + kWarps - 1) / kWarps;
#if MOE_QUERIES == 8
  Query query = {
      {work.query(ownQuery + g)}, c, a.scale * kLog2E, {exponentFor(0)}};
#else
  Query query = {{work.query(ownQuery + g), work.query(ownQuery + g + 8)},
                 c,
                 a.scale * kLog2E,
                 {exponentFor(0), exponentFor(0)}};
#endif
  float x[kHalves][kOwnSteps][4];
  query.read<kSteps % kWarps == 0>(x, warp, kWarps);
#endif
  // The page of a tile is looked up one tile before it is copied.
#ifdef MOE_TEAMS
  copyKeysAt(firstAt, ring);
  commitCopies();
  copyKeysAt(firstAt + kStride, ring + kTileBytes);
  copyValuesAt(firstAt, ring);
  commitCopies();
  // The tile before the first one has weights of zero.
  clearValues(ring + (kStages - 1) * kTileBytes);
#else
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    copy(firstAt + i * kStride, i, rowOf(firstAt + i * kStride));
  i64 nextRow = rowOf(firstAt + kAhead * kStride);
#endif
#ifndef MOE_PREFILL
  query.multiply(x);
  Span own[kHalves];
#pragma unroll
  for (int half = 0; half < kHalves; ++half)
    own[half] = work.seenBy(ownQuery + 8 * half + g);
  auto seenOf = [&](int, int half) { return own[half]; };
#endif

  // A product of a query and a key, times `unit`, is a score times log2(e).
  // With a cap, capScores() replaces products by such scores, and `unit` is 1.
  float unit[kTall][kHalves];
#ifdef MOE_PREFILL
  // Fragments of the first steps stay in registers, a lane's others in shared
  // memory.
  u32 fragments[kTall][kHeldSteps > 0 ? kHeldSteps : 1][4];
  uint4 *others =
      memory + kRingBytes / 16 + warp * kTall * (kSteps - kHeldSteps) * 32 + lane;
  auto firstOf = [&](int tall) { return ownQuery + 16 * tall; };
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall) {
    PromptQueries queries(work, firstOf(tall));
    queries.narrow(unit[tall], [&](int step, const u32(&parts)[4]) {
      if (step < kHeldSteps)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          fragments[tall][step][i] = parts[i];
      else
        others[((step - kHeldSteps) * kTall + tall) * 32] =
            make_uint4(parts[0], parts[1], parts[2], parts[3]);
    });
  }
  auto queryOf = [&](u32(&parts)[kParts][4], int step, int tall) {
    if (step < kHeldSteps) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        parts[0][i] = fragments[tall][step][i];
      return;
    }
    uint4 x = others[((step - kHeldSteps) * kTall + tall) * 32];
    parts[0][0] = x.x;
    parts[0][1] = x.y;
    parts[0][2] = x.z;
    parts[0][3] = x.w;
  };
#else
  uint4 *fragments = memory + kWarps * kWarpBytes / 16;
  if constexpr (kHasExponents) {
    __shared__ float mosts[kRows][kWarps];
#pragma unroll
    for (int half = 0; half < kHalves; ++half)
      mosts[g + 8 * half][warp] = Query::mostOf(x[half]);
    __syncthreads();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float most = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w)
        most = fmaxf(most, mosts[g + 8 * half][w]);
      query.exponent[half] = exponentFor(most);
    }
  }
#pragma unroll
  for (int i = 0; i < kOwnSteps; ++i) {
    int step = warp + i * kWarps;
    if (kSteps % kWarps != 0 && step >= kSteps)
      break;
    u32 parts[kParts][4];
    query.narrowed(parts, x, i);
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      fragments[(step * kParts + part) * 32 + lane] = make_uint4(
          parts[part][0], parts[part][1], parts[part][2], parts[part][3]);
  }
  __syncthreads();
#pragma unroll
  for (int half = 0; half < kHalves; ++half)
    unit[0][half] = powerOfTwo(query.exponent[half]);
  auto queryOf = [&](u32(&parts)[kParts][4], int step, int) {
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
#ifdef MOE_SOFTCAP
  const float cap = a.softcap * kLog2E;
  float inside[kTall][kHalves];
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall)
    insideCap(inside[tall], unit[tall], a.softcap);
#endif

  float most[kTall][kHalves], sum[kTall][kHalves];
  float sums[kTall][kColumnTiles][4] = {};
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall)
    startSums(most[tall], sum[tall], work, ownQuery + 16 * tall,
              kRings == 1 || warp == 0);

  auto isEdge = [&](int at) {
    return at < common.begin || at + kKeys > common.end;
  };
  auto hideValues = [&](int at, u8 *tile) {
    hideNonFinite(sums, tile, [&](int key, int tall, int half) {
      return seenOf(tall, half).has(at + key);
    });
  };
  auto hideScores = [&](float(&scores)[kTall][2 * kGroups][4], int at) {
#pragma unroll
    for (int tall = 0; tall < kTall; ++tall) {
      addRows(scores[tall]);
#ifdef MOE_SOFTCAP
      capScores(scores[tall], inside[tall], cap);
#endif
#ifdef MOE_PREFILL
      if (isEdge(at))
        hideUnseen(scores[tall], at, c, {seenOf(tall, 0), seenOf(tall, 1)});
#else // A few scores cost less than a jump.
      hideUnseen(scores[tall], at, c, own);
#endif
    }
  };
  // Makes weights of scores. Returns whether sums have to be rescaled.
  float alpha[kTall][kHalves];
  auto weighAll = [&](float(&scores)[kTall][2 * kGroups][4]) {
    bool isScaled = false;
#pragma unroll
    for (int tall = 0; tall < kTall; ++tall)
      isScaled |= weigh(scores[tall], alpha[tall], most[tall], sum[tall],
                        unit[tall]);
    return isScaled;
  };
  auto rescaleAll = [&](bool isScaled) {
    if (__any_sync(kAllLanes, isScaled))
#pragma unroll
      for (int tall = 0; tall < kTall; ++tall)
        rescale(sums[tall], alpha[tall]);
  };
#ifdef MOE_TEAMS
  const int team = warp / kTeamWarps;
  u32 weights[kTall][kGroups][kParts][4] = {}; // Weights of the previous tile.
  if (team == 1) {
    waitCopies<1>(); // Waits for the first keys, with which team 0 begins.
    endTurn(1);
  }
  int at = firstAt, stage = 0;
  while (true) {
    int after = stage == kStages - 1 ? 0 : stage + 1;
    u8 *last = ring + (stage == 0 ? kStages - 1 : stage - 1) * kTileBytes;
    // Waits for this tile's keys and the previous tile's values.
    waitCopies<1>();
    if (at > firstAt && isEdge(at - kStride)) {
      __syncthreads();
      hideValues(at - kStride, last);
    }
    if (at >= seen.end)
      break;
    Turn turn(last, ring + stage * kTileBytes, lane);
    float scores[kTall][2 * kGroups][4] = {};
    turn.loadQueries(0, queryOf);
    beginTurn(team);
    turn.multiply<kValuesOfTurn + kKeysOfTurn>(
        sums, weights, scores, queryOf, [&] {
          if (team == 1)
            waitCopies<0>(); // Waits for the next tile, with which team 0
                             // begins.
          endTurn(team);
        });
    copyKeysAt(at + 2 * kStride, last);
    copyValuesAt(at + kStride, ring + after * kTileBytes);
    commitCopies();
    hideScores(scores, at);
    rescaleAll(weighAll(scores));
#pragma unroll
    for (int tall = 0; tall < kTall; ++tall)
#pragma unroll
      for (int group = 0; group < kGroups; ++group)
        narrowWeights(weights[tall][group], scores[tall][2 * group],
                      scores[tall][2 * group + 1]);
    stage = after;
    at += kStride;
  }
  // The values of the last tile.
  u8 *last = ring + (stage == 0 ? kStages - 1 : stage - 1) * kTileBytes;
  Turn turn(last, last, lane);
  float scores[kTall][2 * kGroups][4];
  beginTurn(team);
  turn.multiply<kValuesOfTurn>(sums, weights, scores, queryOf, [&] {
    if (team == 0)
      endTurn(0);
  });
#else
  auto addTile = [&](int at, u8 *tile) {
    bool edge = isEdge(at);
    if (kRings == 1 ? edge : MOE_RARE(edge)) {
      hideValues(at, tile);
      if (kRings == 1 && (at >= spanOf(16 * kTall - 1).end ||
                          at + kKeys <= spanOf(0).begin))
        return;
    }
    float scores[kTall][2 * kGroups][4] = {};
    multiplyKeys(scores, tile, queryOf);
    hideScores(scores, at);
    rescaleAll(weighAll(scores));
    addValues(sums, scores, tile);
  };
  for (int at = firstAt, stage = 0; at < seen.end; at += kStride) {
    int later = at + kAhead * kStride;
    waitCopies<kAhead - 1>(); // Waits until this tile is complete.
#ifdef MOE_PREFILL
    __syncthreads();          // No thread reads the previous tile any more.
    copy(later, (stage + kAhead) % kStages, nextRow);
    nextRow = rowOf(later + kStride);
    addTile(at, ring + stage * kTileBytes);
#else
    __syncwarp();
    addTile(at, ring + stage * kTileBytes);
    __syncwarp(); // No lane reads the tile any more.
    if (later < seen.end) {
      copy(later, stage, nextRow);
      nextRow = rowOf(later + kStride);
    } else {
      commitCopies();
    }
#endif
    stage = (stage + 1) % kStages;
  }
#endif
#ifdef MOE_PREFILL
  writeAll(work, firstOf, most, sum, sums);
#else
  addLanes(sum[0]);
  // The warps' sums, relative to their own maxima, one after the other. A warp
  // that waits for no tile any more leaves them where these were.
  waitCopies<0>();
  __syncwarp();
  addRows(sums[0]);
  auto partOf = [&](int w, int row) {
    return (float *)((u8 *)memory + w * kWarpBytes) + row * kSumPitch;
  };
  // Index of the maximum, before that of the sum.
  constexpr int kStats = kColumnTiles * 8;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    float *to = partOf(warp, g + 8 * half);
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j)
#pragma unroll
      for (int k = 0; k < 2; ++k)
        to[valueColumn(j, k, c)] = sums[0][j][2 * half + k];
    if (c == 0) {
      to[kStats] = most[0][half];
      to[kStats + 1] = sum[0][half];
    }
  }
  __syncthreads();
  for (int r = warp, rows = min(kRows, work.count - work.first); r < rows;
       r += kWarps) {
    int i = work.first + r;
    Span span = work.seenBy(i);
    if (span.begin >= span.end)
      continue;
    float top = -infinity(), total = 0, factors[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w)
      top = fmaxf(top, partOf(w, r)[kStats]);
    float shift = top == -infinity() ? 0 : top;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      factors[w] = exp2Of(partOf(w, r)[kStats] - shift);
      total = fmaf(factors[w], partOf(w, r)[kStats + 1], total);
    }
    if (lane == 0)
      writeStats(work, i, top, total);
    float factor = factorOf(work, total);
    float *out = work.outOf(i) + i64(work.headOf(i)) * MOE_VALUE;
#pragma unroll
    for (int column = 2 * lane; column < MOE_VALUE; column += 64) {
      Pair x = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        float2 part = *(const float2 *)(partOf(w, r) + column);
        x.x = fmaf(factors[w], part.x, x.x);
        x.y = fmaf(factors[w], part.y, x.y);
      }
      storePair(out + column, x.x * factor, x.y * factor, MOE_VALUE - column);
    }
  }
#endif
}
#endif // MOE_HAS_WARPGROUPS
