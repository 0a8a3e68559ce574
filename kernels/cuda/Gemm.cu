// Products of quantised weights with many rows: prefill.
//
// A block has MOE_WARP_ROWS x MOE_WARP_COLS warps, each with 32 MOE_PAIRS
// weight rows (with a gate, 32 of each matrix) by 8 kTiles rows of activations.
// Columns pass through shared memory in stages of two units (64 columns;
// GemmStage.cuh). While one stage is multiplied, codes and scales of the next
// are copied in the background (GemmCopies.cuh).
//
// Sums begin at kMagicBits, so that their bits are a float, kMagic + sum.
// Scaling takes two operations per sum:
//
//   t = fma(kMagic + sum, scale, -kMagic * scale) = sum * scale, rounded once
//   total = fma(t, activation's scale, total)
//
// -kMagic * scale is exact: a scale has at most 19 significant bits (11 of an
// F16 number, 8 of an integer that it is multiplied by), and kMagic has two. A
// minimum takes a third operation: minimum times the activations' sum. For
// formats in which columns 0 .. 15 and 16 .. 31 have separate scales,
// Products.cuh describes how operations are saved.
//
// An mma takes 16 cycles of a quarter of a multiprocessor on GeForce, of which
// Q4_K's scaling issues in 12: both fit if neither waits for the other. So a
// warp scales the sums of one mma while the next ones are under way (kAhead),
// and a lane has 128 sums and 255 registers: of 64 x 64 results, weights and
// activations are read half as often as of 32 x 64. There are two warps in a
// quarter. One decodes scales and begins copies for the next stage while the
// other multiplies.

#include "kernels/cuda/GemmCopies.cuh"

/// Whether most blocks have fewer rows than they could have.
constexpr bool kIsUneven = MOE_JOBS == MOE_EXPERTS;

/// The number of groups of 32 weight rows that a warp multiplies in one pass
/// over its tiles of activations. With two sums of a unit, the codes and
/// factors of two groups would need too many registers: a warp then takes one
/// pass for each group, and loads its activations twice.
constexpr int kPassPairs = kSums == 2 ? 1 : kPairs;
/// The result of one mma, or of two with kSums 2: sixteen weight rows by a tile
/// of eight rows of activations, in the order of mma. In a pass a warp has
/// kProducts of these for each tile.
using Products = int[kSums][4];
constexpr int kProducts = 2 * kPassPairs;

/// c = product number `k` of a tile whose operand B is b0 and b1. Its weight
/// rows are rows 2 (k % 2) and 2 (k % 2) + 1 of the four that each lane has of
/// group k / 2.
MOE_DEVICE void multiplyTile(Products &c, const Rows (&rows)[kPassPairs], int k,
                             u32 b0, u32 b1) {
  constexpr int start[2] = {kMagicBits, kMagicBits};
  const RowCodes *codes = rows[k / 2].codes + k % 2 * 2;
#if MOE_SUMS == 2
  mma16(c[0], codes[0].low, codes[1].low, b0, start);
  mma16(c[1], codes[0].high, codes[1].high, b1, start);
#else
  mma32(c[0], codes[0].low, codes[1].low, codes[0].high, codes[1].high, b0, b1,
        start);
#endif
}

/// Scales product number `k` and adds it to sums[row][t], for the lane's four
/// weight rows and its two rows of activations.
MOE_DEVICE void addScaled(float (&sums)[4][2], const Products &c,
                          const Rows (&rows)[kPassPairs], int k,
                          const ActScale (&x)[2]) {
  const Rows &w = rows[k / 2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int r = k % 2 * 2 + i / 2, t = i % 2;
    float &to = sums[r][t];
#if MOE_MINIMA
#pragma unroll
    for (int m = 0; m < MOE_MINIMA; ++m)
      to = fmaf(w.f[kSums + m][r], x[t].sum[m], to);
#endif
    float product = fmaf(__int_as_float(c[0][i]), w.f[0][r], w.offset[r]);
#if MOE_SUMS == 2
    product = fmaf(__int_as_float(c[1][i]) - kMagic, w.f[1][r], product);
#endif
    to = fmaf(product, x[t].scale, to);
  }
}

/// A lane's activations: operand B of two tiles, the even one in b[0] and b[1],
/// the odd one in b[2] and b[3]; and the factors of rows 2 c and 2 c + 1 of the
/// tile that is being multiplied.
struct Acts {
  u32 b[4];
  ActScale x[2];
};

/// The number of products that run while another one is scaled: as many as hide
/// their latency, in few registers.
constexpr int kAhead = kPassPairs == 1 ? 1 : 2;
static_assert(kAhead < kProducts);

/// Scales the products of tile `I` and adds them to `sums`, then does so for
/// all tiles after it, up to number `Tiles` - 1. The groups of weight rows are
/// kPassPairs, from number `First` on; `c` has the tile's first kAhead
/// products. While a product is scaled, the mma of the one kAhead later runs,
/// which at the end is one of the next tile.
///
/// Assemblers would begin with all loads and mma, and run out of registers. So
/// warp barriers keep the order, and `zero`, whose value is 0, makes the
/// addresses of later activations depend on a product of this tile.
template <int First, int Tiles, int I>
MOE_DEVICE void addTiles(float (&sums)[kPairs][kTiles][4][2],
                         Products (&c)[kProducts],
                         const Rows (&rows)[kPassPairs], const Acts &x,
                         u32 acts, u32 scales, u32 zero) {
  constexpr bool isLast = I + 1 == Tiles;
  [[maybe_unused]] Products next[kProducts];
  [[maybe_unused]] Acts nextX = x;
  if constexpr (!isLast) {
    loadScales<(I + 1) * 8 * int(sizeof(ActScale))>(nextX.x, scales);
    if constexpr (I % 2 == 1)
      loadTiles<(I + 1) * 8 * 32 * kStageUnits>(
          nextX.b, maskedOr(u32(c[0][0][0]), zero, acts));
  }
#pragma unroll
  for (int k = 0; k < kProducts; ++k) {
    int ahead = k + kAhead;
    if (ahead < kProducts)
      multiplyTile(c[ahead], rows, ahead, x.b[I % 2 * 2], x.b[I % 2 * 2 + 1]);
    else if constexpr (!isLast)
      multiplyTile(next[ahead - kProducts], rows, ahead - kProducts,
                   nextX.b[(I + 1) % 2 * 2], nextX.b[(I + 1) % 2 * 2 + 1]);
    addScaled(sums[First + k / 2][I], c[k], rows, k, x.x);
    if (!isLast || ahead < kProducts)
      __syncwarp();
  }
  if constexpr (!isLast)
    addTiles<First, Tiles, I + 1>(sums, next, rows, nextX, acts, scales, zero);
}

/// Multiplies `Tiles` tiles of unit `u` of a stage with all groups of weight
/// rows from number `First` on, kPassPairs at a time.
template <int First, int Tiles>
MOE_DEVICE void multiplyGroups(float (&sums)[kPairs][kTiles][4][2],
                               const Reads &reads, int u, u32 zero,
                               const Lane &lane) {
  u32 acts = reads.acts ^ 32 * u,
      scales = reads.scales + u * MOE_ROWS * u32(sizeof(ActScale));
  Rows rows[kPassPairs];
  loadRows<First>(rows[0], reads, u, lane);
  if constexpr (kPassPairs == 2)
    loadRows<First + 1>(rows[1], reads, u, lane);
  Acts x;
  loadTiles<0>(x.b, acts);
  loadScales<0>(x.x, scales);
  Products c[kProducts];
#pragma unroll
  for (int k = 0; k < kAhead; ++k)
    multiplyTile(c[k], rows, k, x.b[0], x.b[1]);
  addTiles<First, Tiles, 0>(sums, c, rows, x, acts, scales, zero);
  if constexpr (First + kPassPairs < kPairs) {
    __syncwarp();
    multiplyGroups<First + kPassPairs, Tiles>(sums, reads, u, zero, lane);
  }
}

/// Multiplies unit `u` of a stage. Where an expert's last rows are fewer than a
/// block could have, the warp multiplies `tiles` tiles of eight rows only: the
/// recursion finds the code for that number.
template <int Tiles = 1>
MOE_DEVICE void multiplyUnit(float (&sums)[kPairs][kTiles][4][2],
                             const Reads &reads, int u, int tiles, u32 zero,
                             const Lane &lane) {
  if constexpr (kIsUneven && Tiles < kTiles)
    if (tiles > Tiles)
      return multiplyUnit<Tiles + 1>(sums, reads, u, tiles, zero, lane);
  constexpr int kCount = kIsUneven ? Tiles : kTiles;
  multiplyGroups<0, kCount>(sums, reads, u, zero, lane);
}

/// Blocks per multiprocessor. Lanes with more than 32 sums need up to 255
/// registers: 256 threads, in one block or two.
constexpr int kBlocks = kThreads == 256 ? 1 : kPairs * kTiles > 4 ? 2 : 4;

/// Stores the results of a tile of eight rows of activations, from row `act` of
/// the job on. `row` is the first weight row of the lane, which has rows row +
/// 32 pair .. + 3.
MOE_DEVICE void finishTile(const GemmArgs &a, const Job &job, i64 row, int act,
                           const float (&sums)[kPairs][4][2]) {
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    int i = act + 2 * (threadIdx.x % 4) + t;
    if (i >= job.count)
      continue;
    float *out = outRow(a, job, i);
#pragma unroll
    for (int pair = 0; pair < kMatrixPairs; ++pair) {
#ifdef MOE_GATE
      const float(&sum)[4][2] = sums[0], (&up)[4][2] = sums[1];
#else
      const float(&sum)[4][2] = sums[pair], (&up)[4][2] = sums[pair];
#endif
      const i64 at = row + 32 * pair;
      // Stores of single floats would be parts of four times as many sectors.
      if (at + 3 < a.w.rows && u64(out) % 16 == 0) {
        auto *to = (float4 *)(out + at);
        float4 x = a.accumulate ? *to : float4{};
        float results[] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int r = 0; r < 4; ++r)
          finish(a, job.matrix, results - at, at + r, sum[r][t], up[r][t]);
        *to = make_float4(results[0], results[1], results[2], results[3]);
        continue;
      }
#pragma unroll
      for (int r = 0; r < 4; ++r)
        if (at + r < a.w.rows)
          finish(a, job.matrix, out, at + r, sum[r][t], up[r][t]);
    }
  }
}

#ifdef MOE_TAIL
/// Reads the block's number again, as threadAgain() does.
MOE_DEVICE int blockAgain() {
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}
#endif

/// A lane's sums of a tile of eight rows of activations.
using TileSums = float[kPairs][4][2];
MOE_DEVICE void takeSums(TileSums &own,
                         const float (&sums)[kPairs][kTiles][4][2], int tile) {
#pragma unroll
  for (int k = 0; k < kPairs * 8; ++k)
    own[k / 8][k / 2 % 4][k % 2] = sums[k / 8][tile][k / 2 % 4][k % 2];
}

#if MOE_TAIL == 2
MOE_KERNEL(kThreads, 2, GemmTailArgs) {
  Tile tile = findTile(a, blockIdx.x);
  WarpPlace place = placeOf(threadIdx.x);
  i64 row = i64(tile.column) * kBlockRows + place.row;
  int act = place.act + 8 * int(blockIdx.y);
  if (act >= tile.job.count || row >= a.w.rows)
    return;
  TileSums sums = {};
  const PartSums parts = partsOf(a.tail, blockIdx.x);
#pragma unroll 8
  for (int part = 0; part < a.tail.parts; ++part)
    addSums<kThreads>(
        sums, sumsOf<TileSums, kTiles, kThreads>(
                  a.tail, parts, part, int(blockIdx.y), int(threadIdx.x)));
  finishTile(a, tile.job, row + 4 * place.lane.g, act, sums);
}
#else
#ifdef MOE_TAIL
MOE_KERNEL(kThreads, kBlocks, GemmTailArgs) {
#else
MOE_KERNEL(kThreads, kBlocks, MOE_GEMM_ARGS) {
#endif
  MOE_BRING_NEXT(a)
  extern __shared__ uint4 memory[];
  u32 stage = sharedAddress(memory);
  const u32 sources = stage + 2 * u32(sizeof(Stage));
  Tile tile = findTile(a, blockIdx.x);
  if (tile.job.count <= 0)
    return;
  float sums[kPairs][kTiles][4][2] = {};
  const int units = int(a.w.cols / 32);
  WarpPlace place = placeOf(threadIdx.x);
  i64 blockRow = i64(tile.column) * kBlockRows;
  // Warps past the last row multiply nothing, but they copy.
  const int tiles = blockRow + place.row < a.w.rows
                        ? min((tile.job.count - place.act + 7) / 8, kTiles)
                        : 0;
  // Parts begin at multiples of two stages, so that the first stage of each
  // part is in the first buffer.
  const Range range = rangeOf(a, blockIdx.x, units, 2 * kStageUnits);
  Sources &s = *(Sources *)((Stage *)memory + 2);
  findSources(s, a, tile.job, blockRow);
  if (threadIdx.x == 0) {
    s.tileOfBlock = tile;
    s.end = range.end;
  }
#ifdef MOE_TAIL
  auto end = [&] { return int(loadShared4(sources + MOE_AT(Sources, end))); };
#else
  auto end = [&] { return units; };
#endif
  Reads reads = readsOf(stage, place);
  copyCodes(stage, sources, range.begin, units);
  copyScales(sources, range.begin, units);
  commitCopies();
  waitCopies<0>();
  decodeScales(stage, sources, range.begin, units);
  copyScales(sources, range.begin + kStageUnits, units);
  commitCopies();
  __syncthreads();
  // A quarter of a multiprocessor has two warps of a block of eight. One of
  // them prepares its share of the next stage while the other one multiplies:
  // it decodes the scales of that stage, and begins the copies of its codes and
  // of the scales of the stage after it.
  for (int first = range.begin; first < end(); first += kStageUnits) {
    int next = first + kStageUnits;
    // Bytes from this stage to the other one.
    const u32 step =
        next / kStageUnits % 2 ? u32(sizeof(Stage)) : 0 - u32(sizeof(Stage));
#pragma unroll 1
    for (int u = 0; u < kStageUnits; ++u) {
      if (u == threadAgain() / 128 && next < end()) {
        waitCopies<0>();
        decodeScales(stage + step, sources, next, units);
        copyCodes(stage + step, sources, next, units);
        copyScales(sources, next + kStageUnits, units);
        commitCopies();
      }
      if (tiles > 0) // The number of columns is a multiple of 32.
        multiplyUnit(sums, reads, u, tiles, u32(a.w.cols) & 31, place.lane);
    }
    __syncwarp(); // Otherwise registers are spilled for some formats.
    waitCopies<0>();
    stage += step;
    reads = reads + step;
    __syncthreads(); // The other stage is complete, and this one is free.
  }
  // Computed again, so that it takes no register in the loop.
  int tid = threadAgain();
#ifdef MOE_TAIL
#if MOE_TAIL == 3
  using Others = OtherParts<TileSums, kTiles, kThreads, int(2 * sizeof(Stage))>;
#endif
  const int block = blockAgain();
  PartSums parts = {0, 0, 1, 0};
  if (isPart(a.tail, block)) {
    parts = partsOf(a.tail, block);
    auto store = [&] {
      if (tiles <= 0)
        return;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        TileSums own;
        takeSums(own, sums, i);
        storeSums<kThreads>(sumsOf<TileSums, kTiles, kThreads>(
                                a.tail, parts, parts.own, i, tid),
                            own);
      }
    };
#if MOE_TAIL == 3
    if (!takesTile(a.tail, block, parts, Others::wordOf(memory), store))
      return;
#else
    store();
    return;
#endif
  }
#endif
  if (tiles <= 0)
    return;
#if MOE_TAIL == 3
  Others others(a.tail, parts, memory, tid);
#endif
  tile = s.tileOfBlock;
  place = placeOf(tid);
  // The loop is not unrolled: a block executes this code once, and fetching
  // eight copies of the instructions takes longer than the moves between
  // registers that the loop needs.
#pragma unroll 1
  for (int i = 0; i < kTiles; ++i) {
    TileSums own;
    takeSums(own, sums, 0);
#pragma unroll
    for (int k = 0; k < kPairs * 8 * (kTiles - 1); ++k) {
      float(&to)[kTiles][4][2] = sums[k / 8 / (kTiles - 1)];
      int tile = k / 8 % (kTiles - 1);
      to[tile][k / 2 % 4][k % 2] = to[tile + 1][k / 2 % 4][k % 2];
    }
#if MOE_TAIL == 3
    if (parts.count > 1)
      others.addTo(own);
#endif
    finishTile(a, tile.job,
               i64(tile.column) * kBlockRows + place.row + 4 * place.lane.g,
               place.act + 8 * i, own);
  }
}
#endif
