//===- GemmCopies.cuh - Copies of Gemm.cu's next stage ----------*- C++ -*-===//
//
// While a stage is multiplied, codes of the next and scales of the one after it
// are copied in the background, and each thread decodes, once for the block,
// the scales of the next stage, which it has copied before. What each thread
// copies is found once and kept in shared memory as whole addresses, because
// registers are few while a stage is multiplied.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_GEMMCOPIES_CUH
#define MOE_KERNELS_CUDA_GEMMCOPIES_CUH

#include "kernels/cuda/GemmStage.cuh"
#include "kernels/cuda/Tail.cuh"

/// Whether the last stage may lack a unit; otherwise a stage is always half of
/// a block's tile. In place of a missing unit is the last one again, multiplied
/// with activations whose scale is zero.
constexpr bool kIsRagged = kTileUnits == 1;
MOE_DEVICE bool lacksUnit(int first, int units) {
  return kIsRagged && first + 1 == units;
}
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
/// Of a row of activations: scales, and with minima sums.
constexpr int kActNumbers = MOE_MINIMA ? 2 : 1;

struct Sources {
  /// What each thread copies of unit 0: of activations and of weights.
  u64 act[kActCopies][kThreads], weight[kMatrices][kThreads];
  u64 number[kActNumbers][MOE_ROWS]; ///< A row's scales and sums of unit 0.
  u64 tile[kQuads];                  ///< A quad's first tile.
  /// A later stage's scales as they are in memory: of a row of activations
  /// both scales and both sums, and of four rows of weights what loadScales()
  /// reads. The thread that copied them decodes them.
  uint2 quads[kScaleLoads][kQuads];
  u32 acts[2][kStageUnits * MOE_ROWS];
  Tile tileOfBlock; ///< For the end.
  int end;          ///< The unit after those of the tile's part.
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
    return actRow(a, job, 0 <= t && t < job.count ? t : 0);
  };
#pragma unroll
  for (int i = 0; i < kActCopies; ++i) {
    int t = tid / kActLanes + i * (kThreads / kActLanes);
    s.act[i][tid] = u64(rowOf(t) + 16 * (tid % kActLanes));
  }
  if (int t = scaleRow(tid); t >= 0) {
    const u8 *row = rowOf(t);
    s.number[0][t] = u64(a8Scales(row, a.w.cols));
#if MOE_MINIMA
    s.number[1][t] = u64(a8Sums(row, a.w.cols));
#endif
  }
  i64 last = (a.w.rows + 15) / 16 - 1, first = blockRow / 16;
  auto panelOf = [&](bool isUp, i64 panel) {
    const Matrix &m = isUp ? a.up : a.w;
    return m.data + job.matrix * m.outerStride +
           min(first + panel, last) * 16 * m.rowStride;
  };
  int group = tid / kCopyLanes;
#pragma unroll
  for (int matrix = 0; matrix < kMatrices; ++matrix)
    s.weight[matrix][tid] =
        u64(panelOf(matrix == 1, group / kStageUnits) +
            unitOffset(group % kStageUnits) + 16 * (tid % kCopyLanes));
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i)
    if (isQuad(tid, i)) {
      Quad quad = quadOf(tid, i);
      s.tile[tid + i * kThreads] = u64(panelOf(quad.isUp, quad.rows / 4));
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

/// Begins the copies of the codes of columns from 32 `first` on to the stage at
/// the shared address `stage`; the Sources are at `sources`.
MOE_DEVICE void copyCodes(u32 stage, u32 sources, int first, int units) {
  int tid = threadAgain();
  u32 own = sources + 8 * tid;
  // All are read before the first copy, so that they are waited for once.
  u64 acts[kActCopies], weights[kMatrices];
#pragma unroll
  for (int i = 0; i < kActCopies; ++i)
    acts[i] = loadSharedAddress(own + MOE_AT(Sources, act) + i * 8 * kThreads);
#pragma unroll
  for (int i = 0; i < kMatrices; ++i)
    weights[i] =
        loadSharedAddress(own + MOE_AT(Sources, weight) + i * 8 * kThreads);
  const bool lacks = lacksUnit(first, units);
  if (MOE_ROWS * kActLanes % kThreads == 0 || tid < MOE_ROWS * kActLanes) {
    u32 to = stage + 16 * actPlace(tid / kActLanes, tid % kActLanes);
    int from = first - (lacks ? tid % kActLanes / 2 : 0);
#pragma unroll
    for (int i = 0; i < kActCopies; ++i)
      copyAsync(to + 16 * i * kThreads, (const u8 *)acts[i] + 32 * from);
  }
  int group = tid / kCopyLanes, lane = tid % kCopyLanes;
  {
    int from = first - (lacks ? group % kStageUnits : 0);
    u32 to = stage + MOE_AT(Stage, weights) + group * kUnitBytes;
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix)
#pragma unroll
      for (int i = 0; i < kWordCopies; ++i) {
        int word = lane + i * kCopyLanes;
        if (kUnitWords % kCopyLanes == 0 || word < kUnitWords)
          copyAsync(to + matrix * kPanels * kStageUnits * kUnitBytes +
                        16 * wordPlace(word),
                    (const u8 *)weights[matrix] + codeOffset(from) +
                        16 * i * kCopyLanes);
      }
  }
}

/// Begins the copies of the scales of columns from 32 `first` on, or of the
/// last stage if there are none.
MOE_DEVICE void copyScales(u32 sources, int first, int units) {
  int tid = threadAgain();
  u32 own = sources + 8 * tid;
  first = min(first, (units - 1) / kStageUnits * kStageUnits);
  if (int t = scaleRow(tid); t >= 0) {
    // Both units together, unless there may be but one.
    constexpr int kBytes = kIsRagged ? 4 : 8;
#pragma unroll
    for (int k = 0; k < kActNumbers; ++k) {
      u64 from = loadSharedAddress(sources + MOE_AT(Sources, number) +
                                   8 * (k * MOE_ROWS + t));
#pragma unroll
      for (int i = 0; i < 8 / kBytes; ++i) {
        int u = kIsRagged ? min(i, units - 1 - first) : i;
        copyFew<kBytes>(sources + MOE_AT(Sources, acts) +
                            (2 * k + i) * 4 * MOE_ROWS + kBytes * t,
                        (const u8 *)from + 4 * (first + u));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kOwnQuads; ++i) {
    if (!isQuad(tid, i))
      break;
    Quad quad = quadOf(tid, i);
    int unit = first + quad.unit;
    unit = kIsRagged ? min(unit, units - 1) : unit;
    const u8 *tile = (const u8 *)loadSharedAddress(own + MOE_AT(Sources, tile) +
                                                   i * 8 * kThreads) +
                     tileOffset(unit);
    ToShared to = {sources + MOE_AT(Sources, quads), tid + i * kThreads};
    UnitScales unitScales;
    BlockScales block;
    loadScales(unitScales, tile, unit % kTileUnits, quad.rows % 4, to);
    loadScales(block, tile, quad.rows % 4, to);
  }
}

/// Decodes the scales that this thread has copied for the stage at the shared
/// address `stage` from unit `first` on.
MOE_DEVICE void decodeScales(u32 stage, u32 sources, int first, int units) {
  int tid = threadAgain();
  if (int t = scaleRow(tid); t >= 0) {
#pragma unroll
    for (int u = 0; u < kStageUnits; ++u) {
      u32 at = sources + MOE_AT(Sources, acts) +
               4 * (kIsRagged ? u * MOE_ROWS + t : kStageUnits * t + u);
      u32 to = stage + MOE_AT(Stage, scales) +
               (u * MOE_ROWS + t) * u32(sizeof(ActScale));
      u32 scale = u > 0 && lacksUnit(first, units) ? 0 : loadShared4(at);
#if MOE_MINIMA == 0
      storeShared4(to, scale);
#else
      float x = __int_as_float(int(scale));
      u32 both =
          loadShared4(at + MOE_AT(Sources, acts[1]) - MOE_AT(Sources, acts[0]));
#if MOE_MINIMA == 1
      storeShared8(to, x, x * float(firstSum(both) + secondSum(both)));
#else
      storeShared16(to, x, x * float(firstSum(both)),
                    x * float(secondSum(both)), 0);
#endif
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
    FromShared from = {sources + MOE_AT(Sources, quads), tid + i * kThreads};
    UnitScales unitScales;
    BlockScales block;
    loadScales(unitScales, nullptr, unit % kTileUnits, quad.rows % 4, from);
    loadScales(block, nullptr, quad.rows % 4, from);
    float f[kFactors][4];
    decode(f, block, unitScales, unit % kTileUnits);
    // Of the unit of the matrix, and of the quad in it.
    int place = quad.isUp * kStageUnits + quad.unit;
    [[maybe_unused]] int number = place * (kBlockRows / 4) + quad.rows;
    u32 to = stage + MOE_AT(Stage, factors) +
             4 * (place * kFactors * kBlockRows + 4 * quad.rows);
#pragma unroll
    for (int k = 0; k < kFactors; ++k)
      storeShared16(to + 4 * k * kBlockRows, f[k][0], f[k][1], f[k][2],
                    f[k][3]);
#ifdef MOE_FOLDED
    storeFold(stage + MOE_AT(Stage, folds) + number * u32(sizeof(Fold)),
              foldOf(unitScales, unit % kTileUnits));
#endif
#ifdef MOE_SHIFTS
    storeShared4(stage + MOE_AT(Stage, shifts) + 4 * number, unitScales.shifts);
#endif
  }
}

#endif // MOE_KERNELS_CUDA_GEMMCOPIES_CUH
