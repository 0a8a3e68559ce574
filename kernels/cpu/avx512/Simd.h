//===- Simd.h - The AVX-512 trait -------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX512_SIMD_H
#define MOE_KERNELS_CPU_AVX512_SIMD_H

#include "kernels/cpu/Folded.h"
#include "kernels/cpu/Simd.h"

#include <immintrin.h>

namespace moek::avx512 {

class Q8Products;

/// One function per format that converts `cols` elements of a row (whole
/// blocks) to floats at `out`.
struct Dequant {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  static void name(const uint8_t *row, int64_t cols, float *out);
#include "kernels/quant/Formats.def"
};

struct Simd : Folded<Simd> {
  using Vec = __m512;
  using Num = float;
  using Dequant = avx512::Dequant;
  using Q8Products = avx512::Q8Products;
  static constexpr int kWidth = 16;
  static constexpr int kDotRows = 4, kSumRows = 4, kSumVecs = 4;
  /// 24 sums, 3 keys and a query take 28 of 32 registers. A key is converted
  /// once for 8 heads, because that takes the ports of multiply-adds.
  static constexpr int kDotHeads = 8, kDotKeys = 3;
  static constexpr int kFloatTokens = 6; ///< 24 sums in 32 registers.

  MOE_INLINE static __mmask16 first(int lanes) {
    return __mmask16((1u << lanes) - 1);
  }
  MOE_INLINE static Vec zero() { return _mm512_setzero_ps(); }
  MOE_INLINE static Vec set(float x) { return _mm512_set1_ps(x); }
  MOE_INLINE static Vec load(const float *p) { return _mm512_loadu_ps(p); }
  MOE_INLINE static Vec loadPart(const float *p, int lanes) {
    return _mm512_maskz_loadu_ps(first(lanes), p);
  }
  MOE_INLINE static void store(float *p, Vec v) { _mm512_storeu_ps(p, v); }
  MOE_INLINE static void storePart(float *p, Vec v, int lanes) {
    _mm512_mask_storeu_ps(p, first(lanes), v);
  }
  /// Stores the first `count` lanes: all if it is 16 or more.
  MOE_INLINE static void storeFirst(float *p, Vec v, int64_t count) {
    storePart(p, v, count >= kWidth ? kWidth : int(count));
  }
  MOE_INLINE static Vec loadF16(const uint8_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
  }
  MOE_INLINE static void storeF16(uint8_t *p, Vec v) {
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  MOE_INLINE static Vec loadBf16(const uint8_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
  }
  /// Rounds to nearest even; a NaN keeps its upper half and becomes quiet.
  MOE_INLINE static void storeBf16(uint8_t *p, Vec v) {
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd =
        _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(
        bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    rounded =
        _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)p,
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }

  MOE_INLINE static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  MOE_INLINE static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  MOE_INLINE static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  MOE_INLINE static Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  MOE_INLINE static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  MOE_INLINE static Vec fma(Vec a, Vec b, Vec c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  MOE_INLINE static Vec fnma(Vec a, Vec b, Vec c) {
    return _mm512_fnmadd_ps(a, b, c);
  }
  MOE_INLINE static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  /// Keeps a value in its register.
  MOE_INLINE static void pin(Vec &v) { __asm__("" : "+v"(v)); }
  MOE_INLINE static Vec round(Vec x) {
    return _mm512_roundscale_ps(x,
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  MOE_INLINE static Vec scale(Vec p, Vec n) { return _mm512_scalef_ps(p, n); }
  MOE_INLINE static Vec exp(Vec x) { return expOf<Simd>(x); }
  /// See avx2/Simd.h.
  MOE_INLINE static Vec powerOf(Vec bits) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_castps_si512(bits), 23));
  }
  MOE_INLINE static Vec exp2(Vec x) { return exp2Of<Simd>(x); }

  /// Adds lanes i, i + 4, i + 8 and i + 12 to four partial sums.
  MOE_INLINE static __m128 fold(Vec v) {
    __m256 half =
        _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half),
                      _mm256_extractf128_ps(half, 1));
  }
  using Folded<Simd>::reduceAdd4;
  /// Four rows of four vectors at a time, which takes half as many shuffles as
  /// row by row. The order of each sum is that of reduceAdd().
  MOE_INLINE static void reduceAdd4(const Vec (&v)[4][4], float scale,
                                    float *out, int64_t stride) {
    Vec folded[4]; // For column c: four partial sums for each of four rows.
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c)
      folded[c] =
          foldFour(foldTwo(v[0][c], v[1][c]), foldTwo(v[2][c], v[3][c]));
    const Vec sums =
        _mm512_mul_ps(addNeighbours(addNeighbours(folded[0], folded[1]),
                                    addNeighbours(folded[2], folded[3])),
                      set(scale));
    _mm_storeu_ps(out, _mm512_castps512_ps128(sums));
    _mm_storeu_ps(out + stride, _mm512_extractf32x4_ps(sums, 1));
    _mm_storeu_ps(out + 2 * stride, _mm512_extractf32x4_ps(sums, 2));
    _mm_storeu_ps(out + 3 * stride, _mm512_extractf32x4_ps(sums, 3));
  }
  MOE_INLINE static float reduceMax(Vec v) { return _mm512_reduce_max_ps(v); }

  /// Returns p[0] p[0] p[1] p[1] ...
  MOE_INLINE static Vec dupPairs(const float *p) {
    const __m512i index =
        _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(index,
                                 _mm512_castps256_ps512(_mm256_loadu_ps(p)));
  }
  MOE_INLINE static Vec swapPairs(Vec v) { return _mm512_permute_ps(v, 0xb1); }
  /// Computes a * b - c in even lanes and a * b + c in odd ones.
  MOE_INLINE static Vec fmaAlternate(Vec a, Vec b, Vec c) {
    return _mm512_fmaddsub_ps(a, b, c);
  }

  /// See quantizeBlocks in cpu/Elementwise.h.
  MOE_INLINE static float maxAbs32(const float *x, bool &finite) {
    __m512 a = _mm512_abs_ps(load(x)), b = _mm512_abs_ps(load(x + 16));
    __m512 big = _mm512_set1_ps(__builtin_inff());
    finite = (_mm512_cmp_ps_mask(a, big, _CMP_LT_OQ) &
              _mm512_cmp_ps_mask(b, big, _CMP_LT_OQ)) == 0xffff;
    return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
  }
  MOE_INLINE static void quantize32(const float *x, float inverse, int8_t *q,
                                    int16_t *sums) {
    for (int half = 0; half < 2; ++half) {
      __m512i v = _mm512_cvtps_epi32(mul(load(x + 16 * half), set(inverse)));
      _mm_storeu_si128((__m128i *)(q + 16 * half), _mm512_cvtepi32_epi8(v));
      sums[half] = int16_t(_mm512_reduce_add_epi32(v));
    }
  }

private:
  /// Adds the halves of two vectors: [a, a, b, b] in parts of four lanes.
  MOE_INLINE static Vec foldTwo(Vec a, Vec b) {
    return add(_mm512_shuffle_f32x4(a, b, 0x44),
               _mm512_shuffle_f32x4(a, b, 0xee));
  }
  /// Adds the parts of those: [a, b, c, d], each as fold() of that vector.
  MOE_INLINE static Vec foldFour(Vec ab, Vec cd) {
    return add(_mm512_shuffle_f32x4(ab, cd, 0x88),
               _mm512_shuffle_f32x4(ab, cd, 0xdd));
  }
  /// Does what _mm_hadd_ps does, in each part of four lanes.
  MOE_INLINE static Vec addNeighbours(Vec a, Vec b) {
    return add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
  }
};

} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_SIMD_H
