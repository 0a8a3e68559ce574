//===- HalfPanels.cuh - Weights of HalfGemm.cu: packed panels ---*- C++ -*-===//
//
// Quantised weights, unpacked to F16 in registers, for GPUs whose tensor cores
// multiply F16 at half of the int8 rate: there a scale for every 32 columns of
// an int8 product (Gemm.cu) costs more than the other half.
//
// A lane's sixteen bytes have four rows, which are rows g and g + 8 of two mma,
// by two groups of four columns of a unit (Rows16.cuh): group c, of the unit's
// first sixteen columns, and group c + 4, of the other sixteen. One group is
// what the lane has of the sixteen k of an mma, in another order: columns 4 c
// and 4 c + 2 are its k 2 c and 2 c + 1, columns 4 c + 1 and 4 c + 3 its k 2 c
// + 8 and 2 c + 9. So bytes 0 and 2 of a word become a register, and bytes 1
// and 3 another one. Activations have the same order (NarrowA8.cu).
//
// A code c of b bits becomes F16 without a conversion: put into the low bits of
// the mantissa of 2^(10 - b) it is 2^(10 - b) + c 2^-b. Subtracting that number
// for the code of weight 0 is exact; a product with the scale times 2^b, or a
// multiply-add with the minimum, rounds once. Scales and minima are rounded to
// F16 as well. So the error of a weight is at most 2^-11 of itself, of its code
// times the scale, and of the minimum. The scale times 2^b is about as large as
// the sub-block's largest weight. Weights must be F16 numbers in size: above
// 65504 they are infinite, below 2^-14 their error is 2^-25.
//
// For Q4_K a register of two weights takes three instructions (and a shift for
// eight), sixteen registers for 32 mma of a warp's sixteen columns: 52
// instructions, where the mma take 256 cycles of an A100 and 200 of an H100.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_HALFPANELS_CUH
#define MOE_KERNELS_CUDA_HALFPANELS_CUH

#include "kernels/cuda/PanelStage.cuh"

constexpr int kStepUnits = kStepCols / 32;
constexpr int kPanels = MOE_TILES * MOE_WARP_ROWS; ///< Panels of both matrices.
constexpr int kMatrixPanels = kPanels / kMatrices;
static_assert(kRowTiles % 2 == 0, "a lane has rows of two panels");
/// Number of 16-bit numbers of a weight.
constexpr int kWeightParts = 1;

#ifdef MOE_MIN
constexpr int kFactors = 2 * kHalves;
#else
constexpr int kFactors = kHalves;
#endif

struct WeightStage {
  /// Words of a unit are at the places that wordPlace() returns.
  uint4 codes[kPanels][kStepUnits][kUnitWords];
  /// Scales (of each half), then minima. A vector has those of four rows, each
  /// as an F16 number twice.
  uint4 factors[kStepUnits][kFactors][kPanels * 4];
};

// Codes: kCopyLanes threads copy the words of one unit of a panel.
constexpr int kCopyLanes = kSliceThreads / (kPanels * kStepUnits);
constexpr int kWeightCopies = (kUnitWords + kCopyLanes - 1) / kCopyLanes;
static_assert(kCopyLanes % 4 == 0 && 16 % kCopyLanes == 0);
// Scales: a thread loads and stores those of four rows of a unit (a quad), in
// every kTurns-th round.
constexpr int kQuads = kStepUnits * kPanels * 4;
constexpr int kTurns = kSliceThreads / kQuads;
static_assert(kTurns * kQuads == kSliceThreads);

/// What this thread copies. `codes`, plus codeOffset() of a round's first unit,
/// is the address of its first word of codes; `to` says where its words go,
/// from the beginning of a stage; `panel` is the panel whose scales it decodes;
/// `unit` the unit of its codes in a round.
struct WeightSource {
  const u8 *codes, *panel;
  u32 to[kWeightCopies];
  int unit; ///< Index in a round of the unit whose codes the thread copies.
  int units, slice;
};

/// Panels past a matrix's last read the last one; their results are not stored.
MOE_DEVICE WeightSource weightSource(const HalfGemmArgs &a, const Job &job,
                                     i64 blockRow, int, int slice, int thread) {
  i64 last = (a.w.rows + 15) / 16 - 1, first = blockRow / 16;
  auto panelAt = [&](int panel) {
    const Matrix &m = panel < kMatrixPanels ? a.w : a.up;
    return m.data + job.matrix * m.outerStride +
           min(first + panel % kMatrixPanels, last) * 16 * m.rowStride;
  };
  int group = thread / kCopyLanes, lane = thread % kCopyLanes;
  WeightSource s;
  s.unit = group % kStepUnits;
  s.codes = panelAt(group / kStepUnits) + 16 * lane +
            s.unit * (kTileUnits == 1 ? kTileBytes : kUnitBytes);
  s.panel = panelAt(thread % (kPanels * 4) / 4);
#pragma unroll
  for (int i = 0; i < kWeightCopies; ++i) {
    s.to[i] = u32(group * kUnitWords + wordPlace(lane + i * kCopyLanes)) * 16;
    keep(s.to[i]);
  }
  s.units = int(a.w.cols / 32);
  s.slice = slice;
  return s;
}

/// The first unit of a round.
MOE_DEVICE int unitOf(const WeightSource &s, int round) {
  return (round * MOE_SLICES + (MOE_SLICES > 1 ? s.slice : 0)) * kStepUnits;
}

/// Begins share `part` of `parts` of the copies of a round's codes to the stage
/// at shared address `stage`. Units past the last become zeros.
MOE_DEVICE void fillWeights(u32 stage, WeightSource &s, int round, int thread,
                            int part, int parts) {
  static_assert(kTileUnits % kStepUnits == 0 || kTileUnits == 1);
  int unit = unitOf(s, round);
  const u8 *from = s.codes + codeOffset(unit);
#pragma unroll
  for (int i = 0; i < kWeightCopies; ++i)
    if (i % parts == part &&
        (kUnitWords % kCopyLanes == 0 ||
         thread % kCopyLanes + i * kCopyLanes < kUnitWords))
      copyAsync(stage + s.to[i], from + 16 * i * kCopyLanes,
                unit + s.unit < s.units ? 16 : 0);
}

/// Scales that a thread has loaded and will write to shared memory.
struct Scales {
  UnitScales unit;
  BlockScales block;
};
/// Whether this thread has scales of the round.
MOE_DEVICE bool isTurn(int round, int thread) {
  return kTurns == 1 || round % kTurns == thread / kQuads;
}
MOE_DEVICE void loadScales(Scales &scales, const WeightSource &s, int round,
                           int thread) {
  if (!isTurn(round, thread))
    return;
  int unit = unitOf(s, round) + thread % kQuads / (kPanels * 4);
  unit = min(unit, s.units - 1);
  const u8 *tile = s.panel + tileOffset(unit);
  loadScales(scales.unit, tile, unit % kTileUnits, thread % 4);
  loadScales(scales.block, tile, thread % 4);
}

MOE_DEVICE void storeShared(u32 to, const u32 (&x)[4]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
MOE_DEVICE uint4 loadShared(u32 from) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}

/// Bits of the largest difference between a code, or value, and that of weight
/// 0: the exponent b above.
#if MOE_FORMAT == MOE_IQ4_NL || MOE_FORMAT == MOE_IQ4_XS
constexpr int kValueBits = 7;
#elif MOE_FORMAT == MOE_MXFP4 || MOE_FORMAT == MOE_NVFP4 ||                    \
    MOE_FORMAT == MOE_IQ3_S
constexpr int kValueBits = 4;
#elif defined(MOE_VALUES)
constexpr int kValueBits = 6;
#else
constexpr int kValueBits = MOE_BITS;
#endif

/// Decodes the scales that loadScales() has loaded and stores them to the stage
/// as F16 numbers. Past the last unit, whose codes are zeros, these are those
/// of the last unit again.
MOE_DEVICE void storeScales(u32 stage, const Scales &scales,
                            const WeightSource &s, int round, int thread) {
  if (!isTurn(round, thread))
    return;
  int u = thread % kQuads / (kPanels * 4), rows = thread % (kPanels * 4);
  int unit = min(unitOf(s, round) + u, s.units - 1);
  Factors f;
  decode(f, scales.block, scales.unit, unit % kTileUnits);
  auto store = [&](int i, const float(&four)[4], float times) {
    u32 pairs[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float x = four[r] * times;
      pairs[r] = narrow(x, x);
    }
    storeShared(stage + u32(sizeof(WeightStage::codes)) +
                    ((u * kFactors + i) * kPanels * 4 + rows) * 16,
                pairs);
  };
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    store(half, f.scale[half], 1 << kValueBits);
#ifdef MOE_MIN
    store(kHalves + half, f.min[half], 1);
#endif
  }
}

/// The operands of sixteen weight rows and columns.
struct Weights {
  u32 part[kWeightParts][4];
};

/// Offsets of the lane's codes and of its rows' factors from the beginning of a
/// stage, for the warp's first two panels.
struct WeightLane {
  u32 codes, rows;
  int quad, c;
};
MOE_DEVICE WeightLane weightLane(int warpRow) {
  int lane = threadIdx.x % 32, g = lane / 4, panel = warpRow * kRowTiles;
  return {u32(panel + g / 4) * kStepUnits * kUnitWords * 16,
          u32(sizeof(WeightStage::codes)) + u32(4 * panel + g) * 16, g % 4,
          lane % 4};
}

/// Tiles that one loadWeights() loads, and what it keeps for the next columns:
/// codes of a unit have 32 of them.
constexpr int kLoadTiles = 2;
struct Held {
  Codes codes[MOE_TILES / 2];
};

MOE_DEVICE u32 minus(u32 x, u32 y) {
  u32 d;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(x), "r"(y));
  return d;
}
/// The F16 number 2^(10 - kValueBits) + n 2^-kValueBits, twice.
MOE_DEVICE constexpr u32 twice(int n) {
  return ((25 - kValueBits) << 10 | n) * 0x00010001u;
}
/// Codes of four columns as F16 numbers, less that of weight 0, times
/// 2^-kValueBits: columns 0 and 2 in `even`, 1 and 3 in `odd`.
struct Pairs {
  u32 even, odd;
};
MOE_DEVICE Pairs pairsOf(const Codes &codes, int row, int c, int half) {
  u32 even, odd;
#if MOE_BITS == 4 && !defined(MOE_VALUES)
  // Codes in bits 4 to 7 count sixteen times as much, so they are put into a
  // number whose exponent is less by four.
  u32 w = part(codes.word[0], row);
  const u32 mask = half ? 0x00f000f0 : 0x000f000f;
  const u32 top = half ? twice(0) - 0x10001000 : twice(0);
  even = maskedOr(w, mask, top);
  odd = maskedOr(w >> 8, mask, top);
  // The number of weight 0 has the same exponent and position of the code.
  const u32 zero = half ? top + (kZero << 4) * 0x00010001u : twice(kZero);
  return {minus(even, zero), minus(odd, zero)};
#else
  RowCodes both = rowCodes(codes, row, c);
  u32 w = half ? both.high : both.low;
#ifdef MOE_VALUES
  w ^= 0x80808080;
  constexpr u32 zero = twice(128);
#else
  constexpr u32 zero = twice(kZero);
#endif
  constexpr u32 tops = twice(0) >> 8;
  even = __byte_perm(w, tops, 0x4240);
  odd = __byte_perm(w, tops, 0x4341);
  return {minus(even, zero), minus(odd, zero)};
#endif
}

/// Loads columns 16 `k` .. 16 `k` + 15 of tiles `i` and `i` + 1 of the warp's
/// rows to w[0] and w[1].
MOE_DEVICE void loadWeights(Weights *w, Held &held, u32 stage,
                            const WeightLane &lane, int i, int k) {
  const int half = k % 2, u = k / 2;
  const int panel = i / kRowTiles * kMatrixPanels + i % kRowTiles;
  Codes &codes = held.codes[i / 2];
  if (half == 0) {
    u32 unit = stage + lane.codes + (panel * kStepUnits + u) * kUnitWords * 16;
    loadUnit(codes, lane.quad, lane.c,
             [&](int i) { return loadShared(unit + 16 * i); });
  }
  u32 rows = stage + lane.rows + (u * kFactors * kPanels + panel) * 4 * 16;
  uint4 scale = loadShared(rows + half % kHalves * kPanels * 4 * 16);
#ifdef MOE_MIN
  uint4 least =
      loadShared(rows + (kHalves + half % kHalves) * kPanels * 4 * 16);
#endif
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    Pairs pairs = pairsOf(codes, r, lane.c, half);
    auto scaled = [&](u32 x) {
      u32 y;
#ifdef MOE_MIN
      asm("fma.rn.f16x2 %0, %1, %2, %3;"
          : "=r"(y)
          : "r"(x), "r"(part(scale, r)), "r"(part(least, r)));
#else
      asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(part(scale, r)));
#endif
      return y;
    };
    w[r / 2].part[0][r % 2] = scaled(pairs.even);
    w[r / 2].part[0][2 + r % 2] = scaled(pairs.odd);
  }
}

/// Returns the weight row, from the warp's first one, of a lane's sums of tile
/// `i`: of sums 0 and 1 (`half` 0) or of sums 2 and 3 (`half` 1).
MOE_DEVICE int weightRow(int i, int half) {
  return 16 * (i - i % 2) + int(threadIdx.x % 32) / 4 * 4 + 2 * (i % 2) + half;
}

#endif // MOE_KERNELS_CUDA_HALFPANELS_CUH
