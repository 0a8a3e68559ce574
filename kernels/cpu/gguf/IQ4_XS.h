//===- IQ4_XS.h - Unpacks IQ4_XS blocks to vectors --------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_GGUF_IQ4_XS_H
#define MOE_KERNELS_CPU_GGUF_IQ4_XS_H

#include "kernels/cpu/gguf/SuperBlock.h"

#ifdef __AVX512F__
namespace moek::avx512 {
namespace {

/// Returns the eight scales, -32 .. 31, as int32.
MOE_INLINE __m256i integerScales(const BlockIQ4_XS *block) {
  __m256i low =
      _mm256_srlv_epi32(_mm256_set1_epi32(load32(block->scalesLow)),
                        _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  __m256i high =
      _mm256_srlv_epi32(_mm256_set1_epi32(load16(block->scalesHigh)),
                        _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
  low = _mm256_and_si256(low, _mm256_set1_epi32(15));
  high = _mm256_and_si256(high, _mm256_set1_epi32(3));
  return _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)),
                          _mm256_set1_epi32(32));
}

template <> struct SuperBlock<Format::IQ4_XS> {
  MOE_INLINE static void codes(const BlockIQ4_XS *block, __m512i q[4]) {
    __m512i index = _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m512i bytes = _mm512_castsi256_si512(load256(block->codes + 32 * v));
      q[v] = valuesOf<BlockIQ4_XS>(
          alternatingNibbles(_mm512_permutexvar_epi64(index, bytes)));
    }
  }

  MOE_INLINE static __m512 scales(const BlockIQ4_XS *block) {
    __m256 d = _mm512_castps512_ps256(broadcastF16(block->d));
    return _mm512_castps256_ps512(
        _mm256_mul_ps(_mm256_cvtepi32_ps(integerScales(block)), d));
  }
};

} // namespace
} // namespace moek::avx512
#else
namespace moek::MOE_ISA {
namespace {

template <> struct SuperBlock<Format::IQ4_XS> {
  MOE_INLINE static Ints codes(const BlockIQ4_XS *block, int v) {
    return valuesOf<BlockIQ4_XS>(nibbles(load128(block->codes + 16 * v)));
  }

  MOE_INLINE static Lanes16 scales(const BlockIQ4_XS *block) {
    Ints low = shiftRightEach32(set32(load32(block->scalesLow)),
                                list32(0, 4, 8, 12, 16, 20, 24, 28));
    Ints high = shiftRightEach32(set32(load16(block->scalesHigh)),
                                 list32(0, 2, 4, 6, 8, 10, 12, 14));
    high = shiftLeft32(bitAnd(high, set32(3)), 4);
    Ints scales = sub32(bitOr(bitAnd(low, set32(15)), high), set32(32));
    Floats lanes = Simd::mul(toFloats(scales), broadcastF16(block->d));
    return {lanes, lanes};
  }
};

} // namespace
} // namespace moek::MOE_ISA
#endif

#endif // MOE_KERNELS_CPU_GGUF_IQ4_XS_H
