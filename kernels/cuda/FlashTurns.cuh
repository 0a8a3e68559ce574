//===- FlashTurns.cuh - FlashAttention of warpgroups by turns ---*- C++ -*-===//
//
// Included by FlashAttention.cu: prefill on an H100. A block has two warpgroups
// of 128 queries, which share tiles of keys and values. A warpgroup goes from
// one 64 of its queries to the other one, and then to the next tile. It begins
// the scores of one 64 and, behind them, the weighted values of the 64 before
// it; while those are summed, it makes weights of the scores. The warpgroups do
// so by turns: one makes weights while the other one multiplies.
//
// With 128 columns and 64 keys, the products of both warpgroups take 2048
// cycles, and L2 sends the tile in 1700. With half of the queries
// (FlashWarpgroup.cuh) products would take half as long, and tensor cores would
// wait for L2.
//
// Registers of a thread: sums 128, scores 32, weights 16, and queries of the
// first steps. Other queries are operands in shared memory, which is then busy
// for as long as their scores take.
//
//===----------------------------------------------------------------------===//

static_assert(kWarps == 8 && kTall == 2 && kStages >= 3 && kParts == 1 &&
                  kKeys == 64 && !kHasCodes && MOE_VALUE % 64 == 0,
              "what launches choose");

/// Tiles that are copied ahead. Of the others, one is multiplied with queries,
/// and values of the one before it with weights.
constexpr int kTilesAhead = kStages - 2;
constexpr int kPiece = 64; ///< Queries of one product.
#ifdef MOE_SOFTCAP // The softcap needs the registers that would hold queries.
constexpr int kHeld = 0;
#else
constexpr int kHeld = kHeldSteps;
#endif

/// A warpgroup's queries: first steps as operands in registers, and others in
/// shared memory like keys: 64 rows of 128 bytes, then those of the next 64
/// columns.
struct Queries {
  static constexpr int kNextStep = kPiece * 128, kBytes = kPiece * kKeyPitch;
  u8 *own; ///< Shared memory of this warpgroup's queries.
  Tile64 tile;
  u32 held[kTall][kHeld > 0 ? kHeld : 1][4];
  /// `memory` is the shared memory of all warpgroups.
  __device__ __forceinline__ Queries(u8 *memory)
      : own(memory + threadIdx.x / 128 * kTall * kBytes),
        tile(columnsOf<128>(sharedAddress(own))) {}
  __device__ __forceinline__ void set(int tall, int step,
                                      const u32 (&parts)[4]) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int r = row + i % 2 * 8, chunk = 2 * step + i / 2;
      if (step < kHeld)
        held[tall][step][i] = parts[i];
      else
        *(u32 *)(own + tall * kBytes + chunk / 8 * kNextStep + r * 128 +
                 ((chunk ^ r) & 7) * 16 + lane % 4 * 4) = parts[i];
    }
  }
  /// Scores of the keys of `tile`.
  __device__ __forceinline__ void multiply(float (&scores)[kKeys / 8][4],
                                           int tall, Tile64 keys) const {
    Tile64 others = tile;
    // Keeps the compiler from holding a register for each step.
    asm volatile("" : "+l"(others));
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Tile64 of = laterTile(keys, step / 4 * kNextColumns + step % 4 * 32);
      if (step < kHeld)
        multiplyGroup(scores, held[tall][step], of);
      else
        multiplyGroup(scores,
                      laterTile(others, tall * kBytes + step / 4 * kNextStep +
                                            step % 4 * 32),
                      of);
    }
  }
};

/// The same, but what depends on it is computed where it is used, and takes no
/// register until then.
MOE_DEVICE int here(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

MOE_KERNEL(kWarps * 32, 1, AttentionOf) {
  extern __shared__ __align__(1024) uint4 memory[];
  Work work{a};
  if (!work.find(blockIdx, gridDim))
    return;
  const Span seen = work.seen;

  int warp = threadIdx.x / 32, c = threadIdx.x % 4;
  /// The first of a warp's queries of the warpgroup's 64 with this number.
  auto queryAt = [&](int tall) {
    return work.first + (warp / 4 * kTall + tall) * kPiece + warp % 4 * 16;
  };
  int copyGroup = warp / kCopyWarps;
  u8 *ring = (u8 *)memory;
  auto rowOf = [&](int at) { return work.rowOf(at + 16 * copyGroup); };
  // The copies need no branch: rows after the last one become zero.
  auto copy = [&](int at, int stage, i64 row) {
    int thread = here(threadIdx.x), group = thread / (32 * kCopyWarps);
    copyRows(ring + stage * kTileBytes, group, thread % (32 * kCopyWarps), a,
             work.kvHead, {row, at + 16 * group}, seen);
    commitCopies();
  };
  // Tiles begin at the same positions for every row, wherever it is in a step.
  int at = seen.begin / kKeys * kKeys, stage = 0;
#pragma unroll
  for (int i = 0; i < kTilesAhead; ++i)
    copy(at + i * kKeys, i, rowOf(at + i * kKeys));
  // The page of a tile is looked up one tile before it is copied.
  i64 nextRow = rowOf(at + kTilesAhead * kKeys);

  Queries queries(ring + kRingBytes);
  float unit[kTall][2], most[kTall][2], sum[kTall][2];
  float sums[kTall][kColumnTiles][4] = {};
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall) {
    PromptQueries loaded(work, queryAt(tall));
    loaded.narrow(unit[tall], [&](int step, const u32(&parts)[4]) {
      queries.set(tall, step, parts);
    });
    startSums(most[tall], sum[tall], work, queryAt(tall), true);
  }
#ifdef MOE_SOFTCAP
  float inside[kTall][2];
#pragma unroll
  for (int tall = 0; tall < kTall; ++tall)
    insideCap(inside[tall], unit[tall], a.softcap);
#endif

  // The positions that all queries of a tile see.
  Span common = work.common();
  auto isEdge = [&] { return at < common.begin || at + kKeys > common.end; };
  auto seenOf = [&](int tall, int half) {
    int thread = here(threadIdx.x), row = thread % 32 / 4 + 8 * half;
    return work.seenBy(work.first + (thread / 128 * kTall + tall) * kPiece +
                       thread % 128 / 32 * 16 + row);
  };
  // Warpgroups begin their products by turns, so that one makes weights while
  // the other one multiplies: at a barrier that the other one has come to after
  // it began its products. Before that it has waited for its copies of the next
  // tile, and for products with what copies overwrite after it.
  int group = warp / 4;
  auto passTurn = [&] { arriveAt(1 + (group ^ 1)); };
  auto waitForCopies = [&] {
    waitCopies<kTilesAhead - 1>();
    fenceShared();
  };
  auto hideEdge = [&] {
    if (!isEdge())
      return;
    __syncthreads();
    hideNonFinite(sums, ring + stage * kTileBytes,
                  [&](int key, int tall, int half) {
                    return seenOf(tall, half).has(at + key);
                  });
  };
  auto tileOf = [&](int stage) {
    return sharedAddress(ring) + stage * kTileBytes;
  };

  float scores[kKeys / 8][4];
  u32 weights[kGroups][4];
  auto before = [](int tall) { return (tall + kTall - 1) % kTall; };
  // All operands are final before a fence: between products, a compiler that
  // moved one would have them wait for each other.
  auto beginTurn = [&](int tall) {
    if constexpr (kHeld > 0)
      keepOperands(queries.held[tall]);
    clear(scores);
    keepSums(scores);
    if (tall == kTall - 1)
      waitForCopies();
    waitAt(1 + group);
    fenceProducts();
    queries.multiply(scores, tall, columnsOf<128>(tileOf(stage)));
    commitProducts();
  };
  auto endTurn = [&](int tall) {
    if (group == 0 || tall < kTall - 1 || at + kKeys < seen.end)
      passTurn();
    if (tall == 0) { // Copies overlap with the products.
      int free = stage + kTilesAhead;
      copy(at + kTilesAhead * kKeys, free < kStages ? free : free - kStages,
           nextRow);
      nextRow = rowOf(at + (kTilesAhead + 1) * kKeys);
    }
  };
  auto narrowScores = [&] {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      u32 parts[1][4];
      narrowWeights(parts, scores[2 * i], scores[2 * i + 1]);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        weights[i][k] = parts[0][k];
    }
  };
  // Makes weights of scores, while the sums that were begun behind these run.
  auto weighScores = [&](int tall) {
    float alpha[2];
    keepSums(scores);
#ifdef MOE_SOFTCAP
    capScores(scores, inside[tall], a.softcap * kLog2E);
#endif
    if (isEdge())
      hideUnseen(scores, at, c, {seenOf(tall, 0), seenOf(tall, 1)});
    bool isScaled = weigh(scores, alpha, most[tall], sum[tall], unit[tall]);
    waitProducts<0>();
    keepSums(sums[before(tall)]);
    narrowScores();
    if (__any_sync(kAllLanes, isScaled))
      rescale(sums[tall], alpha);
  };
  // Scores of one 64, and sums of the 64 before it, from the tile at `last`.
  auto multiply = [&](int tall, int last) {
    keepOperands(weights);
    keepSums(sums[before(tall)]);
    beginTurn(tall);
    beginSums(sums[before(tall)], weights, tileOf(last));
    endTurn(tall);
    waitProducts<1>();
    weighScores(tall);
  };

  waitForCopies();
  if (group == 1)
    passTurn();
  hideEdge();
  beginTurn(0);
  endTurn(0);
  waitProducts<0>();
  weighScores(0);
  for (;;) {
#pragma unroll
    for (int tall = 1; tall < kTall; ++tall)
      multiply(tall, stage);
    at += kKeys;
    if (at >= seen.end)
      break;
    int last = stage;
    stage = stage + 1 == kStages ? 0 : stage + 1;
    hideEdge();
    multiply(0, last);
  }
  keepOperands(weights);
  keepSums(sums[kTall - 1]);
  fenceProducts();
  beginSums(sums[kTall - 1], weights, tileOf(stage));
  waitProducts<0>();
  keepSums(sums[kTall - 1]);
  writeAll(work, queryAt, most, sum, sums);
}
