//===- Int8Gemm.h - Gemms of quantised rows as in the file ------*- C++ -*-===//
//
// The common structure of the gemms on GGUF rows and A8 tokens. All that
// depends on the instruction set is in its struct I (avx2/Gemms.h,
// avx512/Gemms.h):
//
//   Simd, Gguf<F>      vector trait; a format's blocks as values and scales
//   kDotRows<T>        rows of a register tile with T tokens
//   kGroupRows         rows of a group in a panel
//   addSpan<G, R, T, Half>(rows, tokens, i, sums)
//                      adds the products of columns i * G::kSpan to
//                      (i + 1) * G::kSpan; with Half the second half is zero
//   panelBlock<F>(...) at most kPanelRows rows by kPanelTokens tokens
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_INT8GEMM_H
#define MOE_KERNELS_CPU_INT8GEMM_H

#include "kernels/cpu/GemmTiling.h"

namespace moek {
namespace {

/// R rows by T tokens, for few tokens: rows are streamed from memory, and each
/// span of columns is unpacked in registers and multiplied with every token's.
template <class I, class G, int R, int T>
void dotTile(const uint8_t *w, int64_t wStride, const uint8_t *const *act,
             int64_t cols, float *out, int64_t outStride) {
  using S = typename I::Simd;
  using Block = typename G::Block;
  constexpr int64_t kSpanBytes =
      G::kSpan / Block::kElements * int64_t(sizeof(Block));
  const Block *rows[R];
  A8Row tokens[T];
  typename S::Vec sums[R][T];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    rows[r] = reinterpret_cast<const Block *>(w + r * wStride);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      sums[r][t] = S::zero();
  }
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t)
    tokens[t] = a8Row(act[t], cols);
  int64_t spans = cols / G::kSpan;
  for (int64_t i = 0; i < spans; ++i) {
    if constexpr (R > 1)
      prefetchAhead(w, R * wStride, i, R * kSpanBytes);
    I::template addSpan<G, R, T, false>(rows, tokens, i, sums);
  }
  if constexpr (G::kSpan == 2 * Block::kElements)
    if (cols % G::kSpan)
      I::template addSpan<G, R, T, true>(rows, tokens, spans, sums);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      out[t * outStride + r] = S::sumOfLanes(sums[r][t]);
}

/// `PanelTokens` is the number of tokens from which on expanding and
/// transposing a panel costs less than unpacking the weights once per four
/// tokens.
template <class I, Format F, int64_t PanelTokens>
void int8Gemm(const uint8_t *w, int64_t wStride, int64_t rows,
              const uint8_t *const *act, int64_t tokens, int64_t cols,
              float *out, int64_t outStride) {
  if (tokens >= PanelTokens && rows > I::kGroupRows / 2)
    return forBlocks(
        rows, tokens,
        [&](int64_t r, int64_t rowCount, int64_t t, int64_t tokenCount) {
          I::template panelBlock<F>(w + r * wStride, wStride, rowCount, act + t,
                                    tokenCount, cols, out + t * outStride + r,
                                    outStride);
        });
  using G = typename I::template Gguf<F>;
  forTokenTiles<4>(tokens, [&](auto size, int64_t t) {
    float *to = out + t * outStride;
    forTileRows<I::template kDotRows<size>>(rows, [&](auto count, int64_t r) {
      dotTile<I, G, count, size>(w + r * wStride, wStride, act + t, cols,
                                 to + r, outStride);
    });
  });
}

} // namespace
} // namespace moek

#endif // MOE_KERNELS_CPU_INT8GEMM_H
