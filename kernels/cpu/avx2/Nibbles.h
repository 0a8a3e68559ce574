//===- Nibbles.h - Codes of the 32-element 4- and 5-bit blocks --*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX2_NIBBLES_H
#define MOE_KERNELS_CPU_AVX2_NIBBLES_H

#include "kernels/cpu/avx2/Int8Common.h"

namespace moek::avx2 {
namespace {

/// The low nibbles of 16 bytes, then their high nibbles.
MOE_INLINE __m256i nibbles(const uint8_t *bytes) {
  __m128i low = load128(bytes);
  __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                         _mm_srli_epi16(low, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/// 16 where the bit of a column is set in the 4 bytes at `high`, else 0.
MOE_INLINE __m256i fifthBits(const uint8_t *high) {
  // Each byte of the word eight times, then one of its bits each.
  __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(load32(high)),
                                      _mm256_setr_epi64x(0, 0x0101010101010101,
                                                         0x0202020202020202,
                                                         0x0303030303030303));
  __m256i bit = _mm256_set1_epi64x(int64_t(0x8040201008040201));
  __m256i isSet = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
  return _mm256_and_si256(isSet, _mm256_set1_epi8(16));
}

} // namespace
} // namespace moek::avx2

#endif // MOE_KERNELS_CPU_AVX2_NIBBLES_H
