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

/// One panel times T tokens, over all columns.
template <Format F, int T>
MOE_INLINE void dotPanel(const uint8_t *panel, const A8Row *rows, int64_t cols,
                         __m512 sums[T]) {
  using Tile = Rows16Tile<F>;
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    sums[t] = _mm512_setzero_ps();
  for (int64_t col = 0; col < cols; col += Tile::kCols, panel += Tile::kBytes) {
    alignas(64) float scale[Tile::kScales][16];
    alignas(64) float offset[Tile::kOffsets + 1][16];
    Tile::template scales<1>(panel, scale[0], offset[0]);
    for (int s = 0; s < Tile::kCols / 32; ++s) {
      __m512i q[8];
      Tile::codes(panel, s, q);
      int64_t block = col / 32 + s;
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const int8_t *x = rows[t].q + 32 * block;
        const int16_t *sum = rows[t].sum + 2 * block;
        __m512 xScale = _mm512_set1_ps(rows[t].scale[block]);
        __m512 part;
        if constexpr (Tile::kSub == 32) {
          __m512i dots =
              groupDots<0, 8>(q, x, -Tile::kZero * (sum[0] + sum[1]));
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
              _mm512_set1_ps(float(Tile::kOffsetSign * (sum[0] + sum[1]))),
              part);
        if constexpr (Tile::kOffsetSub == 16) {
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h)
            part = _mm512_fmadd_ps(
                _mm512_load_ps(offset[2 * s + h]),
                _mm512_set1_ps(float(Tile::kOffsetSign * sum[h])), part);
        }
        sums[t] = _mm512_fmadd_ps(part, xScale, sums[t]);
      }
    }
  }
}

template <Format F, int T>
void dotPanels(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t cols, float *out,
               int64_t outStride) {
  A8Row x[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    x[t] = a8Row(act[t], cols);
  for (int64_t r = 0; r < rows; r += kRows16) {
    __m512 sums[T];
    dotPanel<F, T>(w + r * wStride, x, cols, sums);
    __mmask16 mask = __mmask16(rows - r >= 16 ? 0xffff : (1 << (rows - r)) - 1);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      _mm512_mask_storeu_ps(out + t * outStride + r, mask, sums[t]);
  }
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_ROWS16DOT_H
