//===- gemm_iq4_xs.cpp - IQ4_XS with VNNI ---------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Iq4Codes.h"
#include "kernels/cpu/avx512/Nibbles.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/IQ4_XS.h"

namespace moek::avx512 {
namespace {
struct IQ4_XS {
  using Block = BlockIQ4_XS;
  static constexpr int kSpan = 256, kSub = 32, kOffsetSub = 0, kOffsetSign = 1;
  static constexpr int kZero = 128;

  MOE_INLINE void codes(const Block *block, __m512i q[4]) {
    __m512i index = _mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m512i bytes = _mm512_castsi256_si512(load256(block->codes + 32 * v));
      q[v] =
          iq4Codes(alternatingNibbles(_mm512_permutexvar_epi64(index, bytes)));
    }
  }

  MOE_INLINE __m512 scales(const Block *block) {
    __m256i low =
        _mm256_srlv_epi32(_mm256_set1_epi32(load32(block->scalesLow)),
                          _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256i high =
        _mm256_srlv_epi32(_mm256_set1_epi32(load16(block->scalesHigh)),
                          _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    high = _mm256_and_si256(high, _mm256_set1_epi32(3));
    __m256i scale =
        _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)),
                         _mm256_set1_epi32(32));
    __m256 d = _mm512_castps512_ps256(broadcastF16(block->d));
    return _mm512_castps256_ps512(_mm256_mul_ps(_mm256_cvtepi32_ps(scale), d));
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_iq4_xs_avx512, IQ4_XS, IQ4_XS)
MOE_ROWS16_GEMM(gemm_iq4_xs_rows16_avx512, IQ4_XS)
