//===- gemm_q6_k.cpp - Q6_K with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q6_K.h"

namespace moek::avx512 {
namespace {
struct Q6_K {
  using Block = BlockQ6_K;
  static constexpr int kSpan = 256, kSub = 16, kZero = 32;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE void codes(const Block *block, __m512i q[4]) {
    __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m512i low = load512(block->low + 64 * h);
      __m512i high = twice(block->high + 32 * h);
      // The quarters' high bits are bits 0, 2, 4, 6: all go to bits 4 and 5.
      __m512i first = _mm512_sllv_epi16(high, halves16(4, 2));
      __m512i second = _mm512_srlv_epi16(high, halves16(0, 2));
      q[2 * h] = andOr(first, top, _mm512_and_si512(low, nibble));
      q[2 * h + 1] = andOr(second, top,
                           _mm512_and_si512(_mm512_srli_epi16(low, 4), nibble));
    }
  }

  MOE_INLINE __m512 scales(const Block *block) {
    __m512i scales = _mm512_cvtepi8_epi32(load128(block->scales));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(scales), broadcastF16(block->d));
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q6_k_avx512, Q6_K, Q6_K)
MOE_ROWS16_GEMM(gemm_q6_k_rows16_avx512, Q6_K)
