//===- FlashWarpgroup.cuh - FlashAttention of warpgroups --------*- C++ -*-===//
//
// Included by FlashAttention.cu: prefill on an H100. A block has two warpgroups
// of 64 queries, which share tiles of keys and values. While a tile's keys are
// multiplied with queries, and the values of the one before it with weights,
// the next two tiles' keys and values are copied. Both products run in the
// background, scores first; while the values' run, a warpgroup makes weights of
// the scores. With 128 columns and 128 keys, the products of both warpgroups
// take 2048 cycles, their weights 1600 of them, and L2 sends the tile in 3400.
//
// Registers of a thread: scores 64, sums 64, weights and queries 32 each.
//
//===----------------------------------------------------------------------===//

static_assert(kWarps == 8 && kStages == 3 && kTall == 1 && kParts == 1 &&
                  !kHasCodes && MOE_VALUE % 64 == 0,
              "what launches choose");

/// Scores of a tile's keys.
MOE_DEVICE void beginScores(float (&scores)[kKeys / 8][4],
                            const u32 (&queries)[kSteps][4], u32 tile) {
  Tile64 keys = columnsOf<128>(tile);
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    multiplyGroup(scores, queries[step],
                  laterTile(keys, step / 4 * kNextColumns + step % 4 * 32));
  commitProducts();
}

MOE_KERNEL(kWarps * 32, 1, AttentionOf) {
  extern __shared__ __align__(1024) uint4 memory[];
  Work work{a};
  if (!work.find(blockIdx, gridDim))
    return;
  const Span seen = work.seen;

  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int g = lane / 4, c = lane % 4;
  int ownQuery = work.first + 16 * warp;
  int copyGroup = warp / kCopyWarps;
  int copyThread = warp % kCopyWarps * 32 + lane;
  u8 *ring = (u8 *)memory;
  auto rowOf = [&](int at) { return work.rowOf(at + 16 * copyGroup); };
  auto keysTo = [&](int at, int stage, i64 row) {
    if (at < seen.end)
      copyKeys(ring + stage * kTileBytes, copyGroup, copyThread, a, work.kvHead,
               {row, at + 16 * copyGroup}, seen);
  };
  auto valuesTo = [&](int at, int stage, i64 row) {
    if (at < seen.end)
      copyValues(ring + stage * kTileBytes, copyGroup, copyThread, a,
                 work.kvHead, {row, at + 16 * copyGroup}, seen);
  };
  // Queries are loaded before the first keys.
  PromptQueries loaded(work, ownQuery);
  // What is copied together: the keys of a tile, and the values before it.
  int at = seen.begin / kKeys * kKeys, stage = 0;
  i64 firstRow = rowOf(at), valueRow = rowOf(at + kKeys);
  keysTo(at, 0, firstRow);
  commitCopies();
  keysTo(at + kKeys, 1, valueRow);
  valuesTo(at, 0, firstRow);
  commitCopies();
  i64 keyRow = rowOf(at + 2 * kKeys);

  u32 queries[kSteps][4];
  float unit[1][2];
  loaded.narrow(unit[0], [&](int step, const u32(&parts)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      queries[step][i] = parts[i];
  });
#ifdef MOE_SOFTCAP
  float inside[2];
  insideCap(inside, unit[0], a.softcap);
#endif
  float most[1][2], sum[1][2], sums[1][kColumnTiles][4] = {};
  startSums(most[0], sum[0], work, ownQuery, true);

  // The positions that all queries of a tile see.
  Span common = work.common();
  auto isEdge = [&](int at) {
    return at < common.begin || at + kKeys > common.end;
  };
  auto seenOf = [&](int half) { return work.seenBy(ownQuery + g + 8 * half); };
  // Waits for the next keys and the values before them. No product runs
  // meanwhile: what the copies after this overwrite is not read any more.
  auto receive = [&] {
    waitCopies<1>();
    fenceShared();
    __syncthreads();
  };
  auto hide = [&](int at, int stage) {
    if (isEdge(at))
      hideNonFinite(
          sums, ring + stage * kTileBytes,
          [&](int key, int, int half) { return seenOf(half).has(at + key); });
  };
  auto after = [](int stage) { return stage + 1 == kStages ? 0 : stage + 1; };
  auto copyNext = [&](int at, int stage) {
    keysTo(at + 2 * kKeys, after(after(stage)), keyRow);
    valuesTo(at + kKeys, after(stage), valueRow);
    commitCopies();
    valueRow = keyRow;
    keyRow = rowOf(at + 3 * kKeys);
  };
  auto tileOf = [&](int stage) {
    return sharedAddress(ring) + stage * kTileBytes;
  };

  float scores[kKeys / 8][4], alpha[2];
  bool isScaled;
  u32 weights[kGroups][4];
  auto weighScores = [&] {
    keepSums(scores);
#ifdef MOE_SOFTCAP
    capScores(scores, inside, a.softcap * kLog2E);
#endif
    if (isEdge(at))
      hideUnseen(scores, at, c, {seenOf(0), seenOf(1)});
    isScaled = weigh(scores, alpha, most[0], sum[0], unit[0]);
  };
  auto keepWeights = [&] {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      u32 parts[1][4];
      narrowWeights(parts, scores[2 * i], scores[2 * i + 1]);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        weights[i][k] = parts[0][k];
    }
  };

  // All operands are final before a fence: between products, a compiler that
  // moved one would have them wait for each other.
  auto beginProducts = [&] {
    keepOperands(queries);
    keepOperands(weights);
    keepSums(sums[0]);
    clear(scores);
    keepSums(scores);
    fenceProducts();
  };

  receive();
  clear(scores);
  keepSums(scores);
  keepOperands(queries);
  fenceProducts();
  beginScores(scores, queries, tileOf(0));
  copyNext(at, 0);
  waitProducts<0>();
  weighScores();
  keepWeights();
  for (at += kKeys; at < seen.end; at += kKeys) {
    receive();
    hide(at - kKeys, stage);
    beginProducts();
    beginScores(scores, queries, tileOf(after(stage)));
    beginSums(sums[0], weights, tileOf(stage));
    stage = after(stage);
    copyNext(at, stage);
    waitProducts<1>();
    weighScores();
    waitProducts<0>();
    keepSums(sums[0]);
    if (__any_sync(kAllLanes, isScaled))
      rescale(sums[0], alpha);
    keepWeights();
  }
  receive();
  hide(at - kKeys, stage);
  keepOperands(weights);
  keepSums(sums[0]);
  fenceProducts();
  beginSums(sums[0], weights, tileOf(stage));
  waitProducts<0>();
  keepSums(sums[0]);
  writeAll(
      work, [&](int) { return ownQuery; }, most, sum, sums);
}
