//===- Q6_K.h - Unpacks Q6_K blocks to vectors ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_GGUF_Q6_K_H
#define MOE_KERNELS_CPU_GGUF_Q6_K_H

#include "kernels/cpu/gguf/SuperBlock.h"

#ifdef __AVX512F__
namespace moek::avx512 {
namespace {

template <> struct SuperBlock<Format::Q6_K> {
  MOE_INLINE static void codes(const BlockQ6_K *block, __m512i q[4]) {
    __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m512i low = load512(block->low + 64 * h);
      __m512i high = twice(block->high + 32 * h);
      // The high bits of the quarters are bits 0, 2, 4, 6; all move to bits 4
      // and 5.
      __m512i first = _mm512_sllv_epi16(high, halves16(4, 2));
      __m512i second = _mm512_srlv_epi16(high, halves16(0, 2));
      q[2 * h] = andOr(first, top, _mm512_and_si512(low, nibble));
      q[2 * h + 1] = andOr(second, top,
                           _mm512_and_si512(_mm512_srli_epi16(low, 4), nibble));
    }
  }

  MOE_INLINE static __m512 scales(const BlockQ6_K *block) {
    __m512i scales = _mm512_cvtepi8_epi32(load128(block->scales));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(scales), broadcastF16(block->d));
  }
};

} // namespace
} // namespace moek::avx512
#else
namespace moek::MOE_ISA {
namespace {

template <> struct SuperBlock<Format::Q6_K> {
  MOE_INLINE static Ints codes(const BlockQ6_K *block, int v) {
    int half = v / 4, k = v % 4;
    Ints low = load256(block->low + half * 64 + k % 2 * 32);
    low = bitAnd(shiftRight16(low, k / 2 * 4), set8(15));
    // Bits 2k and 2k + 1 become bits 4 and 5.
    Ints high = load256(block->high + half * 32);
    high = k < 2 ? shiftLeft16(high, 4 - 2 * k) : shiftRight16(high, 2 * k - 4);
    return bitOr(low, bitAnd(high, set8(0x30)));
  }

  MOE_INLINE static Lanes16 scales(const BlockQ6_K *block) {
    return scaledBytes(load128(block->scales), broadcastF16(block->d));
  }
};

} // namespace
} // namespace moek::MOE_ISA
#endif

#endif // MOE_KERNELS_CPU_GGUF_Q6_K_H
