//===- Rows16Dot.h - Few tokens: interleaved panels streamed ----*- C++ -*-===//
//
// A panel's tiles are read once, in the order in which they lie in memory:
// codes are unpacked in registers and multiplied with every token's broadcast
// activations. A 32-column part of a 4-bit format is four loads, 12 unpacking
// instructions and, per token, eight vpdpbusd and three multiply-adds for 288
// bytes of weights: some 25 bytes per cycle for one token, more than a core
// gets from memory.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_ROWS16DOT_H
#define MOE_KERNELS_CPU_AVX512_ROWS16DOT_H

#include "kernels/cpu/avx512/Rows16Tile.h"

namespace moek::avx512 {
namespace {

/// Codes times activations of groups [First, First + Count), `start` added.
template <int First, int Count>
MOE_INLINE __m512i groupDots(const __m512i *q, const int8_t *x, int32_t start) {
  // Two chains: one would wait for itself.
  __m512i even = _mm512_set1_epi32(start), odd = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int g = First; g < First + Count; g += 2) {
    even =
        _mm512_dpbusd_epi32(even, q[g], _mm512_set1_epi32(load32(x + 4 * g)));
    odd = _mm512_dpbusd_epi32(odd, q[g + 1],
                              _mm512_set1_epi32(load32(x + 4 * g + 4)));
  }
  return _mm512_add_epi32(even, odd);
}

/// Columns of a tile by scale vectors.
template <Format F, int T>
MOE_INLINE void dotTile(const uint8_t *tile, const A8Row *rows, int64_t block,
                        __m512 sums[T]) {
  using Tile = Rows16Tile<F>;
  alignas(64) float scale[Tile::kScales][16];
  alignas(64) float offset[Tile::kOffsets + 1][16];
  Tile::template scales<1>(tile, scale[0], offset[0]);
  for (int s = 0; s < Tile::kCols / 32; ++s, ++block) {
    prefetchStream<Tile::kPartBytes>(tile + s * Tile::kPartBytes);
    __m512i q[8];
    Tile::codes(tile, s, q);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const int8_t *x = rows[t].q + 32 * block;
      const int16_t *sum = rows[t].sum + 2 * block;
      __m512 part;
      if constexpr (Tile::kSub == 32) {
        __m512i dots = groupDots<0, 8>(q, x, -Tile::kZero * (sum[0] + sum[1]));
        part =
            _mm512_mul_ps(_mm512_cvtepi32_ps(dots), _mm512_load_ps(scale[s]));
      } else {
        __m512i first = groupDots<0, 4>(q, x, -Tile::kZero * sum[0]);
        __m512i second = groupDots<4, 4>(q, x, -Tile::kZero * sum[1]);
        part = _mm512_mul_ps(_mm512_cvtepi32_ps(first),
                             _mm512_load_ps(scale[2 * s]));
        part = _mm512_fmadd_ps(_mm512_cvtepi32_ps(second),
                               _mm512_load_ps(scale[2 * s + 1]), part);
      }
      if constexpr (Tile::kOffsetSub == 32)
        part = _mm512_fmadd_ps(
            _mm512_load_ps(offset[s]),
            _mm512_set1_ps(float(Tile::kOffsetSign * (sum[0] + sum[1]))), part);
      sums[t] =
          _mm512_fmadd_ps(part, _mm512_set1_ps(rows[t].scale[block]), sums[t]);
    }
  }
}

/// Columns of a tile of which vpmaddwd multiplies pairs of 16.
template <Format F, int T>
MOE_INLINE void dotPairTile(const uint8_t *tile, const A8Row *rows,
                            int64_t block, __m512 sums[T]) {
  using Tile = Rows16Tile<F>;
  constexpr bool kMinima = Tile::kOffsetSub != 0;
  __m512i scale[8];
  Tile::pairScales(tile, scale);
  __m512 parts[T], minima[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    parts[t] = minima[t] = _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s, ++block) {
    prefetchStream<Tile::kPartBytes>(tile + s * Tile::kPartBytes);
    __m512i q[8];
    Tile::codes(tile, s, q);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const int8_t *x = rows[t].q + 32 * block;
      __m512i xSums = _mm512_set1_epi32(load32(rows[t].sum + 2 * block));
      __m512 xScale = _mm512_set1_ps(rows[t].scale[block]);
      __m512i first = groupDots<0, 4>(q, x, 0);
      __m512i second = groupDots<4, 4>(q, x, 0);
      __m512i pairs = _mm512_mask_blend_epi16(0xaaaaaaaa, first,
                                              _mm512_slli_epi32(second, 16));
      if constexpr (Tile::kZero != 0) {
        static_assert(Tile::kZero == 4);
        pairs = _mm512_sub_epi16(pairs, _mm512_slli_epi16(xSums, 2));
      }
      parts[t] = _mm512_fmadd_ps(
          _mm512_cvtepi32_ps(_mm512_madd_epi16(pairs, scale[s])), xScale,
          parts[t]);
      if constexpr (kMinima)
        minima[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_madd_epi16(
                                        Tile::pairMinima(tile, s), xSums)),
                                    xScale, minima[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    sums[t] = _mm512_fmadd_ps(rowHalves(tile), parts[t], sums[t]);
    if constexpr (kMinima)
      sums[t] = _mm512_fnmadd_ps(rowHalves(tile + 32), minima[t], sums[t]);
  }
}

/// G panels, in which there are `rows` rows, times T tokens.
template <Format F, int G, int T>
MOE_INLINE void dotPanels(const uint8_t *w, int64_t wStride, int64_t rows,
                          const A8Row x[T], int64_t cols, float *out,
                          int64_t outStride) {
  using Tile = Rows16Tile<F>;
  __m512 sums[G][T];
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      sums[g][t] = _mm512_setzero_ps();
  for (int64_t col = 0; col < cols; col += Tile::kCols, w += Tile::kBytes) {
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g) {
      const uint8_t *tile = w + g * kRows16 * wStride;
      if constexpr (Tile::kPairs)
        dotPairTile<F, T>(tile, x, col / 32, sums[g]);
      else
        dotTile<F, T>(tile, x, col / 32, sums[g]);
    }
  }
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g) {
    int64_t left = rows - g * kRows16;
    __mmask16 mask = __mmask16(left >= 16 ? 0xffff : (1 << left) - 1);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      _mm512_mask_storeu_ps(out + t * outStride + g * kRows16, mask,
                            sums[g][t]);
  }
}

template <Format F, int T>
void dotTokens(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t cols, float *out,
               int64_t outStride) {
  A8Row x[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    x[t] = a8Row(act[t], cols);
  forStreams(rows, wStride, [&](auto panels, int64_t r) {
    dotPanels<F, panels, T>(w + r * wStride, wStride, rows - r, x, cols,
                            out + r, outStride);
  });
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_ROWS16DOT_H
