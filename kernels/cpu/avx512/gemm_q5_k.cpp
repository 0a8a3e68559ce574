//===- gemm_q5_k.cpp - Q5_K with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/KScales.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q5_K.h"

namespace moek::avx512 {
namespace {
struct Q5_K {
  using Block = BlockQ5_K;
  static constexpr int kSpan = 256, kSub = 32, kZero = 0;
  static constexpr int kOffsetSub = 32, kOffsetSign = -1;

  MOE_INLINE void codes(const Block *block, __m512i q[4]) {
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

  MOE_INLINE __m512 scales(const Block *block) { return kScales(block); }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q5_k_avx512, Q5_K, Q5_K)
MOE_ROWS16_GEMM(gemm_q5_k_rows16_avx512, Q5_K)
