// Products of quantised weights with many rows: prefill.
//
// A block has MOE_WARP_ROWS x MOE_WARP_COLS warps, each with 32 weight rows by
// 8 kTiles rows of activations. Columns pass through shared memory in stages of
// four units (128 columns). While one stage is multiplied, codes of weights and
// activations of the next are copied in the background, and each thread loads
// some of its scales into registers, which it then decodes once for the block.
// For 128 x 128 rows of Q4_K a stage is 32 KB; two stages are 64 of GeForce's
// 99 KB.
//
// Sums begin at kMagicBits, so that their bits are a float, kMagic + sum.
// Scaling is the bottleneck of this kernel, so it takes two operations per sum:
//
//   t = fma(kMagic + sum, scale, -kMagic * scale) = sum * scale, rounded once
//   total = fma(t, activation's scale, total)
//
// -kMagic * scale is exact: a scale has at most 19 bits (F16 times eight), and
// kMagic two. A minimum takes a third operation: minimum times the activations'
// sum. For formats in which columns 0 .. 15 and 16 .. 31 have separate scales,
// Products.cuh describes how operations are saved.
//
// Per unit and warp there are 2 kTiles mma, each with 8 of those operations (12
// with a minimum), and some 70 instructions to load and unpack. For Q4_K with
// 128 x 128 rows that is 16.4 instructions per mma, 19.7 including the work per
// stage, while an mma takes 16 cycles of a quarter of a multiprocessor on
// GeForce, 8 on an A100, 4 on an H100 (test/bench/README.md, "Bounds").

#define MOE_A_SIGNED // Codes minus their zero point.
#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/AsyncCopy.cuh"
#include "kernels/cuda/Groups.cuh"
#include "kernels/cuda/PanelStage.cuh"
#include "kernels/cuda/Products.cuh"

constexpr int kTiles = MOE_ROWS / MOE_WARP_COLS / 8;
constexpr int kStageUnits = 4; // 128 columns: a swizzled row of 128 bytes.
constexpr int kThreads = 32 * MOE_WARP_ROWS * MOE_WARP_COLS;
constexpr int kBlockRows = 32 * MOE_WARP_ROWS, kPanels = kBlockRows / 16;
static_assert(kTiles % 2 == 0, "ldmatrix takes two tiles at a time");
#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
/// Whether most blocks have fewer rows than they could have.
constexpr bool kIsUneven = MOE_JOBS == MOE_EXPERTS;
/// The factors of a sum of activations: the scale and, with minima, the scale
/// times the sum of the unit or of each half.
#if MOE_MINIMA
struct alignas(8 * MOE_MINIMA) ActScale {
  float scale, sum[2 * MOE_MINIMA - 1];
};
#else
struct ActScale {
  float scale;
};
#endif

struct Stage {
  /// Codes of activations. Sixteen bytes with number i are at place i ^ t % 8
  /// of row t, so that those of eight rows are in different banks.
  u8 acts[MOE_ROWS][128];
  /// Codes of weights, at the places that wordPlace() returns.
  uint4 weights[kMatrices][kPanels][kStageUnits][kUnitWords];
  float4 factors[kMatrices][kStageUnits][kFactors][kBlockRows / 4];
#ifdef MOE_FOLDED
  Fold folds[kMatrices][kStageUnits][kBlockRows / 4];
#endif
  ActScale scales[kStageUnits][MOE_ROWS];
#ifdef MOE_SHIFTS
  u32 shifts[kMatrices][kStageUnits][kBlockRows / 4];
#endif
};

/// Loads the 32 bytes of unit `u` for two mma columns, 16 rows. ldmatrix gives
/// lane 4 g + c the bytes 4 c .. 4 c + 3 of row g of each of four matrices,
/// which have eight rows of 16 bytes.
MOE_DEVICE void loadTiles(u32 (&b)[4], const Stage &stage, int row, int u) {
  int lane = threadIdx.x % 32;
  int t = row + lane / 16 * 8 + lane % 8, i = 2 * u + lane / 8 % 2;
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
      : "r"(sharedAddress(stage.acts[t] + 16 * (i ^ t % 8)))
      : "memory");
}

struct Lane {
  int g, c, quad;
};

MOE_DEVICE void unpack(float (&four)[4], const float4 &v) {
  four[0] = v.x;
  four[1] = v.y;
  four[2] = v.z;
  four[3] = v.w;
}

/// sums[tile][row][t] += unit `u` of the stage: weights of the warp's panels
/// times activations from `act` on, of which there are 8 `Tiles`, or with
/// `lacksTile` eight fewer.
template <int Tiles>
MOE_DEVICE void multiply(float (&sums)[kTiles][4][2], const Stage &stage,
                         int matrix, int u, int warpRow, int act,
                         bool lacksTile, const Lane &lane) {
  constexpr int start[2] = {kMagicBits, kMagicBits};
  Codes codes;
  const uint4 *unit = stage.weights[matrix][2 * warpRow + lane.g / 4][u];
  loadUnit(codes, lane.quad, lane.c, [&](int i) { return unit[i]; });
#ifdef MOE_SHIFTS
  codes.shifts = stage.shifts[matrix][u][8 * warpRow + lane.g];
#endif
  RowCodes rows[4];
#ifdef MOE_FOLDED
  Fold fold = stage.folds[matrix][u][8 * warpRow + lane.g];
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows[r] = foldedCodes(codes, fold, r, lane.c);
#else
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows[r] = signedCodes(codes, r, lane.c);
#endif
  float f[kFactors][4], offset[4];
#pragma unroll
  for (int i = 0; i < kFactors; ++i)
    unpack(f[i], stage.factors[matrix][u][i][8 * warpRow + lane.g]);
#pragma unroll
  for (int r = 0; r < 4; ++r)
    offset[r] = -kMagic * f[0][r];
#pragma unroll
  for (int two = 0; two < Tiles; two += 2) {
    u32 b[4];
    loadTiles(b, stage, act + 8 * two, u);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (kIsUneven && two + k + 1 == Tiles && lacksTile)
        break;
      const ActScale *acts = stage.scales[u] + act + 8 * (two + k) + 2 * lane.c;
      ActScale x[2] = {acts[0], acts[1]};
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        int c[kSums][4];
        const RowCodes &p = rows[2 * pair], &q = rows[2 * pair + 1];
#if MOE_SUMS == 2
        mma16(c[1], p.high, q.high, b[2 * k + 1], start);
        mma16(c[0], p.low, q.low, b[2 * k], start);
#else
        mma32(c[0], p.low, q.low, p.high, q.high, b[2 * k], b[2 * k + 1],
              start);
#endif
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          int r = 2 * pair + i / 2, t = i % 2;
          float &to = sums[two + k][r][t];
          float product = fmaf(__int_as_float(c[0][i]), f[0][r], offset[r]);
#if MOE_SUMS == 2
          product = fmaf(__int_as_float(c[1][i]) - kMagic, f[1][r], product);
#endif
          to = fmaf(product, x[t].scale, to);
#if MOE_MINIMA
#pragma unroll
          for (int m = 0; m < MOE_MINIMA; ++m)
            to = fmaf(f[kSums + m][r], x[t].sum[m], to);
#endif
        }
      }
    }
  }
}

/// The same for all units and matrices of a stage. An expert's last rows are
/// fewer than a block has: the warp multiplies `tiles` times eight of them.
template <int Tiles = 2>
MOE_DEVICE void multiplyStage(float (&sums)[kMatrices][kTiles][4][2],
                              const Stage &stage, int units, int warpRow,
                              int act, int tiles, const Lane &lane) {
  if constexpr (kIsUneven && Tiles < kTiles)
    if (tiles > Tiles)
      return multiplyStage<Tiles + 2>(sums, stage, units, warpRow, act, tiles,
                                      lane);
  constexpr int kCount = kIsUneven ? Tiles : kTiles;
#pragma unroll 1
  for (int u = 0; u < units; ++u)
#pragma unroll
    for (int m = 0; m < kMatrices; ++m)
      multiply<kCount>(sums[m], stage, m, u, warpRow, act, tiles < kCount,
                       lane);
}

//===----------------------------------------------------------------------===//
// The next stage
//===----------------------------------------------------------------------===//

/// Whether a stage may have fewer units; otherwise it is always half of a
/// block's tile.
constexpr bool kIsRagged = kTileUnits == 1;
/// Offset from unit 0 of a stage to unit `u`.
MOE_DEVICE int unitOffset(int u) {
  return kTileUnits == 1 ? u * kTileBytes : u * kUnitBytes;
}

// Activations: a thread copies sixteen bytes each of rows that are kThreads / 8
// apart.
constexpr int kActCopies = MOE_ROWS * 8 / kThreads;
static_assert(kActCopies > 0 && kThreads % 64 == 0);
// Weights: kCopyLanes threads divide a panel's words of a unit.
constexpr int kCopyLanes = kThreads / (kPanels * kStageUnits);
constexpr int kWordCopies = (kUnitWords + kCopyLanes - 1) / kCopyLanes;
static_assert(kCopyLanes % 4 == 0 && 16 % kCopyLanes == 0);
// Scales: a thread has those of one row of activations, and those of some units
// of four weight rows.
constexpr int kScales = (MOE_ROWS * kStageUnits + kThreads - 1) / kThreads;
static_assert(kThreads % MOE_ROWS == 0);
constexpr int kQuads = kMatrices * kStageUnits * kBlockRows / 4;
constexpr int kOwnQuads = (kQuads + kThreads - 1) / kThreads;

/// The addresses that this thread copies from in the first stage.
struct Sources {
  const u8 *weight[kMatrices], *scaleRow, *tile[kOwnQuads];
  u32 act[kActCopies]; ///< From the first row, in units of 16 bytes.
};
struct Quad {
  bool isUp;
  int unit, rows; ///< rows: 4 rows .. 4 rows + 3 of the block's.
};
MOE_DEVICE Quad quadOf(int i) {
  int at = threadIdx.x + i * kThreads;
  return {kMatrices > 1 && at >= kStageUnits * kBlockRows / 4,
          at / (kBlockRows / 4) % kStageUnits, at % (kBlockRows / 4)};
}
MOE_DEVICE bool isQuad(int i) {
  return kQuads % kThreads == 0 || int(threadIdx.x) + i * kThreads < kQuads;
}

/// Panels past a matrix's last read the last one, rows past a job's last read
/// the first one; their results are not stored.
MOE_DEVICE Sources sourcesOf(const GemmArgs &a, const Job &job, i64 blockRow) {
  Sources s;
  int tid = threadIdx.x;
#pragma unroll
  for (int i = 0; i < kActCopies; ++i) {
    int t = tid / 8 + i * (kThreads / 8);
    const u8 *row = actRow(a, job, t < job.count ? t : 0);
    s.act[i] = u32((row - a.act) / 16) + tid % 8;
  }
  int t = tid % MOE_ROWS;
  s.scaleRow = actRow(a, job, t < job.count ? t : 0) + a.w.cols;
  i64 last = (a.w.rows + 15) / 16 - 1, first = blockRow / 16;
  auto panelOf = [&](bool isUp, i64 panel) {
    const Matrix &m = isUp ? a.up : a.w;
    return m.data + job.matrix * m.outerStride +
           min(first + panel, last) * 16 * m.rowStride;
  };
  int group = tid / kCopyLanes;
#pragma unroll
  for (int matrix = 0; matrix < kMatrices; ++matrix)
    s.weight[matrix] = panelOf(matrix == 1, group / kStageUnits) +
                       unitOffset(group % kStageUnits) +
                       16 * (tid % kCopyLanes);
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i) {
    Quad quad = quadOf(i);
    s.tile[i] = panelOf(quad.isUp, quad.rows / 4);
  }
  return s;
}

/// Begins the copies of columns from 32 `first` on.
MOE_DEVICE void fillStage(Stage &stage, const Sources &s, const u8 *acts,
                          int first, int units) {
  int tid = threadIdx.x;
  if (!kIsRagged || first + tid % 8 / 2 < units) {
    u8 *to = stage.acts[tid / 8] + 16 * (tid % 8 ^ tid / 8 % 8);
#pragma unroll
    for (int i = 0; i < kActCopies; ++i)
      copyAsync(to + i * (kThreads / 8) * 128,
                acts + 16 * i64(s.act[i] + 2 * first));
  }
  int group = tid / kCopyLanes, lane = tid % kCopyLanes;
  // If four lanes copy a panel, their neighbours copy another line at the same
  // time.
  int other = kMatrices == 1 && kCopyLanes == 4 ? group % 2 : 0;
  if (!kIsRagged || first + group % kStageUnits < units)
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
      uint4 *to =
          stage.weights[matrix][group / kStageUnits][group % kStageUnits];
#pragma unroll
      for (int i = 0; i < kWordCopies; ++i) {
        int turn = (i ^ 1) < kWordCopies ? i ^ other : i;
        int word = lane + turn * kCopyLanes;
        if (kUnitWords % kCopyLanes == 0 || word < kUnitWords)
          copyAsync(to + wordPlace(word), s.weight[matrix] + codeOffset(first) +
                                              16 * turn * kCopyLanes);
      }
    }
  commitCopies();
}

/// Scales that a thread has loaded and will write to shared memory.
struct Own {
  float scale[kScales];
  u32 sums[kScales];
  UnitScales unit[kOwnQuads];
  BlockScales block[kOwnQuads];
};
MOE_DEVICE void loadOwn(Own &own, const Sources &s, i64 cols, int first,
                        int units) {
  int tid = threadIdx.x;
#pragma unroll
  for (int i = 0; i < kScales; ++i) {
    int u = tid / MOE_ROWS + i * (kThreads / MOE_ROWS);
    // With few rows there are more threads than scales.
    if (kScales * kThreads > MOE_ROWS * kStageUnits)
      u = min(u, kStageUnits - 1);
    int unit = first + u;
    unit = kIsRagged ? min(unit, units - 1) : unit;
    own.scale[i] = __ldg((const float *)s.scaleRow + unit);
#if MOE_MINIMA
    own.sums[i] = __ldg((const u32 *)(s.scaleRow + cols / 8) + unit);
#endif
  }
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i) {
    if (!isQuad(i))
      break;
    Quad quad = quadOf(i);
    int unit = first + quad.unit;
    unit = kIsRagged ? min(unit, units - 1) : unit;
    const u8 *tile = s.tile[i] + tileOffset(unit);
    loadScales(own.unit[i], tile, unit % kTileUnits, quad.rows % 4);
    loadScales(own.block[i], tile, quad.rows % 4);
  }
}
MOE_DEVICE void storeOwn(Stage &stage, const Own &own, int first) {
  int tid = threadIdx.x;
#pragma unroll
  for (int i = 0; i < kScales; ++i) {
    ActScale act;
    act.scale = own.scale[i];
#if MOE_MINIMA
    int low = firstSum(own.sums[i]), high = secondSum(own.sums[i]);
#if MOE_MINIMA == 1
    act.sum[0] = act.scale * float(low + high);
#else
    act.sum[0] = act.scale * float(low);
    act.sum[1] = act.scale * float(high);
    act.sum[2] = 0;
#endif
#endif
    int u = tid / MOE_ROWS + i * (kThreads / MOE_ROWS);
    if (u < kStageUnits)
      stage.scales[u][tid % MOE_ROWS] = act;
  }
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i) {
    if (!isQuad(i))
      break;
    Quad quad = quadOf(i);
    int u = (first + quad.unit) % kTileUnits;
    float f[kFactors][4];
    decode(f, own.block[i], own.unit[i], u);
#pragma unroll
    for (int k = 0; k < kFactors; ++k)
      stage.factors[quad.isUp][quad.unit][k][quad.rows] =
          make_float4(f[k][0], f[k][1], f[k][2], f[k][3]);
#ifdef MOE_FOLDED
    stage.folds[quad.isUp][quad.unit][quad.rows] = foldOf(own.unit[i], u);
#endif
#ifdef MOE_SHIFTS
    stage.shifts[quad.isUp][quad.unit][quad.rows] = own.unit[i].shifts;
#endif
  }
}

// A lane may use up to 255 registers, of which 64 are sums: then each quarter
// of a multiprocessor runs two warps, whose 16 mma per unit are independent.
MOE_KERNEL(kThreads, 256 / kThreads, MOE_GEMM_ARGS) {
  MOE_BRING_NEXT(a)
  extern __shared__ uint4 memory[];
  Stage *stages = (Stage *)memory;
  Job job = findGroup(a);
  if (job.count <= 0)
    return;
  int warp = threadIdx.x / 32, lane32 = threadIdx.x % 32;
  int warpRow = warp % MOE_WARP_ROWS;
  Lane lane = {lane32 / 4, lane32 % 4, lane32 / 4 % 4};
  i64 blockRow = i64(blockIdx.x) * kBlockRows;
  i64 firstRow = blockRow + 32 * warpRow;
  int firstAct = warp / MOE_WARP_ROWS * 8 * kTiles;
  float sums[kMatrices][kTiles][4][2] = {};
  int units = int(a.w.cols / 32);
  // Warps past the last row multiply nothing, but they copy.
  bool isInside = firstRow < a.w.rows && firstAct < job.count;
  int tiles = min((job.count - firstAct + 7) / 8, kTiles);
  Sources sources = sourcesOf(a, job, blockRow);
  Own own;
  fillStage(stages[0], sources, a.act, 0, units);
  loadOwn(own, sources, a.w.cols, 0, units);
  storeOwn(stages[0], own, 0);
  for (int first = 0; first < units; first += kStageUnits) {
    int which = first / kStageUnits % 2, next = first + kStageUnits;
    waitCopies<0>();
    __syncthreads(); // This stage is complete, the other one free.
    if (next < units) {
      fillStage(stages[which ^ 1], sources, a.act, next, units);
      loadOwn(own, sources, a.w.cols, next, units);
    }
    const Stage &stage = stages[which];
    if (isInside)
      multiplyStage(sums, stage, min(kStageUnits, units - first), warpRow,
                    firstAct, tiles, lane);
    if (next < units)
      storeOwn(stages[which ^ 1], own, next);
  }
  if (!isInside)
    return;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      int act = firstAct + 8 * tile + 2 * lane.c + t;
      if (act >= job.count)
        continue;
      float *out = outRow(a, job, act);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        i64 row = firstRow + 4 * lane.g + r;
        if (row < a.w.rows)
#ifdef MOE_GATE
          finish(a, job.matrix, out, row, sums[0][tile][r][t],
                 sums[1][tile][r][t]);
#else
          finish(a, job.matrix, out, row, sums[0][tile][r][t], 0);
#endif
      }
    }
}
