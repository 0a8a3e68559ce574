//===- Nibbles.h - Codes of the 32-element 4- and 5-bit blocks --*- C++ -*-===//
//
// Byte i of such a block holds elements i and i + 16, so a 128-bit lane of
// codes is either the low or the high nibbles of 16 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_NIBBLES_H
#define MOE_KERNELS_CPU_AVX512_NIBBLES_H

#include "kernels/cpu/avx512/Int8Common.h"

namespace moek::avx512 {
namespace {

/// Low nibbles of lanes 0 and 2, high nibbles of lanes 1 and 3.
MOE_INLINE __m512i alternatingNibbles(__m512i bytes) {
  __m512i shifts =
      _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0,
                        0x0004000400040004, 0x0004000400040004);
  return _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts),
                          _mm512_set1_epi8(15));
}

/// 64 codes from the 16 bytes of each of two blocks; 32 codes of `first` and
/// then zeros when Half.
template <bool Half>
MOE_INLINE __m512i nibbles(const uint8_t *first, const uint8_t *second) {
  if constexpr (Half)
    return alternatingNibbles(
        _mm512_zextsi256_si512(_mm256_broadcastsi128_si256(load128(first))));
  __m512i bytes = _mm512_broadcast_i32x4(load128(first));
  return alternatingNibbles(
      _mm512_mask_broadcast_i32x4(bytes, 0xff00, load128(second)));
}

/// Adds 16 to the codes whose bit is set in the blocks' `high` words.
template <bool Half>
MOE_INLINE __m512i addFifthBit(__m512i codes, const uint8_t *first,
                               const uint8_t *second) {
  uint64_t bits = uint32_t(load32(first));
  if constexpr (!Half)
    bits |= uint64_t(uint32_t(load32(second))) << 32;
  return _mm512_mask_add_epi8(codes, bits, codes, _mm512_set1_epi8(16));
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_NIBBLES_H
