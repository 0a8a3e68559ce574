//===- Requantize.h - Converts weights to int8 tiles ------------*- C++ -*-===//
//
// A tile product sums 64 columns, but formats have a scale per 16 or 32. So
// each block of kBlockCols columns of 16 interleaved rows
// (kernels/quant/Rows16.h) is converted to signed bytes with one scale per row:
//
//   w' = round(w / s), s = bound / 127
//
// where bound is the largest weight that the block's scales can express with
// any code. It is computed from the scales alone, so that codes are read once.
//
// Codes are converted in 16-bit fixed point, two codes of a row per lane. Codes
// of up to four bits:
//
//   256 w' = vpmullw(code, b) + a,  b = 256 scale / s
//                                   a = 256 start / s - b middle
//                                   start = offset + (middle - zero) scale
//
// modulo 2^16, in which w' fits. b and a are each rounded, by at most half a
// 256th; the error of b counts |code - middle| times, at most 8. This takes 8
// instructions for 64 weights, of which half are shifts and products that only
// one of two vector ports executes. Codes of more bits:
//
//   64 w' = vpmulhrsw(code << kShift, b) + a,  b = 2^(21 - kShift) scale / s
//                                              a = 64 (offset - zero scale) / s
//
// code << kShift occupies at most 15 bits and a sign; 2^(21 - kShift) scale / s
// is at most 127 / (the largest code - zero) * 2^(21 - kShift) < 2^15. b, the
// result of vpmulhrsw and a are each rounded, by at most half a 64th. This
// takes 9 instructions, of which six are shifts and products.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AMX_REQUANTIZE_H
#define MOE_KERNELS_CPU_AMX_REQUANTIZE_H

#include "kernels/cpu/amx/Tile.h"
#include "kernels/cpu/avx512/Rows16Panel.h"

#include <bit>

namespace moek::amx {
namespace {

/// Weights tolerate larger blocks than activations, whose columns differ more:
/// with 256 for both, two thirds of a product's error come from the
/// activations.
constexpr int kBlockCols = 256;
/// Number of tiles along the columns of a block.
constexpr int kBlockTiles = kBlockCols / kTileRowBytes;

/// A block of 16 rows. Weight tile k holds columns 64 k .. 64 k + 63: byte 4 r
/// + j of its row g is row r, column 64 k + 4 g + j.
struct alignas(64) WeightBlock {
  uint8_t tiles[kBlockTiles][kTileRows][kTileRowBytes];
  float scale[16]; ///< The scale s of each row.
};

/// A format's codes as numbers code - zero, and their range.
template <Format F> struct CodeRange {
  using Tile = avx512::Rows16Tile<F>;
  /// Whether codes have 8 bits, and 128 is zero.
  static constexpr bool kIsSigned = Tile::kIsSigned;
  static constexpr bool kIsSmall = !kIsSigned && Tile::kMaxCode < 16;
  static constexpr int kZero = kIsSigned ? 0 : Tile::kZero;
  static constexpr int kMiddle = kIsSmall ? (Tile::kMaxCode + 1) / 2 : 0;
  static constexpr float kLow = Tile::kLow, kHigh = Tile::kHigh;
  static constexpr int kShift =
      kIsSigned ? 8 : 15 - std::bit_width(unsigned(Tile::kMaxCode));
  static constexpr int kFactor = kIsSmall ? 1 << 8 : 1 << (21 - kShift);
  /// Unit in which the result counts.
  static constexpr int kUnit = kIsSmall ? 256 : 64;
  static_assert(kIsSigned || Tile::kMaxCode << kShift <= 32767);
  // The factor fits in 16 bits.
  static_assert(127 * kFactor < 32768 * (kHigh > -kLow ? kHigh : -kLow));
};

/// Reads the scales of a tile of interleaved rows, [kCols / kSub][16], and as
/// many offsets if the format has them.
template <Format F>
MOE_INLINE void readScales(const uint8_t *tile, float *scale, float *offset) {
  using Tile = avx512::Rows16Tile<F>;
  if constexpr (!Tile::kPairs) {
    Tile::template scales<1>(tile, scale, offset);
  } else {
    typename Tile::Integers integers;
    Tile::unpack(tile, integers);
    for (int i = 0; i < 16; ++i) {
      auto number = [&](__m512i pair) {
        return _mm512_cvtepi32_ps(avx512::ofPair(pair, i % 2));
      };
      _mm512_store_ps(
          scale + 16 * i,
          _mm512_mul_ps(avx512::rowHalves(tile),
                        number(Tile::pairScales(tile, integers, i / 2))));
      if constexpr (Tile::kOffsetSub != 0)
        _mm512_store_ps(offset + 16 * i,
                        _mm512_mul_ps(avx512::rowHalves(tile + 32),
                                      number(Tile::pairMinima(tile, i / 2))));
    }
  }
}

/// Copies the low half of each lane to both halves.
MOE_INLINE __m512i bothHalves(__m512i x) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, x, _mm512_slli_epi32(x, 16));
}

/// Scale and offset of a sub-block of columns, in fixed point.
struct FixedPoint {
  __m512i factor, start;

  /// Converts scale / s and offset / s to fixed point.
  template <Format F>
  MOE_INLINE static FixedPoint of(__m512 scale, __m512 offset) {
    using Range = CodeRange<F>;
    auto constant = [](int value) { return _mm512_set1_ps(float(value)); };
    __m512i factor =
        _mm512_cvtps_epi32(_mm512_mul_ps(scale, constant(Range::kFactor)));
    __m512 start =
        _mm512_fmadd_ps(scale, constant(Range::kMiddle - Range::kZero), offset);
    // This includes one half, so that a shift rounds to nearest.
    __m512i sum = _mm512_cvtps_epi32(_mm512_fmadd_ps(
        start, constant(Range::kUnit), constant(Range::kUnit / 2)));
    if constexpr (Range::kMiddle != 0)
      sum = _mm512_sub_epi32(
          sum, _mm512_mullo_epi16(factor, _mm512_set1_epi32(Range::kMiddle)));
    return {bothHalves(factor), bothHalves(sum)};
  }
};

/// Converts four columns of 16 rows.
template <Format F>
MOE_INLINE __m512i requantize(__m512i codes, FixedPoint by) {
  using Range = CodeRange<F>;
  __m512i low = _mm512_set1_epi16(0xff), even, odd;
  if constexpr (Range::kIsSmall) {
    even = _mm512_mullo_epi16(_mm512_and_si512(codes, low), by.factor);
    odd = _mm512_mullo_epi16(_mm512_srli_epi16(codes, 8), by.factor);
    even = _mm512_srli_epi16(_mm512_add_epi16(even, by.start), 8);
    odd = _mm512_add_epi16(odd, by.start);
  } else {
    if constexpr (Range::kIsSigned)
      codes = _mm512_xor_si512(codes, _mm512_set1_epi8(char(0x80)));
    // A shift by 8 or more removes the odd columns.
    static_assert(Range::kShift >= 8);
    even = _mm512_slli_epi16(codes, Range::kShift);
    odd = _mm512_slli_epi16(_mm512_andnot_si512(low, codes), Range::kShift - 8);
    even = _mm512_add_epi16(_mm512_mulhrs_epi16(even, by.factor), by.start);
    odd = _mm512_add_epi16(_mm512_mulhrs_epi16(odd, by.factor), by.start);
    even = _mm512_srai_epi16(even, 6);
    odd = _mm512_slli_epi16(odd, 2);
  }
  // Selects low ? even : odd.
  return _mm512_ternarylogic_epi32(low, even, odd, 0xca);
}

/// Converts columns [col, col + count) of the panel of 16 rows at `panel`; the
/// rest of the last tile becomes zero. `count` is at most kBlockCols and a
/// multiple of the format's block.
template <Format F>
void requantizeBlock(const uint8_t *panel, int64_t col, int64_t count,
                     WeightBlock &out) {
  using Tile = avx512::Rows16Tile<F>;
  using Range = CodeRange<F>;
  constexpr int kSubs = kBlockCols / Tile::kSub;
  constexpr int kOffsets = Tile::kOffsetSub ? kSubs : 1;
  static_assert(!Tile::kOffsetSub || Tile::kOffsetSub == Tile::kSub);
  alignas(64) float scale[kSubs][16], offset[kOffsets][16];
  const uint8_t *tiles = panel + col / Tile::kCols * Tile::kBytes;
  int64_t subs = count / Tile::kSub;
  for (int64_t i = 0; i < count / Tile::kCols; ++i)
    readScales<F>(tiles + i * Tile::kBytes, scale[i * Tile::kScales],
                  offset[i * Tile::kOffsets]);

  auto offsetOf = [&](int64_t i) {
    if constexpr (Tile::kOffsetSub == 0)
      return _mm512_setzero_ps();
    else
      return _mm512_mul_ps(_mm512_load_ps(offset[i]),
                           _mm512_set1_ps(float(Tile::kOffsetSign)));
  };
  // A maximum drops NaN, so `broken` collects it: it becomes NaN with any
  // scale.
  __m512 bound = _mm512_setzero_ps(), broken = _mm512_setzero_ps();
  for (int64_t i = 0; i < subs; ++i) {
    __m512 each = _mm512_load_ps(scale[i]), more = offsetOf(i);
    __m512 low = _mm512_fmadd_ps(each, _mm512_set1_ps(Range::kLow), more);
    __m512 high = _mm512_fmadd_ps(each, _mm512_set1_ps(Range::kHigh), more);
    bound = _mm512_max_ps(
        bound, _mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    broken =
        _mm512_fmadd_ps(_mm512_add_ps(low, high), _mm512_setzero_ps(), broken);
  }
  // Rows of zeros, or of numbers whose inverse would overflow, become zero.
  __mmask16 some =
      _mm512_cmp_ps_mask(bound, _mm512_set1_ps(1e-36f), _CMP_GE_OQ);
  __m512 inverse = _mm512_maskz_div_ps(some, _mm512_set1_ps(127), bound);
  _mm512_store_ps(out.scale,
                  _mm512_add_ps(broken, _mm512_maskz_div_ps(
                                            some, bound, _mm512_set1_ps(127))));

  auto fixedPoint = [&](int64_t i) {
    return FixedPoint::of<F>(_mm512_mul_ps(_mm512_load_ps(scale[i]), inverse),
                             _mm512_mul_ps(offsetOf(i), inverse));
  };
  uint8_t *to = out.tiles[0][0];
  constexpr int kParts = Tile::kCols / 32;
  for (int64_t part = 0; part < count / 32; ++part) {
    __m512i q[8];
    Tile::codes(tiles + part / kParts * Tile::kBytes, int(part % kParts), q);
    // Number of groups of four columns with the same scale.
    constexpr int kAlike = Tile::kSub < 32 ? Tile::kSub / 4 : 8;
#pragma GCC unroll 2
    for (int first = 0; first < 8; first += kAlike) {
      FixedPoint by = fixedPoint((32 * part + 4 * first) / Tile::kSub);
#pragma GCC unroll 8
      for (int g = first; g < first + kAlike; ++g)
        _mm512_store_si512(to + (8 * part + g) * kTileRowBytes,
                           requantize<F>(q[g], by));
    }
  }
  for (int64_t g = count / 4; g % kTileRows != 0; ++g)
    _mm512_store_si512(to + g * kTileRowBytes, _mm512_setzero_si512());
}

} // namespace
} // namespace moek::amx

#endif // MOE_KERNELS_CPU_AMX_REQUANTIZE_H
