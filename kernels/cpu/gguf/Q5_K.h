//===- Q5_K.h - Unpacks Q5_K blocks to vectors ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_GGUF_Q5_K_H
#define MOE_KERNELS_CPU_GGUF_Q5_K_H

#include "kernels/cpu/gguf/KScales.h"

#ifdef __AVX512F__
namespace moek::avx512 {
namespace {

template <> struct SuperBlock<Format::Q5_K> : KScales256<BlockQ5_K> {
  MOE_INLINE static void codes(const BlockQ5_K *block, __m512i q[4]) {
    __m512i high = twice(block->high);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m512i low = _mm512_and_si512(
          _mm512_srlv_epi16(twice(block->low + 32 * v), halves16(0, 4)),
          _mm512_set1_epi8(15));
      // Columns of sub-blocks 2v and 2v + 1: bits 2v and 2v + 1 go to bit 4.
      __m512i fifth = _mm512_rolv_epi32(high, halves32(4 - 2 * v, 3 - 2 * v));
      q[v] = andOr(fifth, _mm512_set1_epi8(16), low);
    }
  }
};

} // namespace
} // namespace moek::avx512
#else
namespace moek::MOE_ISA {
namespace {

template <> struct SuperBlock<Format::Q5_K> : KScales256<BlockQ5_K> {
  MOE_INLINE static Ints codes(const BlockQ5_K *block, int v) {
    Ints low = bitAnd(shiftRight16(load256(block->low + v / 2 * 32), v % 2 * 4),
                      set8(15));
    // Bit v becomes bit 4.
    Ints high = load256(block->high);
    high = v < 4 ? shiftLeft16(high, 4 - v) : shiftRight16(high, v - 4);
    return bitOr(low, bitAnd(high, set8(16)));
  }
};

} // namespace
} // namespace moek::MOE_ISA
#endif

#endif // MOE_KERNELS_CPU_GGUF_Q5_K_H
