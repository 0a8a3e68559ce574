//===- Rows16Panel.h - Interleaved tiles expanded to panels -----*- C++ -*-===//
//
// Tiles are already in the order of a panel (Int8Panel.h), so expanding one
// unpacks its codes without a transpose.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_ROWS16PANEL_H
#define MOE_KERNELS_CPU_AVX512_ROWS16PANEL_H

#include "kernels/cpu/avx512/Int8Panel.h"
#include "kernels/cpu/avx512/Rows16Tile.h"

namespace moek::avx512 {
namespace {

/// Panel traits. In Q2_K and Q3_K a code times its integer scale fits in a
/// byte: then one scale serves 32 columns instead of 16, which saves a quarter
/// of the inner loop's multiplications.
template <Format F> struct Rows16PanelTraits : Rows16Tile<F> {};

/// Index of the first of a row's four table bytes in its 128-bit lane.
MOE_INLINE __m512i rowTableIndex() {
  return _mm512_broadcast_i32x4(
      _mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
}

/// Returns the first or second 16-bit number of each pair, signed.
MOE_INLINE __m512i ofPair(__m512i pairs, int half) {
  return _mm512_srai_epi32(half ? pairs : _mm512_slli_epi32(pairs, 16), 16);
}

/// Formats with codes of two or three bits and scales of the given coding.
template <Format F, ScaleCode Code>
concept ScaledPanel =
    Rows16Traits<F>::kPairs && Rows16Traits<F>::kScaleCode == Code;

/// Codes 0 .. 3 times scales 0 .. 15.
template <Format F>
requires ScaledPanel<F, ScaleCode::NibblePairs>
struct Rows16PanelTraits<F> : Rows16Tile<F> {
  static_assert(Rows16Traits<F>::kBits == 2 && Rows16Traits<F>::kZero == 0);
  static constexpr int kSub = 32;

  MOE_INLINE static void scaleCodes(__m512i pairs, __m512i q[8]) {
    __m512i lane = rowTableIndex();
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      // Bytes {0, s, 2s, 3s} per row; four rows in a 128-bit lane.
      __m512i table =
          _mm512_mullo_epi32(ofPair(pairs, h), _mm512_set1_epi32(0x03020100));
#pragma GCC unroll 4
      for (int g = 4 * h; g < 4 * h + 4; ++g)
        q[g] = _mm512_shuffle_epi8(table, _mm512_or_si512(q[g], lane));
    }
  }
};

/// Codes -4 .. 3 times scales -32 .. 31 are -124 .. 128: zero is at 124.
template <Format F>
requires ScaledPanel<F, ScaleCode::SixBits>
struct Rows16PanelTraits<F> : Rows16Tile<F> {
  static_assert(Rows16Traits<F>::kBits == 3 && Rows16Traits<F>::kZero == 4);
  static constexpr int kSub = 32, kZero = 124;

  MOE_INLINE static void scaleCodes(__m512i pairs, __m512i q[8]) {
    __m512i lane = rowTableIndex();
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m512i scale = ofPair(pairs, h);
      // Byte c of a row's table is 124 + (c - 4) * scale. As each byte of the
      // result fits, all four can be computed as one number, with borrows
      // between bytes.
      __m512i upper = _mm512_add_epi32(
          _mm512_mullo_epi32(scale, _mm512_set1_epi32(0x03020100)),
          _mm512_set1_epi32(0x7c7c7c7c));
      __m512i lower = _mm512_sub_epi32(
          upper, _mm512_mullo_epi32(scale, _mm512_set1_epi32(0x04040404)));
#pragma GCC unroll 4
      for (int g = 4 * h; g < 4 * h + 4; ++g) {
        __mmask64 top = _mm512_test_epi8_mask(q[g], _mm512_set1_epi8(4));
        __m512i index = andOr(q[g], _mm512_set1_epi8(3), lane);
        q[g] = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(lower, index), top,
                                        upper, index);
      }
    }
  }
};

/// Expands a tile to columns [col, col + kCols) of a group.
template <Format F>
MOE_INLINE void expandTile(Panel<Rows16PanelTraits<F>> &panel, int group,
                           int64_t col, const uint8_t *tile) {
  using P = Rows16PanelTraits<F>;
  constexpr int kOffsetSub = P::kOffsetSub ? P::kOffsetSub : kPanelCols;
  float *scale = panel.scales[col / P::kSub][group];
  float *offset = panel.offsets[col / kOffsetSub][group];
  typename P::Integers integers;
  if constexpr (P::kPairs)
    P::unpack(tile, integers);
  else
    P::template scales<kPanelGroups>(tile, scale, offset);
#pragma GCC unroll 8
  for (int s = 0; s < P::kCols / 32; ++s) {
    __m512i q[8];
    P::codes(tile, s, q);
    if constexpr (P::kPairs) {
      P::scaleCodes(P::pairScales(tile, integers, s), q);
      _mm512_store_ps(scale + 16 * kPanelGroups * s, rowHalves(tile));
      if constexpr (P::kOffsetSub != 0)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h)
          _mm512_store_ps(offset + 16 * kPanelGroups * (2 * s + h),
                          _mm512_mul_ps(rowHalves(tile + 32),
                                        _mm512_cvtepi32_ps(ofPair(
                                            P::pairMinima(tile, s), h))));
    }
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g)
      _mm512_store_si512(panel.codes[col / 4 + 8 * s + g][group], q[g]);
  }
}

/// Reads interleaved panels of weights for panelBlock().
template <Format F> struct Rows16Source {
  using Traits = Rows16PanelTraits<F>;

  static void expand(Panel<Traits> &panel, int group, const uint8_t *w, int64_t,
                     int64_t, int64_t firstCol, int64_t count, NextRows &next) {
    using Tile = Rows16Tile<F>;
    const uint8_t *tile = w + firstCol / Tile::kCols * Tile::kBytes;
    for (int64_t col = 0; col < count; col += Tile::kCols) {
      next.fetch(Tile::kBytes);
      expandTile<F>(panel, group, col, tile);
      tile += Tile::kBytes;
    }
  }
};

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_ROWS16PANEL_H
