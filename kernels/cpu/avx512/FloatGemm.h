//===- FloatGemm.h - Gemms of F32, F16 and BF16 weights ---------*- C++ -*-===//
//
// Weights are widened exactly, products and sums are float FMAs. A loader turns
// 16 weights into a vector:
//   kBytes           bytes per weight
//   load(p)          16 weights
//   load(p, mask)    those whose bit is set, zeros elsewhere; others unread
//
// Tile: 4 rows by up to 6 tokens, 24 sums, 4 weight vectors and one activation
// vector in 32 registers; a widened weight vector serves all tokens.
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_FLOATGEMM_H
#define MOE_KERNELS_CPU_AVX512_FLOATGEMM_H

#include "kernels/cpu/Rows16Float.h"

namespace moek::avx512 {
namespace {

template <class L, int R, int T>
void floatTile(const uint8_t *w, int64_t wStride, const uint8_t *const *act,
               int64_t cols, float *out, int64_t outStride) {
  const uint8_t *rows[R];
  const float *x[T];
  __m512 sums[R][T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
    x[t] = reinterpret_cast<const float *>(act[t]);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    rows[r] = w + r * wStride;
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      sums[r][t] = _mm512_setzero_ps();
  }
  int64_t c = 0;
  for (; c + 16 <= cols; c += 16) {
    if constexpr (R > 1)
      prefetchAhead(w, R * wStride, c / 16, R * 16 * L::kBytes);
    __m512 weights[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      weights[r] = L::load(rows[r] + c * L::kBytes);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      __m512 xs = _mm512_loadu_ps(x[t] + c);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sums[r][t] = _mm512_fmadd_ps(weights[r], xs, sums[r][t]);
    }
  }
  if (c < cols) {
    __mmask16 mask = __mmask16((1 << (cols - c)) - 1);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      __m512 weights = L::load(rows[r] + c * L::kBytes, mask);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t)
        sums[r][t] = _mm512_fmadd_ps(
            weights, _mm512_maskz_loadu_ps(mask, x[t] + c), sums[r][t]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      out[t * outStride + r] = _mm512_reduce_add_ps(sums[r][t]);
}

template <class L, int T>
void floatTokens(const uint8_t *w, int64_t wStride, int64_t rows,
                 const uint8_t *const *act, int64_t cols, float *out,
                 int64_t outStride) {
  constexpr int R = 4;
  int64_t r = 0;
  for (; r + R <= rows; r += R)
    floatTile<L, R, T>(w + r * wStride, wStride, act, cols, out + r, outStride);
  for (; r < rows; ++r)
    floatTile<L, 1, T>(w + r * wStride, wStride, act, cols, out + r, outStride);
}

template <class L>
void floatGemm(const uint8_t *w, int64_t wStride, int64_t rows,
               const uint8_t *const *act, int64_t tokens, int64_t cols,
               float *out, int64_t outStride) {
  forTokenTiles<6>(tokens, [&](auto size, int64_t t) {
    floatTokens<L, size>(w, wStride, rows, act + t, cols, out + t * outStride,
                         outStride);
  });
}

/// What Rows16Float.h needs of a vector.
struct Floats {
  using Vec = __m512;
  static constexpr int kWidth = 16;
  MOE_INLINE Vec zero() { return _mm512_setzero_ps(); }
  MOE_INLINE Vec set(float x) { return _mm512_set1_ps(x); }
  MOE_INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  MOE_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  /// The first `count` of 16.
  MOE_INLINE void store(float *p, Vec v, int64_t count) {
    _mm512_mask_storeu_ps(p, __mmask16(count >= 16 ? 0xffff : (1 << count) - 1),
                          v);
  }
};

} // namespace
} // namespace moek::avx512

/// Defines the kernel `name` from a loader in namespace moek::avx512.
#define MOE_FLOAT_GEMM(name, loader)                                           \
  MOE_DEFINE_GEMM(name, moek::avx512::floatGemm<moek::avx512::loader>)

#endif // MOE_KERNELS_CPU_AVX512_FLOATGEMM_H
