//===- KScales.h - Scales and minima of Q4_K and Q5_K -----------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX512_KSCALES_H
#define MOE_KERNELS_CPU_AVX512_KSCALES_H

#include "kernels/cpu/avx512/Int8Common.h"
#include "kernels/quant/KScales.h"

namespace moek::avx512 {
namespace {

/// d * scale(s) in lanes 0..7, dmin * min(s) in lanes 8..15, from the 16 bytes
/// {d, dmin, KScales} that Q4_K and Q5_K begin with.
MOE_INLINE __m512 kScales(const void *block) {
  __m128i bytes = load128(block);
  // Low parts: six bits of bytes 0-7, nibbles of bytes 8-11 (of the scales).
  __m128i low =
      _mm_shuffle_epi8(bytes, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9,
                                            10, 11, 12, 13, 14, 15));
  low = _mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4));
  low = _mm_and_si128(
      low, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
  // The top two bits of bytes 0-7 become bits 4 and 5 of entries 4-7.
  __m128i high =
      _mm_shuffle_epi8(bytes, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1,
                                            -1, -1, 8, 9, 10, 11));
  high = _mm_and_si128(_mm_srli_epi32(high, 2), _mm_set1_epi8(0x30));
  __m512 numbers =
      _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_or_si128(low, high)));
  __m512 d = _mm512_permutexvar_ps(halves32(0, 1),
                                   _mm512_castps128_ps512(_mm_cvtph_ps(bytes)));
  return _mm512_mul_ps(numbers, d);
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_KSCALES_H
