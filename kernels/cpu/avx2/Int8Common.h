//===- Int8Common.h - Building blocks of AVX2 integer gemms -----*- C++ -*-===//
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_INT8COMMON_H
#define MOE_KERNELS_CPU_AVX2_INT8COMMON_H

#include "kernels/cpu/avx2/Products.h"
#include "kernels/quant/Traits.h"

namespace moek::MOE_ISA {
namespace {

/// Up to 16 numbers, one per sub-block of a super-block.
struct Lanes16 {
  __m256 low, high;
};

MOE_INLINE __m256i load256(const void *p) {
  return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}
MOE_INLINE __m128i load128(const void *p) {
  return _mm_loadu_si128(static_cast<const __m128i *>(p));
}
MOE_INLINE __m128i load64(const void *p) {
  return _mm_loadl_epi64(static_cast<const __m128i *>(p));
}
/// Broadcasts an F16 number of a block to every lane.
template <class T> MOE_INLINE __m256 broadcastF16(const T &from) {
  return _mm256_cvtph_ps(_mm_set1_epi16(load16(from)));
}

/// Returns 16 small integers times `factor`.
MOE_INLINE Lanes16 scaledBytes(__m128i signedBytes, __m256 factor) {
  __m256i low = _mm256_cvtepi8_epi32(signedBytes);
  __m256i high = _mm256_cvtepi8_epi32(_mm_srli_si128(signedBytes, 8));
  return {_mm256_mul_ps(_mm256_cvtepi32_ps(low), factor),
          _mm256_mul_ps(_mm256_cvtepi32_ps(high), factor)};
}

/// Whether codes of a format are multiplied as signed bytes: those of 8 bits,
/// if products only take codes up to 128.
template <class Block>
constexpr bool kSignedCodes = BlockTraits<Block>::kIsSigned && !kHasDots;

/// Returns the values of codes 0 .. 15 of a format, plus kZero unless they are
/// signed.
template <class Block> MOE_INLINE __m256i valuesOf(__m256i codes) {
  __m256i table = _mm256_broadcastsi128_si256(load128(Block::kValues));
  if constexpr (!kSignedCodes<Block>)
    table = _mm256_add_epi8(table, _mm256_set1_epi8(char(Block::kZero)));
  return _mm256_shuffle_epi8(table, codes);
}

/// Returns 2^(exponent - 128) of numbers 0 .. 255. The float's exponent bits
/// are one less than the number; 2^-127 and 2^-128 are denormal and have none.
MOE_INLINE __m256 exponents(__m256i numbers) {
  __m256i less = _mm256_sub_epi32(numbers, _mm256_set1_epi32(1));
  __m256i bits = _mm256_max_epi32(_mm256_slli_epi32(less, 23),
                                  _mm256_slli_epi32(numbers, 22));
  return _mm256_castsi256_ps(
      _mm256_max_epi32(bits, _mm256_set1_epi32(0x00200000)));
}

/// Returns scale(s) of blocks or sub-blocks from the lower eight of their
/// scaleBits(s).
MOE_INLINE __m256 floatScales(__m128i numbers) {
  return _mm256_mul_ps(
      _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(numbers), 7)),
      _mm256_set1_ps(kFloatsUnit));
}

/// Broadcasts d * kUnit of a block to every lane.
template <class Block> MOE_INLINE __m256 broadcastScale(const Block &block) {
  if constexpr (BlockTraits<Block>::kIsExponent)
    return exponents(_mm256_set1_epi32(block.d));
  else if constexpr (BlockTraits<Block>::kUnit != 1)
    return _mm256_mul_ps(broadcastF16(halfOf(block)),
                         _mm256_set1_ps(BlockTraits<Block>::kUnit));
  else
    return broadcastF16(block.d);
}

/// Adds pairs of neighbouring int16.
MOE_INLINE __m256i pairSums(__m256i sums16) {
  return _mm256_madd_epi16(sums16, _mm256_set1_epi16(1));
}

/// Multiplies codes with activations and adds pairs; pairSums() of the result
/// is sums of four products per int32 lane.
template <class F> MOE_INLINE __m256i products16(__m256i codes, __m256i x) {
  if constexpr (F::kMaxCode == 0)
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes),
                                _mm256_sign_epi8(x, codes));
  return _mm256_maddubs_epi16(codes, x);
}

/// Moves r[i] lane j to r[j] lane i with 24 shuffles.
MOE_INLINE void transpose8x8(__m256i r[8]) {
  __m256i t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  __m256i u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x20);
    r[4 + c] = _mm256_permute2x128_si256(u[c], u[4 + c], 0x31);
  }
}

/// Returns a mask of lanes 0 .. count - 1; an empty one if `count` is negative.
MOE_INLINE __m256i firstLanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int32_t(count < 8 ? count : 8)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_INT8COMMON_H
