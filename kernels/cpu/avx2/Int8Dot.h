//===- Int8Dot.h - Dot products of streamed rows, few tokens ----*- C++ -*-===//
//
// For 1 to 4 tokens the weights are read once, at memory speed. A vector holds
// 32 columns, and a lane sums four neighbouring ones, so the lower half of the
// lanes belongs to the first 16 columns.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_INT8DOT_H
#define MOE_KERNELS_CPU_AVX2_INT8DOT_H

#include "kernels/cpu/avx2/Gguf.h"

namespace moek::MOE_ISA {
namespace {

/// Repeats each of eight numbers, one per 32 columns: one per 16 columns.
MOE_INLINE Lanes16 eachTwice(__m256 v) {
  return {
      _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
      _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
}

/// Returns the scales of vector v of a super-block, in the lanes of their
/// columns.
template <class F> MOE_INLINE __m256 spread(const Lanes16 &scales, int v) {
  if constexpr (F::kSub == 32)
    return _mm256_permutevar8x32_ps(scales.low, _mm256_set1_epi32(v));
  int first = 2 * v % 8;
  __m256i index = _mm256_setr_epi32(first, first, first, first, first + 1,
                                    first + 1, first + 1, first + 1);
  return _mm256_permutevar8x32_ps(v < 4 ? scales.low : scales.high, index);
}

/// Returns the row's scales times the token's, for super-block i.
template <class F>
MOE_INLINE Lanes16 productScales(const Lanes16 &row, const A8Row &token,
                                 int64_t i) {
  __m256 scale = _mm256_loadu_ps(token.scale + 8 * i);
  if constexpr (F::kSub == 32)
    return {_mm256_mul_ps(row.low, scale), scale};
  Lanes16 twice = eachTwice(scale);
  return {_mm256_mul_ps(row.low, twice.low),
          _mm256_mul_ps(row.high, twice.high)};
}

/// Adds the terms of super-block i's offsets.
template <class F>
MOE_INLINE __m256 addOffsets(const Lanes16 &offsets, const A8Row &token,
                             int64_t i, __m256 sum) {
  __m256 scale = _mm256_loadu_ps(token.scale + 8 * i);
  __m256i sums = load256(token.sum + 16 * i);
  __m256i sign = _mm256_set1_epi16(F::kOffsetSign);
  if constexpr (F::kOffsetSub == 32) {
    __m256 sums32 = _mm256_cvtepi32_ps(_mm256_madd_epi16(sums, sign));
    return _mm256_fmadd_ps(offsets.low, _mm256_mul_ps(sums32, scale), sum);
  }
  sums = _mm256_mullo_epi16(sums, sign);
  Lanes16 twice = eachTwice(scale);
  __m256 low =
      _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(sums)));
  __m256 high = _mm256_cvtepi32_ps(
      _mm256_cvtepi16_epi32(_mm256_extracti128_si256(sums, 1)));
  sum = _mm256_fmadd_ps(offsets.low, _mm256_mul_ps(low, twice.low), sum);
  return _mm256_fmadd_ps(offsets.high, _mm256_mul_ps(high, twice.high), sum);
}

/// Returns the terms of kZero in dots(), which all rows share: its products
/// with activations in pairs, or what sums of four begin with.
template <class F> MOE_INLINE __m256i zeroTerms(__m256i x) {
  __m256i start = _mm256_set1_epi32(kDotStart);
  if constexpr (F::kZero == 0)
    return start;
  __m256i zeros = _mm256_set1_epi8(char(F::kZero));
  if constexpr (kHasDots)
    return _mm256_sub_epi32(start, dot4(_mm256_setzero_si256(), zeros, x));
  return _mm256_maddubs_epi16(zeros, x);
}

/// Returns sums of (codes - zero point) times activations of four columns.
template <class F>
MOE_INLINE __m256 dots(__m256i codes, __m256i x, __m256i zeros) {
  if constexpr (kHasDots)
    return floats(dot4(zeros, codes, x));
  __m256i sums = products16<F>(codes, x);
  if constexpr (F::kZero != 0)
    sums = _mm256_sub_epi16(sums, zeros);
  return floats(pairSums(sums));
}

template <class F, int R, int T>
MOE_INLINE void addSpan256(const typename F::Block *const rows[R],
                           const A8Row tokens[T], int64_t i,
                           __m256 sums[R][T]) {
  Lanes16 scales[R][T];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    Lanes16 rowScales = F::scales(rows[r] + i);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
      scales[r][t] = productScales<F>(rowScales, tokens[t], i);
    if constexpr (F::kOffsetSub != 0) {
      Lanes16 offsets = F::offsets(rows[r] + i);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t)
        sums[r][t] = addOffsets<F>(offsets, tokens[t], i, sums[r][t]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < 8; ++v) {
    __m256i codes[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      codes[r] = F::codes(rows[r] + i, v);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      __m256i x = load256(tokens[t].q + 256 * i + 32 * v);
      __m256i zeros = zeroTerms<F>(x);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sums[r][t] = _mm256_fmadd_ps(dots<F>(codes[r], x, zeros),
                                     spread<F>(scales[r][t], v), sums[r][t]);
    }
  }
}

template <class F, int R, int T>
MOE_INLINE void addSpan32(const typename F::Block *const rows[R],
                          const A8Row tokens[T], int64_t i, __m256 sums[R][T]) {
  static_assert(F::kOffsetSub == 0 || F::kOffsetSign == 1);
  __m256i codes[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    codes[r] = F::codes(rows[r] + i, 0);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    __m256i x = load256(tokens[t].q + 32 * i);
    __m256i zeros = zeroTerms<F>(x);
    __m256 scale = _mm256_set1_ps(tokens[t].scale[i]);
    __m256 laneSums = _mm256_setzero_ps();
    if constexpr (F::kOffsetSub != 0)
      laneSums = _mm256_mul_ps(
          scale, _mm256_cvtepi32_ps(
                     dot4(_mm256_setzero_si256(), _mm256_set1_epi8(1), x)));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      sums[r][t] = _mm256_fmadd_ps(
          dots<F>(codes[r], x, zeros),
          _mm256_mul_ps(broadcastScale(rows[r][i]), scale), sums[r][t]);
      if constexpr (F::kOffsetSub != 0)
        sums[r][t] =
            _mm256_fmadd_ps(broadcastF16(rows[r][i].m), laneSums, sums[r][t]);
    }
  }
}

/// Blocks of 64 columns with ScaleCode::Floats.
template <class F, int R, int T>
MOE_INLINE void addSpan64(const typename F::Block *const rows[R],
                          const A8Row tokens[T], int64_t i, __m256 sums[R][T]) {
  static_assert(F::kOffsetSub == 0);
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    __m256i codes[R];
    __m256 scales[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      codes[r] = F::codes(rows[r] + i, v);
      scales[r] = F::scales(rows[r] + i, v);
    }
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      __m256i x = load256(tokens[t].q + 64 * i + 32 * v);
      __m256i zeros = zeroTerms<F>(x);
      __m256 scale = _mm256_set1_ps(tokens[t].scale[2 * i + v]);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sums[r][t] =
            _mm256_fmadd_ps(dots<F>(codes[r], x, zeros),
                            _mm256_mul_ps(scales[r], scale), sums[r][t]);
    }
  }
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_INT8DOT_H
