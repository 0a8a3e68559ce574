//===- Rows16Dot.h - Few tokens: interleaved panels streamed ----*- C++ -*-===//
//
// A panel's tiles are read once, in the order in which they lie in memory:
// codes are unpacked in registers and multiplied with every token's broadcast
// activations, eight rows at a time. For one token, 32 columns of Q4_K are 24
// unpacking instructions, 16 vpmaddubsw and as many additions, and some 20 for
// scales and minima: 288 bytes of weights in about 22 cycles.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_ROWS16DOT_H
#define MOE_KERNELS_CPU_AVX2_ROWS16DOT_H

#include "kernels/cpu/avx2/Rows16Tile.h"

namespace moek::avx2 {
namespace {

/// A block of 32 columns: codes of 8 rows times T tokens' activations, with
/// the integer scales if there are any.
template <Format F, int T>
MOE_INLINE void blockDots(const __m256i q[8], const __m256i *scales,
                          const A8Row *rows, int64_t block,
                          const __m256i (*starts)[2], __m256i dots[T]) {
  using Tile = Rows16Tile<F>;
  constexpr int kChunk = Tile::kChunk;
  __m256i sums[T];
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      __m256i products = products16<Tile>(
          q[g], _mm256_set1_epi32(load32(rows[t].q + 32 * block + 4 * g)));
      if (g % kChunk != 0)
        sums[t] = addInOrder16(sums[t], products);
      else if constexpr (Tile::kZero != 0)
        sums[t] = addInOrder16(starts[t][g / kChunk], products);
      else
        sums[t] = products;
      if ((g + 1) % kChunk != 0)
        continue;
      __m256i wide = _mm256_madd_epi16(sums[t], scales[g * 4 / Tile::kSub]);
      dots[t] = g + 1 == kChunk ? wide : addInOrder32(dots[t], wide);
    }
  }
}

/// One tile times T tokens; `block` counts the tokens' blocks of 32 columns.
template <Format F, int T>
MOE_INLINE void dotTile(const uint8_t *tile, const A8Row *rows, int64_t block,
                        __m256 sums[T][2]) {
  using Tile = Rows16Tile<F>;
  constexpr int kSubs = 32 / Tile::kSub;
  constexpr int kOffsetSubs = Tile::kOffsetSub ? 32 / Tile::kOffsetSub : 0;
  typename Tile::Integers integers;
  __m256 parts[T][2], minima[T][2];
  if constexpr (Tile::kSuper) {
    Tile::unpack(tile, integers);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      parts[t][0] = parts[t][1] = minima[t][0] = minima[t][1] =
          _mm256_setzero_ps();
  }
#pragma GCC unroll 1
  for (int s = 0; s < Tile::kCols / 32; ++s, ++block) {
    prefetchStream<Tile::kPartBytes>(tile + s * Tile::kPartBytes);
    __m256i starts[T][2];
    __m256 xScale[T], xSums[T][2];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      if constexpr (Tile::kZero != 0) {
        __m256i both =
            laneStarts<Tile::kZero, Tile::kSub>(rows[t].q + 32 * block);
        starts[t][0] =
            Tile::kSub == 32 ? both : _mm256_permute4x64_epi64(both, 0x44);
        starts[t][1] = _mm256_permute4x64_epi64(both, 0xee);
      }
      float scale = rows[t].scale[block];
      xScale[t] = _mm256_set1_ps(scale);
      const int16_t *sum = rows[t].sum + 2 * block;
#pragma GCC unroll 2
      for (int i = 0; i < kOffsetSubs; ++i)
        xSums[t][i] = _mm256_set1_ps(
            scale * float(kOffsetSubs == 1 ? sum[0] + sum[1] : sum[i]));
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i q[8], scales[kSubs], dots[T];
      Tile::codes(tile, s, half, q);
#pragma GCC unroll 2
      for (int i = 0; i < kSubs; ++i)
        scales[i] = Tile::kSuper
                        ? Tile::scale(tile, integers, kSubs * s + i, half)
                        : _mm256_set1_epi16(1);
      blockDots<F, T>(q, scales, rows, block, starts, dots);
      if constexpr (Tile::kSuper) {
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t)
          parts[t][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t]),
                                           xScale[t], parts[t][half]);
#pragma GCC unroll 2
        for (int i = 0; i < kOffsetSubs; ++i) {
          __m256 minimum = Tile::minimum(integers, kOffsetSubs * s + i, half);
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t)
            minima[t][half] =
                _mm256_fmadd_ps(minimum, xSums[t][i], minima[t][half]);
        }
        continue;
      }
      __m256 d = Tile::factor(tile, 0, half);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        sums[t][half] =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t]),
                            _mm256_mul_ps(d, xScale[t]), sums[t][half]);
        if constexpr (kOffsetSubs != 0)
          sums[t][half] = _mm256_fmadd_ps(Tile::factor(tile, 1, half),
                                          xSums[t][0], sums[t][half]);
      }
    }
  }
  if constexpr (Tile::kSuper)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        sums[t][half] = _mm256_fmadd_ps(Tile::factor(tile, 0, half),
                                        parts[t][half], sums[t][half]);
        if constexpr (kOffsetSubs != 0)
          sums[t][half] = _mm256_fnmadd_ps(Tile::factor(tile, 1, half),
                                           minima[t][half], sums[t][half]);
      }
}

/// Stores 16 rows' sums, of which there are `rows`.
MOE_INLINE void storeRows(float *out, int64_t rows, const __m256 sums[2]) {
  if (rows >= 16) {
    _mm256_storeu_ps(out, sums[0]);
    _mm256_storeu_ps(out + 8, sums[1]);
    return;
  }
  _mm256_maskstore_ps(out, firstLanes(rows), sums[0]);
  _mm256_maskstore_ps(out + 8, firstLanes(rows - 8), sums[1]);
}

/// G panels, in which there are `rows` rows, times T tokens.
template <Format F, int G, int T>
MOE_INLINE void dotPanels(const uint8_t *w, int64_t wStride, int64_t rows,
                          const A8Row x[T], int64_t cols, float *out,
                          int64_t outStride) {
  using Tile = Rows16Tile<F>;
  __m256 sums[G][T][2];
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      sums[g][t][0] = sums[g][t][1] = _mm256_setzero_ps();
  for (int64_t col = 0; col < cols; col += Tile::kCols, w += Tile::kBytes) {
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g)
      dotTile<F, T>(w + g * kRows16 * wStride, x, col / 32, sums[g]);
  }
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      storeRows(out + t * outStride + g * kRows16, rows - g * kRows16,
                sums[g][t]);
}

template <Format F, int T>
void dotTokens(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t cols, float *out,
               int64_t outStride) {
  A8Row x[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t)
    x[t] = a8Row(act[t], cols);
  forStreams(rows, wStride, [&](auto panels, int64_t r) {
    dotPanels<F, panels, T>(w + r * wStride, wStride, rows - r, x, cols,
                            out + r, outStride);
  });
}

} // namespace
} // namespace moek::avx2

#endif // MOE_KERNELS_CPU_AVX2_ROWS16DOT_H
