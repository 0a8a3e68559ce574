//===- Simd.h - The AVX2 trait (with FMA and F16C) --------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX2_SIMD_H
#define MOE_KERNELS_CPU_AVX2_SIMD_H

#include "kernels/cpu/Folded.h"
#include "kernels/cpu/Simd.h"

#include <immintrin.h>

namespace moek::MOE_ISA {

class Q8Products;

/// One function per format that converts `cols` elements of a row (whole
/// blocks) to floats at `out`.
struct Dequant {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  static void name(const uint8_t *row, int64_t cols, float *out);
#include "kernels/quant/Formats.def"
};

struct Simd : Folded<Simd> {
  using Vec = __m256;
  using Num = float;
  using Dequant = MOE_ISA::Dequant;
  using Q8Products = MOE_ISA::Q8Products;
  static constexpr int kWidth = 8;
  static constexpr int kDotRows = 2, kSumRows = 6, kSumVecs = 2;
  /// 12 sums, 3 keys and a query take 16 registers.
  static constexpr int kDotHeads = 4, kDotKeys = 3;
  static constexpr int kFloatTokens = 2; ///< 8 sums in 16 registers.

  MOE_INLINE static __m256i first(int lanes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  MOE_INLINE static Vec zero() { return _mm256_setzero_ps(); }
  MOE_INLINE static Vec set(float x) { return _mm256_set1_ps(x); }
  MOE_INLINE static Vec load(const float *p) { return _mm256_loadu_ps(p); }
  MOE_INLINE static Vec loadPart(const float *p, int lanes) {
    return _mm256_maskload_ps(p, first(lanes));
  }
  MOE_INLINE static void store(float *p, Vec v) { _mm256_storeu_ps(p, v); }
  MOE_INLINE static void storePart(float *p, Vec v, int lanes) {
    _mm256_maskstore_ps(p, first(lanes), v);
  }
  /// Stores the first `count` lanes: all if it is 8 or more, none if 0 or less.
  MOE_INLINE static void storeFirst(float *p, Vec v, int64_t count) {
    if (count >= kWidth)
      store(p, v);
    else
      storePart(p, v, int(count));
  }
  MOE_INLINE static Vec loadF16(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
  }
  MOE_INLINE static void storeF16(uint8_t *p, Vec v) {
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  MOE_INLINE static Vec loadBf16(const uint8_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
  }
  /// Rounds to nearest even; a NaN keeps its upper half and becomes quiet.
  MOE_INLINE static void storeBf16(uint8_t *p, Vec v) {
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(
        bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    rounded = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    __m256i packed =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(packed));
  }

  MOE_INLINE static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  MOE_INLINE static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  MOE_INLINE static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  MOE_INLINE static Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  MOE_INLINE static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  MOE_INLINE static Vec fma(Vec a, Vec b, Vec c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  MOE_INLINE static Vec fnma(Vec a, Vec b, Vec c) {
    return _mm256_fnmadd_ps(a, b, c);
  }
  MOE_INLINE static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  /// Keeps a value in its register.
  MOE_INLINE static void pin(Vec &v) { __asm__("" : "+x"(v)); }
  MOE_INLINE static Vec round(Vec x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  /// Returns 2^n for integers n in [-126, 127].
  MOE_INLINE static Vec pow2(__m256i n) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  /// Multiplies by 2^n in two factors, because n exceeds a float's exponent
  /// range.
  MOE_INLINE static Vec scale(Vec p, Vec n) {
    __m256i whole = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(whole, 1);
    return mul(mul(p, pow2(half)), pow2(_mm256_sub_epi32(whole, half)));
  }
  MOE_INLINE static Vec exp(Vec x) { return expOf<Simd>(x); }
  /// The float whose exponent bits are the lowest bits of another.
  MOE_INLINE static Vec powerOf(Vec bits) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_castps_si256(bits), 23));
  }
  MOE_INLINE static Vec exp2(Vec x) { return exp2Of<Simd>(x); }

  /// Adds lanes i and i + 4 to four partial sums.
  MOE_INLINE static __m128 fold(Vec v) {
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  }
  MOE_INLINE static float reduceMax(Vec v) {
    __m128 m =
        _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
  }

  /// Returns p[0] p[0] p[1] p[1] ...
  MOE_INLINE static Vec dupPairs(const float *p) {
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)),
                                    _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
  }
  MOE_INLINE static Vec swapPairs(Vec v) { return _mm256_permute_ps(v, 0xb1); }
  /// Computes a * b - c in even lanes and a * b + c in odd ones.
  MOE_INLINE static Vec fmaAlternate(Vec a, Vec b, Vec c) {
    return _mm256_fmaddsub_ps(a, b, c);
  }

  /// See quantizeBlocks in cpu/Elementwise.h.
  MOE_INLINE static float maxAbs32(const float *x, bool &finite) {
    const Vec sign = set(-0.0f), big = set(__builtin_inff());
    Vec m = zero(), ok = _mm256_cmp_ps(m, m, _CMP_EQ_OQ);
    for (int i = 0; i < 4; ++i) {
      Vec a = _mm256_andnot_ps(sign, load(x + 8 * i));
      ok = _mm256_and_ps(ok, _mm256_cmp_ps(a, big, _CMP_LT_OQ));
      m = _mm256_max_ps(m, a);
    }
    finite = _mm256_movemask_ps(ok) == 0xff;
    return reduceMax(m);
  }
  MOE_INLINE static void quantize32(const float *x, float inverse, int8_t *q,
                                    int16_t *sums) {
    for (int half = 0; half < 2; ++half) {
      const float *from = x + 16 * half;
      __m256i a = _mm256_cvtps_epi32(mul(load(from), set(inverse)));
      __m256i b = _mm256_cvtps_epi32(mul(load(from + 8), set(inverse)));
      __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
      _mm_storeu_si128((__m128i *)(q + 16 * half),
                       _mm_packs_epi16(_mm256_castsi256_si128(words),
                                       _mm256_extracti128_si256(words, 1)));
      __m256i pairs = _mm256_add_epi32(a, b);
      __m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairs),
                                _mm256_extracti128_si256(pairs, 1));
      s = _mm_hadd_epi32(s, s);
      sums[half] = int16_t(_mm_cvtsi128_si32(_mm_hadd_epi32(s, s)));
    }
  }
};

} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_SIMD_H
