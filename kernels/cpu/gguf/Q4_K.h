//===- Q4_K.h - Unpacks Q4_K blocks to vectors ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_GGUF_Q4_K_H
#define MOE_KERNELS_CPU_GGUF_Q4_K_H

#include "kernels/cpu/gguf/KScales.h"

#ifdef __AVX512F__
namespace moek::avx512 {
namespace {

template <> struct SuperBlock<Format::Q4_K> : KScales256<BlockQ4_K> {
  MOE_INLINE static void codes(const BlockQ4_K *block, __m512i q[4]) {
    // 32 bytes hold 64 columns: the low nibbles come first, then the high
    // nibbles.
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      q[v] = _mm512_and_si512(
          _mm512_srlv_epi16(twice(block->codes + 32 * v), halves16(0, 4)),
          _mm512_set1_epi8(15));
  }
};

} // namespace
} // namespace moek::avx512
#else
namespace moek::MOE_ISA {
namespace {

template <> struct SuperBlock<Format::Q4_K> : KScales256<BlockQ4_K> {
  MOE_INLINE static Ints codes(const BlockQ4_K *block, int v) {
    Ints bytes = load256(block->codes + v / 2 * 32);
    return bitAnd(shiftRight16(bytes, v % 2 * 4), set8(15));
  }
};

} // namespace
} // namespace moek::MOE_ISA
#endif

#endif // MOE_KERNELS_CPU_GGUF_Q4_K_H
