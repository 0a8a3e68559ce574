//===- FloatGemm.h - Gemms of F32, F16 and BF16 weights ---------*- C++ -*-===//
//
// Rows are laid out as in the file. Weights are widened exactly; products and
// sums are float FMAs. A tile is 4 rows by up to kFloatTokens tokens of the
// instruction set's trait S (cpu/Simd.h): as many as fit in registers beside 4
// weight vectors and one of activations. Each widened weight vector serves all
// tokens.
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_FLOATGEMM_H
#define MOE_KERNELS_CPU_FLOATGEMM_H

#include "kernels/cpu/GemmTiling.h"
#include "kernels/cpu/Simd.h"

namespace moek {
namespace {

constexpr int kFloatRows = 4;

/// Loads a vector of weights of a float format as F32.
template <class S, Format F>
MOE_INLINE typename S::Vec loadFloats(const uint8_t *p) {
  if constexpr (F == Format::F32)
    return S::load(reinterpret_cast<const float *>(p));
  else if constexpr (F == Format::F16)
    return S::loadF16(p);
  else
    return S::loadBf16(p);
}

/// Adds the products of one vector of columns, starting at column `c`.
template <class S, Format F, int R, int T>
MOE_INLINE void addColumns(const uint8_t *const p[R], const float *const x[T],
                           int64_t c, typename S::Vec sums[R][T]) {
  constexpr int64_t kBytes = formatInfo(F).blockBytes;
  typename S::Vec weights[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    weights[r] = loadFloats<S, F>(p[r] + c * kBytes);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    typename S::Vec xs = S::load(x[t] + c);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sums[r][t] = S::fma(weights[r], xs, sums[r][t]);
  }
}

template <class S, Format F, int R, int T>
void floatTile(const uint8_t *w, int64_t wStride, const uint8_t *const *act,
               int64_t cols, float *out, int64_t outStride) {
  constexpr int64_t kBytes = formatInfo(F).blockBytes, kWidth = S::kWidth;
  const uint8_t *rows[R];
  const float *x[T];
  typename S::Vec sums[R][T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    x[t] = reinterpret_cast<const float *>(act[t]);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    rows[r] = w + r * wStride;
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      sums[r][t] = S::zero();
  }
  int64_t c = 0;
  for (; c + kWidth <= cols; c += kWidth) {
    if constexpr (R > 1)
      prefetchAhead(w, R * wStride, c / kWidth, R * kWidth * kBytes);
    addColumns<S, F, R, T>(rows, x, c, sums);
  }
  if (c < cols) {
    // The last columns, padded with zeros to a vector.
    uint8_t weightTail[R][kWidth * kBytes] = {};
    float xTail[T][kWidth] = {};
    const uint8_t *lastWeights[R];
    const float *lastX[T];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      std::memcpy(weightTail[r], rows[r] + c * kBytes,
                  size_t((cols - c) * kBytes));
      lastWeights[r] = weightTail[r];
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      std::memcpy(xTail[t], x[t] + c, size_t(cols - c) * sizeof(float));
      lastX[t] = xTail[t];
    }
    addColumns<S, F, R, T>(lastWeights, lastX, 0, sums);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      out[t * outStride + r] = S::sumOfLanes(sums[r][t]);
}

template <class S, Format F>
void floatGemm(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t tokens, int64_t cols,
               float *out, int64_t outStride) {
  forTokenTiles<S::kFloatTokens>(tokens, [&](auto size, int64_t t) {
    float *to = out + t * outStride;
    forTileRows<kFloatRows>(rows, [&](auto count, int64_t r) {
      floatTile<S, F, count, size>(w + r * wStride, wStride, act + t, cols,
                                   to + r, outStride);
    });
  });
}

} // namespace
} // namespace moek

#endif // MOE_KERNELS_CPU_FLOATGEMM_H
