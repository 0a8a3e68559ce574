//===- Int8Common.h - Building blocks of AVX-512 integer gemms --*- C++ -*-===//
//
// vpdpbusd adds four products u8 * s8 to an int32 without saturation, so codes
// up to 255 are exact. The zero point is subtracted in integers too: the
// accumulator starts at -kZero * (sum of the activations).
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_INT8COMMON_H
#define MOE_KERNELS_CPU_AVX512_INT8COMMON_H

#include "kernels/cpu/GemmTiling.h"
#include "kernels/quant/Traits.h"

#include <immintrin.h>

namespace moek::avx512 {
namespace {

MOE_INLINE __m512i load512(const void *p) { return _mm512_loadu_si512(p); }
MOE_INLINE __m256i load256(const void *p) {
  return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}
MOE_INLINE __m128i load128(const void *p) {
  return _mm_loadu_si128(static_cast<const __m128i *>(p));
}
/// Broadcasts an F16 number of a block to every lane.
template <class T> MOE_INLINE __m512 broadcastF16(const T &from) {
  return _mm512_cvtph_ps(_mm256_set1_epi16(load16(from)));
}

/// Returns the values of codes 0 .. 15 of a format, plus kZero.
template <class Block> MOE_INLINE __m512i valuesOf(__m512i codes) {
  __m512i table = _mm512_broadcast_i32x4(load128(Block::kValues));
  table = _mm512_add_epi8(table, _mm512_set1_epi8(char(Block::kZero)));
  return _mm512_shuffle_epi8(table, codes);
}

/// Returns 2^(exponent - 128) of unsigned numbers. Building the bits instead
/// would need a second case for results below the normal range.
MOE_INLINE __m512 exponents(__m512i numbers) {
  return _mm512_scalef_ps(
      _mm512_set1_ps(1),
      _mm512_sub_ps(_mm512_cvtepi32_ps(numbers), _mm512_set1_ps(128)));
}

/// Returns E4M3 numbers without a sign, divided by twice kFloatsUnit.
MOE_INLINE __m512 smallFloats(__m128i numbers) {
  return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(numbers), 7));
}
/// Returns scale(s) of sixteen blocks or sub-blocks from their scaleBits(s).
MOE_INLINE __m512 floatScales(__m128i numbers) {
  return _mm512_mul_ps(smallFloats(numbers), _mm512_set1_ps(kFloatsUnit));
}

/// Broadcasts d * kUnit of a block to every lane.
template <class Block> MOE_INLINE __m512 broadcastScale(const Block &block) {
  if constexpr (BlockTraits<Block>::kIsExponent)
    return exponents(_mm512_set1_epi32(block.d));
  else if constexpr (BlockTraits<Block>::kUnit != 1)
    return _mm512_mul_ps(broadcastF16(halfOf(block)),
                         _mm512_set1_ps(BlockTraits<Block>::kUnit));
  else
    return broadcastF16(block.d);
}

/// Returns 32 bytes in both halves.
MOE_INLINE __m512i twice(const void *p) {
  return _mm512_broadcast_i64x4(load256(p));
}

/// Returns `low` in the lower and `high` in the upper half of the lanes.
MOE_INLINE __m512i halves32(int low, int high) {
  return _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1);
}
MOE_INLINE __m512i halves16(short low, short high) {
  return _mm512_inserti64x4(_mm512_set1_epi16(low), _mm256_set1_epi16(high), 1);
}

/// (a & mask) | b.
MOE_INLINE __m512i andOr(__m512i a, __m512i mask, __m512i b) {
  return _mm512_ternarylogic_epi32(a, mask, b, 0xEA);
}

/// Moves r[i] lane j to r[j] lane i with 64 shuffles.
MOE_INLINE void transpose16x16(__m512i r[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  // r[4 i + c] now holds column c of each quarter for rows 4 i .. 4 i + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
    t[8 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0x88);
    r[8 + c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0xdd);
    r[4 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0x88);
    r[12 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0xdd);
  }
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_INT8COMMON_H
