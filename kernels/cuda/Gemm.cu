// Products of quantised weights with many rows: prefill.
//
// A block has MOE_WARP_ROWS x MOE_WARP_COLS warps, each with 32 MOE_PAIRS
// weight rows (with a gate, 32 of each matrix) by 8 kTiles rows of activations.
// Columns pass through shared memory in stages of two units (64 columns). While
// one stage is multiplied, codes and scales of the next are copied in the
// background; then each thread decodes, once for the block, the scales that it
// has copied. For 128 x 128 rows of Q4_K a stage is 16 KB: two blocks of eight
// warps are on a multiprocessor of a GeForce GPU.
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
// Per unit, a warp of 32 x 64 has 16 mma, each with 8 of those operations (12
// with a minimum), and some 50 instructions to load and unpack. An mma takes 16
// cycles of a quarter of a multiprocessor on GeForce, 8 on an A100, 4 on an
// H100 (test/bench/README.md, "Bounds"). Four warps in each quarter have 128
// registers a lane, of which 64 are sums. So what is needed once a stage does
// not stay in registers: addresses in shared memory are 32-bit numbers with
// constant offsets, those of the next copies are in shared memory (Sources),
// and rows are found again at the end.

#define MOE_A_SIGNED // Codes minus their zero point.
#include "kernels/cuda/A8.cuh"
#include "kernels/cuda/AsyncCopy.cuh"
#include "kernels/cuda/PanelStage.cuh"
#include "kernels/cuda/Products.cuh"
#include "kernels/cuda/Tail.cuh"

constexpr int kTiles = MOE_ROWS / MOE_WARP_COLS / 8;
constexpr int kStageUnits = 2; // 64 columns: a swizzled row of 64 bytes.
constexpr int kThreads = 32 * MOE_WARP_ROWS * MOE_WARP_COLS;
static_assert(kTiles % 2 == 0, "ldmatrix takes two tiles at a time");
#ifdef MOE_GATE
constexpr int kMatrices = 2;
#else
constexpr int kMatrices = 1;
#endif
/// Groups of 32 weight rows of a warp, and how many are of the same matrix.
constexpr int kPairs = MOE_PAIRS, kMatrixPairs = kPairs / kMatrices;
static_assert(kPairs % kMatrices == 0);
/// Of each matrix.
constexpr int kBlockRows = 32 * kMatrixPairs * MOE_WARP_ROWS,
              kPanels = kBlockRows / 16;
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
  /// Codes of activations. Sixteen bytes with number i are at place i ^ t / 2 %
  /// 4 of row t, so that those of eight rows are in different banks.
  u8 acts[MOE_ROWS][32 * kStageUnits];
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

/// The place of sixteen bytes with number `i` of row `t` in a stage's acts.
MOE_DEVICE int actPlace(int t, int i) { return 4 * t + (i ^ t / 2 % 4); }

/// Loads 32 bytes of sixteen rows from the shared address `from` on as columns
/// of two mma. ldmatrix gives lane 4 g + c the bytes 4 c .. 4 c + 3 of row g of
/// each of four matrices, which have eight rows of 16 bytes.
template <int Offset> MOE_DEVICE void loadTiles(u32 (&b)[4], u32 from) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4 + %5];"
      : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
      : "r"(from), "n"(Offset)
      : "memory");
}
template <int Offset> MOE_DEVICE void loadShared(float (&v)[4], u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + %5];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(from), "n"(Offset)
               : "memory");
}
template <int Offset> MOE_DEVICE void loadShared(float (&v)[2], u32 from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + %3];"
               : "=f"(v[0]), "=f"(v[1])
               : "r"(from), "n"(Offset)
               : "memory");
}
MOE_DEVICE u32 loadShared4(u32 from) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}
MOE_DEVICE uint2 loadShared8(u32 from) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(from)
               : "memory");
  return v;
}
MOE_DEVICE uint4 loadShared16(u32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

/// Loads the factors of two neighbouring rows of activations.
template <int Offset> MOE_DEVICE void loadScales(ActScale (&x)[2], u32 from) {
#if MOE_MINIMA == 0
  float v[2];
  loadShared<Offset>(v, from);
  x[0].scale = v[0];
  x[1].scale = v[1];
#elif MOE_MINIMA == 1
  float v[4];
  loadShared<Offset>(v, from);
  x[0].scale = v[0];
  x[0].sum[0] = v[1];
  x[1].scale = v[2];
  x[1].sum[0] = v[3];
#else
  float v[2][4];
  loadShared<Offset>(v[0], from);
  loadShared<Offset + sizeof(ActScale)>(v[1], from);
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    x[t].scale = v[t][0];
    x[t].sum[0] = v[t][1];
    x[t].sum[1] = v[t][2];
  }
#endif
}

struct Lane {
  int g, c, quad;
};

/// A lane, and where its warp's rows of weights and activations begin in the
/// block's.
struct WarpPlace {
  Lane lane;
  int row, act;
};
MOE_DEVICE WarpPlace placeOf(int tid) {
  int warp = tid / 32, lane = tid % 32;
  return {{lane / 4, lane % 4, lane / 4 % 4},
          32 * kMatrixPairs * (warp % MOE_WARP_ROWS),
          warp / MOE_WARP_ROWS * 8 * kTiles};
}

/// Reads the thread's number again, so that what follows from it takes no
/// registers while a stage is multiplied.
MOE_DEVICE int threadAgain() {
  int tid;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(tid));
  return tid;
}

/// The same of the block's number.
MOE_DEVICE int blockAgain() {
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}

/// Shared addresses of what a lane reads of unit 0 of a stage.
struct Reads {
  u32 acts, weights, factors, scales;
#ifdef MOE_FOLDED
  u32 folds;
#endif
#ifdef MOE_SHIFTS
  u32 shifts;
#endif
};
MOE_DEVICE Reads operator+(Reads r, u32 bytes) {
  r.acts += bytes;
  r.weights += bytes;
  r.factors += bytes;
  r.scales += bytes;
#ifdef MOE_FOLDED
  r.folds += bytes;
#endif
#ifdef MOE_SHIFTS
  r.shifts += bytes;
#endif
  return r;
}
MOE_DEVICE Reads readsOf(const Stage &stage, const WarpPlace &place) {
  const Lane &lane = place.lane;
  int lane32 = threadIdx.x % 32, t = place.act + lane32 / 16 * 8 + lane32 % 8;
  int panel = place.row / 16 + lane.g / 4, quad = place.row / 4 + lane.g;
  Reads r;
  r.acts = sharedAddress(stage.acts) + 16 * actPlace(t, lane32 / 8 % 2);
  r.weights = sharedAddress(stage.weights) + panel * kStageUnits * kUnitBytes +
              16 * lane.quad;
  r.factors = sharedAddress(stage.factors) + 16 * quad;
  r.scales = sharedAddress(stage.scales) +
             (place.act + 2 * lane.c) * u32(sizeof(ActScale));
#ifdef MOE_FOLDED
  r.folds = sharedAddress(stage.folds) + quad * u32(sizeof(Fold));
#endif
#ifdef MOE_SHIFTS
  r.shifts = sharedAddress(stage.shifts) + 4 * quad;
#endif
  return r;
}

#ifdef MOE_FOLDED
MOE_DEVICE Fold loadFold(u32 from) {
  Fold fold;
#ifdef MOE_ZERO
  uint4 v = loadShared16(from);
  fold.multiple = {v.x, v.y};
  fold.start = {v.z, v.w};
#else
  fold.multiple = loadShared8(from);
#endif
  return fold;
}
#endif

/// A unit's weights of a lane: four rows of each pair of panels.
struct Rows {
  RowCodes codes[4];
  float f[kFactors][4], offset[4];
};
/// Where group `pair` of a warp's rows is: its matrix, and the number of the
/// matrix' groups before it.
MOE_DEVICE constexpr int matrixOf(int pair) { return pair / kMatrixPairs; }
MOE_DEVICE constexpr int before(int pair) { return pair % kMatrixPairs; }

template <int Factor, int Pair>
MOE_DEVICE void loadFactors(Rows &rows, u32 from) {
  if constexpr (Factor < kFactors) {
    constexpr int kRow = kBlockRows / 4 * 16;
    loadShared<matrixOf(Pair) * kStageUnits * kFactors * kRow + Factor * kRow +
               before(Pair) * 128>(rows.f[Factor], from);
    loadFactors<Factor + 1, Pair>(rows, from);
  }
}
template <int Pair>
MOE_DEVICE void loadRows(Rows &rows, const Reads &reads, int u,
                         const Lane &lane) {
  constexpr int kPanelBytes = kStageUnits * kUnitBytes;
  Codes codes;
  u32 unit = reads.weights + u * kUnitBytes +
             (matrixOf(Pair) * kPanels + 2 * before(Pair)) * kPanelBytes;
  loadUnit(codes, lane.quad, lane.c,
           [&](int i) { return loadShared16(unit + 16 * (i - lane.quad)); });
  [[maybe_unused]] int quad = matrixOf(Pair) * kStageUnits * (kBlockRows / 4) +
                              8 * before(Pair) + u * (kBlockRows / 4);
#ifdef MOE_SHIFTS
  codes.shifts = loadShared4(reads.shifts + 4 * quad);
#endif
#ifdef MOE_FOLDED
  Fold fold = loadFold(reads.folds + quad * u32(sizeof(Fold)));
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows.codes[r] = foldedCodes(codes, fold, r, lane.c);
#else
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows.codes[r] = signedCodes(codes, r, lane.c);
#endif
  loadFactors<0, Pair>(rows, reads.factors + u * kFactors * kBlockRows * 4);
#pragma unroll
  for (int r = 0; r < 4; ++r)
    rows.offset[r] = -kMagic * rows.f[0][r];
}

/// sums[row][t] += weights of four rows times the activations of a tile, whose
/// codes are b0 and b1.
MOE_DEVICE void multiplyTile(float (&sums)[4][2], const Rows &rows, u32 b0,
                             u32 b1, const ActScale (&x)[2]) {
  constexpr int start[2] = {kMagicBits, kMagicBits};
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    int c[kSums][4];
    const RowCodes &p = rows.codes[2 * pair], &q = rows.codes[2 * pair + 1];
#if MOE_SUMS == 2
    mma16(c[0], p.low, q.low, b0, start);
    mma16(c[1], p.high, q.high, b1, start);
#else
    mma32(c[0], p.low, q.low, p.high, q.high, b0, b1, start);
#endif
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int r = 2 * pair + i / 2, t = i % 2;
      float &to = sums[r][t];
      float product =
          fmaf(__int_as_float(c[0][i]), rows.f[0][r], rows.offset[r]);
#if MOE_SUMS == 2
      product = fmaf(__int_as_float(c[1][i]) - kMagic, rows.f[1][r], product);
#endif
      to = fmaf(product, x[t].scale, to);
#if MOE_MINIMA
#pragma unroll
      for (int m = 0; m < MOE_MINIMA; ++m)
        to = fmaf(rows.f[kSums + m][r], x[t].sum[m], to);
#endif
    }
  }
}

/// The same for two tiles from number `Two` on and those after them, of which
/// there are `Tiles`, or with `lacksTile` one fewer.
template <int Tiles, int Two>
MOE_DEVICE void multiplyTiles(float (&sums)[kPairs][kTiles][4][2],
                              const Rows (&rows)[kPairs], u32 acts, u32 scales,
                              bool lacksTile) {
  if constexpr (Two < Tiles) {
    constexpr int kScaleBytes = 8 * sizeof(ActScale);
    u32 b[4];
    ActScale x[2];
    loadTiles<Two * 8 * 32 * kStageUnits>(b, acts);
    loadScales<Two * kScaleBytes>(x, scales);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair)
      multiplyTile(sums[pair][Two], rows[pair], b[0], b[1], x);
    if (!kIsUneven || Two + 2 < Tiles || !lacksTile) {
      loadScales<(Two + 1) * kScaleBytes>(x, scales);
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair)
        multiplyTile(sums[pair][Two + 1], rows[pair], b[2], b[3], x);
    }
    multiplyTiles<Tiles, Two + 2>(sums, rows, acts, scales, lacksTile);
  }
}

/// The same for all units of a stage. An expert's last rows are fewer than a
/// block has: the warp multiplies `tiles` times eight of them.
template <int Tiles = 2>
MOE_DEVICE void multiplyStage(float (&sums)[kPairs][kTiles][4][2],
                              const Reads &reads, int units, int tiles,
                              const Lane &lane) {
  if constexpr (kIsUneven && Tiles < kTiles)
    if (tiles > Tiles)
      return multiplyStage<Tiles + 2>(sums, reads, units, tiles, lane);
  constexpr int kCount = kIsUneven ? Tiles : kTiles;
#pragma unroll 1
  for (int u = 0; u < units; ++u) {
    Rows rows[kPairs];
    loadRows<0>(rows[0], reads, u, lane);
    if constexpr (kPairs == 2)
      loadRows<1>(rows[1], reads, u, lane);
    multiplyTiles<kCount, 0>(sums, rows, reads.acts ^ 32 * u,
                             reads.scales + u * MOE_ROWS * sizeof(ActScale),
                             tiles < kCount);
  }
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

// Activations: a thread copies sixteen bytes each of rows that are kThreads / 4
// apart.
constexpr int kActLanes = 2 * kStageUnits;
constexpr int kActCopies = (MOE_ROWS * kActLanes + kThreads - 1) / kThreads;
static_assert(kThreads / kActLanes % 8 == 0);
// Weights: kCopyLanes threads divide a panel's words of a unit.
constexpr int kCopyLanes = kThreads / (kPanels * kStageUnits);
constexpr int kWordCopies = (kUnitWords + kCopyLanes - 1) / kCopyLanes;
static_assert(kCopyLanes % 4 == 0 && 16 % kCopyLanes == 0);
// Scales: the last threads have those of a row of activations each, the first
// ones those of a unit of four weight rows.
static_assert(MOE_ROWS <= kThreads && kStageUnits == 2);
constexpr int kQuads = kMatrices * kStageUnits * kBlockRows / 4;
constexpr int kOwnQuads = (kQuads + kThreads - 1) / kThreads;

/// What each thread copies in the first stage, in units of 16 bytes from the
/// first row of activations and the first byte of a matrix. In shared memory,
/// because registers are few while a stage is multiplied.
struct Sources {
  u32 act[kActCopies][kThreads], scaleRow[kThreads],
      weight[kMatrices][kThreads], tile[kOwnQuads][kThreads];
  /// The next stage's scales as they are in memory: of a row of activations
  /// both scales and both sums, and of four rows of weights what loadScales()
  /// reads. The thread that copied them decodes them.
  uint2 quads[kScaleLoads][kQuads];
  u32 acts[2][kStageUnits * MOE_ROWS];
#ifdef MOE_TAIL
  int end; ///< The unit after those of the tile's part.
#endif
};
struct Quad {
  bool isUp;
  int unit, rows; ///< rows: 4 rows .. 4 rows + 3 of the block's.
};
MOE_DEVICE Quad quadOf(int tid, int i) {
  int at = tid + i * kThreads;
  return {kMatrices > 1 && at >= kStageUnits * kBlockRows / 4,
          at / (kBlockRows / 4) % kStageUnits, at % (kBlockRows / 4)};
}
MOE_DEVICE bool isQuad(int tid, int i) {
  return kQuads % kThreads == 0 || tid + i * kThreads < kQuads;
}

/// The row of activations whose scales a thread copies, if it is not negative.
MOE_DEVICE int scaleRow(int tid) { return tid - (kThreads - MOE_ROWS); }

/// Panels past a matrix's last read the last one, rows past a job's last read
/// the first one; their results are not stored.
MOE_DEVICE void findSources(Sources &s, const GemmArgs &a, const Job &job,
                            i64 blockRow) {
  int tid = threadIdx.x;
  auto rowOf = [&](int t) {
    return u32((actRow(a, job, 0 <= t && t < job.count ? t : 0) - a.act) / 16);
  };
#pragma unroll
  for (int i = 0; i < kActCopies; ++i) {
    int t = tid / kActLanes + i * (kThreads / kActLanes);
    s.act[i][tid] = rowOf(t) + tid % kActLanes;
  }
  s.scaleRow[tid] = rowOf(scaleRow(tid));
  i64 last = (a.w.rows + 15) / 16 - 1, first = blockRow / 16;
  auto panelOf = [&](bool isUp, i64 panel) {
    const Matrix &m = isUp ? a.up : a.w;
    return u32(job.matrix * (m.outerStride / 16) +
               min(first + panel, last) * m.rowStride);
  };
  int group = tid / kCopyLanes;
#pragma unroll
  for (int matrix = 0; matrix < kMatrices; ++matrix)
    s.weight[matrix][tid] = panelOf(matrix == 1, group / kStageUnits) +
                            unitOffset(group % kStageUnits) / 16 +
                            tid % kCopyLanes;
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i) {
    Quad quad = quadOf(tid, i);
    s.tile[i][tid] = panelOf(quad.isUp, quad.rows / 4);
  }
}

/// Where scales are copied to, and read from (Rows16.cuh).
struct RawScales {
  u32 first;
  int item;
  __device__ __forceinline__ u32 next(int bytes) {
    u32 at = first + item * bytes;
    first += kQuads * 8;
    return at;
  }
};
struct ToShared : RawScales {
  __device__ __forceinline__ u32 four(const u8 *p) {
    return copyFew<4>(next(4), p), 0;
  }
  __device__ __forceinline__ uint2 eight(const u8 *p) {
    return copyFew<8>(next(8), p), uint2{};
  }
};
struct FromShared : RawScales {
  __device__ __forceinline__ u32 four(const u8 *) {
    return loadShared4(next(4));
  }
  __device__ __forceinline__ uint2 eight(const u8 *) {
    return loadShared8(next(8));
  }
};

/// Begins the copies of columns from 32 `first` on.
MOE_DEVICE void fillStage(u32 stage, const Sources &s, const GemmArgs &a,
                          int first, int units) {
  int tid = kSums == 2 ? threadAgain() : threadIdx.x;
  // All are read before the first copy, so that they are waited for once.
  u32 acts[kActCopies], weights[kMatrices], tiles[kOwnQuads];
#pragma unroll
  for (int i = 0; i < kActCopies; ++i)
    acts[i] = s.act[i][tid];
#pragma unroll
  for (int i = 0; i < kMatrices; ++i)
    weights[i] = s.weight[i][tid];
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i)
    tiles[i] = s.tile[i][tid];
  u32 scales = s.scaleRow[tid];
  if ((!kIsRagged || first + tid % kActLanes / 2 < units) &&
      (MOE_ROWS * kActLanes % kThreads == 0 || tid < MOE_ROWS * kActLanes)) {
    u32 to = stage + 16 * actPlace(tid / kActLanes, tid % kActLanes);
#pragma unroll
    for (int i = 0; i < kActCopies; ++i)
      copyAsync(to + 16 * i * kThreads, a.act + 16 * i64(acts[i] + 2 * first));
  }
  int group = tid / kCopyLanes, lane = tid % kCopyLanes;
  if (!kIsRagged || first + group % kStageUnits < units) {
    u32 to = stage + u32(sizeof(Stage::acts)) + group * kUnitBytes;
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix)
#pragma unroll
      for (int i = 0; i < kWordCopies; ++i) {
        int word = lane + i * kCopyLanes;
        if (kUnitWords % kCopyLanes == 0 || word < kUnitWords)
          copyAsync(to + matrix * kPanels * kStageUnits * kUnitBytes +
                        16 * wordPlace(word),
                    (matrix ? a.up : a.w).data + 16 * i64(weights[matrix]) +
                        codeOffset(first) + 16 * i * kCopyLanes);
      }
  }
  if (int t = scaleRow(tid); t >= 0) {
    const u8 *row = a.act + 16 * i64(scales);
    const float *from = a8Scales(row, a.w.cols) + first;
    [[maybe_unused]] const u32 *sums = a8Sums(row, a.w.cols) + first;
    // Both units together, unless there may be but one.
    constexpr int kBytes = kIsRagged ? 4 : 8;
#pragma unroll
    for (int i = 0; i < 8 / kBytes; ++i) {
      int u = kIsRagged ? min(i, units - 1 - first) : i;
      copyFew<kBytes>(sharedAddress(&s.acts[0][0]) + i * 4 * MOE_ROWS +
                          kBytes * t,
                      from + u);
#if MOE_MINIMA
      copyFew<kBytes>(sharedAddress(&s.acts[1][0]) + i * 4 * MOE_ROWS +
                          kBytes * t,
                      sums + u);
#endif
    }
  }
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i) {
    if (!isQuad(tid, i))
      break;
    Quad quad = quadOf(tid, i);
    int unit = first + quad.unit;
    unit = kIsRagged ? min(unit, units - 1) : unit;
    const u8 *tile =
        (quad.isUp ? a.up : a.w).data + 16 * i64(tiles[i]) + tileOffset(unit);
    ToShared to = {sharedAddress(s.quads), tid + i * kThreads};
    UnitScales unitScales;
    BlockScales block;
    loadScales(unitScales, tile, unit % kTileUnits, quad.rows % 4, to);
    loadScales(block, tile, quad.rows % 4, to);
  }
  commitCopies();
}

/// Decodes the scales that this thread has copied for a stage from unit `first`
/// on.
MOE_DEVICE void decodeScales(Stage &stage, const Sources &s, int first,
                             int units) {
  int tid = threadIdx.x;
  if (int t = scaleRow(tid); t >= 0) {
#pragma unroll
    for (int u = 0; u < kStageUnits; ++u) {
      ActScale act;
      int at = kIsRagged ? u * MOE_ROWS + t : kStageUnits * t + u;
      act.scale = __int_as_float(int(s.acts[0][at]));
#if MOE_MINIMA
      u32 both = s.acts[1][at];
#if MOE_MINIMA == 1
      act.sum[0] = act.scale * float(firstSum(both) + secondSum(both));
#else
      act.sum[0] = act.scale * float(firstSum(both));
      act.sum[1] = act.scale * float(secondSum(both));
      act.sum[2] = 0;
#endif
#endif
      stage.scales[u][t] = act;
    }
  }
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i) {
    if (!isQuad(tid, i))
      break;
    Quad quad = quadOf(kSums == 2 ? threadAgain() : tid, i);
    int unit = first + quad.unit;
    unit = kIsRagged ? min(unit, units - 1) : unit;
    FromShared from = {sharedAddress(s.quads), tid + i * kThreads};
    UnitScales unitScales;
    BlockScales block;
    loadScales(unitScales, nullptr, unit % kTileUnits, quad.rows % 4, from);
    loadScales(block, nullptr, quad.rows % 4, from);
    float f[kFactors][4];
    decode(f, block, unitScales, unit % kTileUnits);
#pragma unroll
    for (int k = 0; k < kFactors; ++k)
      stage.factors[quad.isUp][quad.unit][k][quad.rows] =
          make_float4(f[k][0], f[k][1], f[k][2], f[k][3]);
#ifdef MOE_FOLDED
    stage.folds[quad.isUp][quad.unit][quad.rows] =
        foldOf(unitScales, unit % kTileUnits);
#endif
#ifdef MOE_SHIFTS
    stage.shifts[quad.isUp][quad.unit][quad.rows] = unitScales.shifts;
#endif
  }
}

/// Whether 128 registers are enough for a lane with 64 sums: on GeForce GPUs,
/// for which this is the kernel of most formats, with one factor on sm_120.
constexpr bool kHasFewRegisters =
    __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 880 || __CUDA_ARCH__ == 890 ||
    (__CUDA_ARCH__ >= 1200 && kFactors == 1);
/// Blocks per multiprocessor: lanes with 64 sums have 128 registers in blocks
/// of eight warps, 255 in those of four, whose multiplyStage() has several
/// copies.
constexpr int kBlocks = kThreads == 256       ? (kHasFewRegisters ? 2 : 1)
                        : kPairs * kTiles > 4 ? 2
                                              : 4;

/// Stores the results of tile `tile` of a warp's rows of activations, from row
/// `act` of the job on; the lane's weight rows begin with `row`.
MOE_DEVICE void finishTile(const GemmArgs &a, const Job &job, i64 row, int act,
                           const float (&sums)[kPairs][4][2]) {
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    int i = act + 2 * (threadIdx.x % 4) + t;
    if (i >= job.count)
      continue;
    float *out = outRow(a, job, i);
#pragma unroll
    for (int k = 0; k < 4 * kMatrixPairs; ++k) {
      int pair = k / 4, r = k % 4;
      i64 at = row + 32 * pair + r;
      if (at < a.w.rows)
#ifdef MOE_GATE
        finish(a, job.matrix, out, at, sums[0][r][t], sums[1][r][t]);
#else
        finish(a, job.matrix, out, at, sums[pair][r][t], 0);
#endif
    }
  }
}

#ifdef MOE_TAIL
/// The sums of a part of a tile: those of tile `tile` of its warps' rows.
MOE_DEVICE float4 *partSums(const GemmTailArgs &a, int part, int tile,
                            int tid) {
  return (float4 *)a.tail.sums +
         (i64(part) * kTiles + tile) * 2 * kPairs * kThreads + tid;
}
#endif

#if MOE_TAIL == 2
MOE_KERNEL(kThreads, 2, GemmTailArgs) {
  Tile tile = findTile(a, blockIdx.x);
  WarpPlace place = placeOf(threadIdx.x);
  i64 row = i64(tile.column) * kBlockRows + place.row;
  int act = place.act + 8 * int(blockIdx.y);
  if (act >= tile.job.count || row >= a.w.rows)
    return;
  float sums[kPairs][4][2] = {};
#pragma unroll 4
  for (int part = 0; part < a.tail.parts; ++part) {
    const float4 *from =
        partSums(a, blockIdx.x * a.tail.parts + part, blockIdx.y, threadIdx.x);
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      float4 x = from[i * kThreads];
      float(&to)[4][2] = sums[i / 2];
      to[i % 2 * 2][0] += x.x;
      to[i % 2 * 2][1] += x.y;
      to[i % 2 * 2 + 1][0] += x.z;
      to[i % 2 * 2 + 1][1] += x.w;
    }
  }
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
  Stage *stages = (Stage *)memory;
  Tile tile = findTile(a, blockIdx.x);
  Job job = tile.job;
  if (job.count <= 0)
    return;
  WarpPlace place = placeOf(threadIdx.x);
  i64 blockRow = i64(tile.column) * kBlockRows;
  float sums[kPairs][kTiles][4][2] = {};
  const int units = int(a.w.cols / 32);
  // A part begins at an even stage, so that it uses the same buffer first.
  const Range range = rangeOf(a, tile, units, 2 * kStageUnits);
  // Warps past the last row multiply nothing, but they copy.
  bool isInside = blockRow + place.row < a.w.rows && place.act < job.count;
  int tiles = min((job.count - place.act + 7) / 8, kTiles);
  Sources &sources = *(Sources *)(stages + 2);
  findSources(sources, a, job, blockRow);
#ifdef MOE_TAIL
  if (threadIdx.x == 0)
    sources.end = range.end;
  auto end = [&] { return int(loadShared4(sharedAddress(&sources.end))); };
#else
  auto end = [&] { return units; };
#endif
  u32 shared = sharedAddress(memory);
  Reads reads = readsOf(stages[0], place);
  fillStage(shared, sources, a, range.begin, units);
  waitCopies<0>();
  decodeScales(stages[0], sources, range.begin, units);
  __syncthreads();
  for (int first = range.begin; first < end(); first += kStageUnits) {
    int next = first + kStageUnits;
    if (next < end())
      fillStage(shared + (next / kStageUnits % 2) * u32(sizeof(Stage)), sources,
                a, next, units);
    if (isInside)
      multiplyStage(sums, reads,
                    kIsRagged ? min(kStageUnits, units - first) : kStageUnits,
                    tiles, place.lane);
    if (next < end()) {
      waitCopies<0>();
      decodeScales(stages[next / kStageUnits % 2], sources, next, units);
    }
    constexpr u32 kOther = sizeof(Stage);
    reads = reads + (next / kStageUnits % 2 ? kOther : 0 - kOther);
    __syncthreads(); // The other stage is complete, this one free.
  }
  if (!isInside)
    return;
  // Again, because registers are few in the loop.
  int tid = threadAgain(), block = blockAgain();
#ifdef MOE_TAIL
  if (block >= a.tail.whole) {
    float4 *to = partSums(a, block - a.tail.whole, 0, tid);
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int k = 0; k < 2 * kPairs; ++k) {
        const float(&x)[4][2] = sums[k / 2][i];
        to[(i * 2 * kPairs + k) * kThreads] =
            make_float4(x[k % 2 * 2][0], x[k % 2 * 2][1], x[k % 2 * 2 + 1][0],
                        x[k % 2 * 2 + 1][1]);
      }
    return;
  }
#endif
  tile = findTile(a, block);
  place = placeOf(tid);
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    float own[kPairs][4][2];
#pragma unroll
    for (int k = 0; k < kPairs * 8; ++k)
      own[k / 8][k / 2 % 4][k % 2] = sums[k / 8][i][k / 2 % 4][k % 2];
    finishTile(a, tile.job,
               i64(tile.column) * kBlockRows + place.row + 4 * place.lane.g,
               place.act + 8 * i, own);
  }
}
#endif
