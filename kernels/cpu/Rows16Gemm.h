//===- Rows16Gemm.h - Gemms of quantised interleaved rows -------*- C++ -*-===//
//
// The common structure of the gemms on interleaved rows
// (kernels/quant/Rows16.h) and A8 tokens. All that depends on the instruction
// set is in its struct I (avx2/Gemms.h, avx512/Gemms.h):
//
//   Simd, Tile<F>            vector trait; a tile's values and scales
//   dotTile<F, T>(tile, tokens, block, sums)
//                            adds the products of a tile's columns; `block` is
//                            the index of the tokens' A8 block
//   rows16PanelBlock<F>(...) at most kPanelRows rows by kPanelTokens tokens
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_ROWS16GEMM_H
#define MOE_KERNELS_CPU_ROWS16GEMM_H

#include "kernels/cpu/GemmTiling.h"
#include "kernels/cpu/Rows16Traits.h"

namespace moek {
namespace {

constexpr int kDotTokens = 4;

/// Stores the sums of 16 rows, of which `rows` exist.
template <class S>
MOE_INLINE void storeRows(float *out, int64_t rows,
                          const typename S::Vec *sums) {
#pragma GCC unroll 2
  for (int v = 0; v < int(kRows16) / S::kWidth; ++v)
    S::storeFirst(out + v * S::kWidth, sums[v], rows - v * S::kWidth);
}

/// Multiplies G panels, which contain `rows` rows, with T tokens: tiles are
/// read once, in memory order.
template <class I, Format F, int G, int T>
MOE_INLINE void dotPanels(const uint8_t *w, int64_t wStride, int64_t rows,
                          const A8Row x[T], int64_t cols, float *out,
                          int64_t outStride) {
  using S = typename I::Simd;
  using Tile = typename I::template Tile<F>;
  constexpr int kVecs = int(kRows16) / S::kWidth;
  typename S::Vec sums[G][kVecs][T];
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v)
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        sums[g][v][t] = S::zero();
  for (int64_t col = 0; col < cols; col += Tile::kCols, w += Tile::kBytes) {
#pragma GCC unroll 2
    for (int g = 0; g < G; ++g)
      I::template dotTile<F, T>(w + g * kRows16 * wStride, x, col / 32,
                                sums[g]);
  }
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      typename S::Vec all[kVecs];
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v)
        all[v] = sums[g][v][t];
      storeRows<S>(out + t * outStride + g * kRows16, rows - g * kRows16, all);
    }
}

template <class I, Format F, int T>
void dotTokens(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t cols, float *out,
               int64_t outStride) {
  A8Row x[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t)
    x[t] = a8Row(act[t], cols);
  forStreams(rows, wStride, [&](auto panels, int64_t r) {
    dotPanels<I, F, panels, T>(w + r * wStride, wStride, rows - r, x, cols,
                               out + r, outStride);
  });
}

/// `PanelTokens` is the number of tokens from which on it is cheaper to store
/// an expanded panel and load it for each tile of tokens than to unpack the
/// weights again per kDotTokens tokens (after the first time from a cache).
template <class I, Format F, int64_t PanelTokens>
void rows16Gemm(const uint8_t *w, int64_t wStride, int64_t rows,
                const uint8_t *const *act, int64_t tokens, int64_t cols,
                float *out, int64_t outStride) {
  if (tokens >= PanelTokens)
    return forBlocks(
        rows, tokens,
        [&](int64_t r, int64_t rowCount, int64_t t, int64_t tokenCount) {
          I::template rows16PanelBlock<F>(w + r * wStride, wStride, rowCount,
                                          act + t, tokenCount, cols,
                                          out + t * outStride + r, outStride);
        });
  forTokenTiles<kDotTokens>(tokens, [&](auto size, int64_t t) {
    dotTokens<I, F, size>(w, wStride, rows, act + t, cols, out + t * outStride,
                          outStride);
  });
}

} // namespace
} // namespace moek

#endif // MOE_KERNELS_CPU_ROWS16GEMM_H
