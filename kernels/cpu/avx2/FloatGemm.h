//===- FloatGemm.h - Gemms of F32, F16 and BF16 weights ---------*- C++ -*-===//
//
// Weights are widened exactly, products and sums are float FMAs. A loader turns
// 8 weights into a vector:
//   Weight      an unsigned integer of a weight's size
//   load(p)     8 weights
//
// Tile: 4 rows by 2 tokens, 8 sums, 4 weight vectors and one activation vector
// in 16 registers.
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_FLOATGEMM_H
#define MOE_KERNELS_CPU_AVX2_FLOATGEMM_H

#include "kernels/cpu/Rows16Float.h"
#include "kernels/cpu/avx2/Int8Common.h"

namespace moek::avx2 {
namespace {

/// Adds 8 columns: `p[r]` and `x[t]` point at them.
template <class L, int R, int T>
MOE_INLINE void addColumns(const uint8_t *const p[R], const float *const x[T],
                           __m256 sums[R][T]) {
  __m256 weights[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    weights[r] = L::load(p[r]);
#pragma GCC unroll 2
  for (int t = 0; t < T; ++t) {
    __m256 xs = _mm256_loadu_ps(x[t]);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sums[r][t] = _mm256_fmadd_ps(weights[r], xs, sums[r][t]);
  }
}

template <class L, int R, int T>
void floatTile(const uint8_t *w, int64_t wStride, const uint8_t *const *act,
               int64_t cols, float *out, int64_t outStride) {
  constexpr int64_t kBytes = sizeof(typename L::Weight);
  const uint8_t *rows[R];
  const float *x[T];
  __m256 sums[R][T];
#pragma GCC unroll 2
  for (int t = 0; t < T; ++t)
    x[t] = reinterpret_cast<const float *>(act[t]);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    rows[r] = w + r * wStride;
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t)
      sums[r][t] = _mm256_setzero_ps();
  }
  int64_t c = 0;
  for (; c + 8 <= cols; c += 8) {
    if constexpr (R > 1)
      prefetchAhead(w, R * wStride, c / 8, R * 8 * kBytes);
    addColumns<L, R, T>(rows, x, sums);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      rows[r] += 8 * kBytes;
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t)
      x[t] += 8;
  }
  if (c < cols) {
    // The last columns, padded with zeros.
    typename L::Weight weightTail[R][8] = {};
    float xTail[T][8] = {};
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      std::memcpy(weightTail[r], rows[r], size_t((cols - c) * kBytes));
      rows[r] = reinterpret_cast<const uint8_t *>(weightTail[r]);
    }
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) {
      std::memcpy(xTail[t], x[t], size_t(cols - c) * sizeof(float));
      x[t] = xTail[t];
    }
    addColumns<L, R, T>(rows, x, sums);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t)
      out[t * outStride + r] = sumOfLanes(sums[r][t]);
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
  forTokenTiles<2>(tokens, [&](auto size, int64_t t) {
    floatTokens<L, size>(w, wStride, rows, act + t, cols, out + t * outStride,
                         outStride);
  });
}

/// What Rows16Float.h needs of a vector.
struct Floats {
  using Vec = __m256;
  static constexpr int kWidth = 8;
  MOE_INLINE Vec zero() { return _mm256_setzero_ps(); }
  MOE_INLINE Vec set(float x) { return _mm256_set1_ps(x); }
  MOE_INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  MOE_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  /// The first `count` of 8.
  MOE_INLINE void store(float *p, Vec v, int64_t count) {
    if (count >= 8)
      _mm256_storeu_ps(p, v);
    else
      _mm256_maskstore_ps(p, firstLanes(count), v);
  }
};

} // namespace
} // namespace moek::avx2

/// Defines the kernel `name` from a loader in namespace moek::avx2.
#define MOE_FLOAT_GEMM(name, loader)                                           \
  MOE_DEFINE_GEMM(name, moek::avx2::floatGemm<moek::avx2::loader>)

#endif // MOE_KERNELS_CPU_AVX2_FLOATGEMM_H
