//===- GemmCopies.cuh - Copies of Gemm.cu's next stage ----------*- C++ -*-===//
//
// While a stage is multiplied, the codes of the next stage and the scales of
// the one after that are copied in the background. Each thread decodes the
// scales of the next stage that it has copied itself before, so that each is
// decoded once for the block. What a thread copies is found once and kept in
// shared memory as addresses (Sources), because registers are few while a stage
// is multiplied.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_GEMMCOPIES_CUH
#define MOE_KERNELS_CUDA_GEMMCOPIES_CUH

#include "kernels/cuda/GemmStage.cuh"
#include "kernels/cuda/Tail.cuh"

/// Whether the last stage may have one unit instead of two: where a block of
/// the format is a single unit, the number of units may be odd. The last unit
/// is then there twice, the second time multiplied with activations whose scale
/// is zero.
constexpr bool kIsRagged = kTileUnits == 1;
MOE_DEVICE bool lacksUnit(int first, int units) {
  return kIsRagged && first + 1 == units;
}
/// Bytes from the codes of a stage's unit 0 in a panel to those of its unit
/// `u`.
MOE_DEVICE int unitOffset(int u) {
  return kTileUnits == 1 ? u * kTileBytes : u * kUnitBytes;
}

// Activations: kActLanes threads copy the 64 bytes of a row, each thread the
// same sixteen of rows that are kThreads / kActLanes apart.
constexpr int kActLanes = 2 * kStageUnits;
constexpr int kActCopies = (MOE_ROWS * kActLanes + kThreads - 1) / kThreads;
static_assert(kThreads / kActLanes % 8 == 0);
// Weights: kCopyLanes threads copy the words of one unit of a panel, of each
// matrix.
constexpr int kCopyLanes = kThreads / (kPanels * kStageUnits);
constexpr int kWordCopies = (kUnitWords + kCopyLanes - 1) / kCopyLanes;
static_assert(kCopyLanes % 4 == 0 && 16 % kCopyLanes == 0);
// Scales: each of the last MOE_ROWS threads copies and decodes those of a row
// of activations, and each of the first ones those of quads. A quad is four
// weight rows of a unit.
static_assert(MOE_ROWS <= kThreads && kStageUnits == 2);
constexpr int kQuads = kMatrices * kStageUnits * kBlockRows / 4;
constexpr int kOwnQuads = (kQuads + kThreads - 1) / kThreads;
/// Arrays of a row of activations that are copied: scales and, with minima,
/// sums.
constexpr int kActNumbers = MOE_MINIMA ? 2 : 1;

/// The addresses that threads copy from, and the scales on their way.
struct Sources {
  /// Addresses in global memory of what each thread copies of the first stage.
  u64 act[kActCopies][kThreads], weight[kMatrices][kThreads];
  u64 number[kActNumbers][MOE_ROWS]; ///< Addresses of scales and sums.
  u64 tile[kQuads]; ///< Address of a quad's first tile in its panel.
  /// A later stage's scales as they are in memory: of a row of activations
  /// both scales and both sums, and of four rows of weights what loadScales()
  /// reads. The thread that copied them decodes them.
  uint2 quads[kScaleLoads][kQuads];
  u32 acts[2][kStageUnits * MOE_ROWS];
  /// Kept in shared memory, because the end of the kernel needs it again.
  Tile tileOfBlock;
  int end; ///< The unit after the last one of the block's part.
};
struct Quad {
  bool isUp;
  int unit, rows; ///< Weight rows 4 rows .. 4 rows + 3 of the block.
};
/// The `i`-th quad of thread `tid`, if isQuad().
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

/// Finds what this thread copies. Panels past a matrix's last read the last
/// one, rows past a job's last read the first one; their results are not
/// stored.
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

/// What loadScales() of Rows16.cuh takes its bytes from. With ToShared it
/// begins copies of them to Sources::quads, and its results mean nothing; with
/// FromShared it reads from there what these copies have brought, in the same
/// order. `item` is the number of the quad; each load has an array of kQuads
/// items.
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

/// Begins the copies of codes of activations and weights, for the units `first`
/// and `first` + 1 of `units`, to the stage at the shared address `stage`. The
/// Sources are at the shared address `sources`.
MOE_DEVICE void copyCodes(u32 stage, u32 sources, int first, int units) {
  int tid = threadAgain();
  u32 own = sources + 8 * tid;
  // All addresses are read before the first copy, so that the thread waits for
  // shared memory once.
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

/// Begins the copies of scales, as they are in memory, for the units `first`
/// and `first` + 1; past the last stage, those of the last stage again.
MOE_DEVICE void copyScales(u32 sources, int first, int units) {
  int tid = threadAgain();
  u32 own = sources + 8 * tid;
  first = min(first, (units - 1) / kStageUnits * kStageUnits);
  if (int t = scaleRow(tid); t >= 0) {
    // One copy brings both units, unless the second may be missing.
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

/// Decodes the scales of units `first` and `first` + 1 that this thread has
/// copied, to the stage at the shared address `stage`.
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
    // The number of the quad's matrix and unit, and of the quad among all.
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
