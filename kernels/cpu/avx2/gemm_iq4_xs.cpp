//===- gemm_iq4_xs.cpp - IQ4_XS with AVX2 ---------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Iq4Codes.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/IQ4_XS.h"

namespace moek::avx2 {
namespace {
struct IQ4_XS {
  using Block = BlockIQ4_XS;
  static constexpr int kSpan = 256, kSub = 32, kMaxCode = 0, kZero = 0;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int v) {
    return iq4Codes(block->codes + 16 * v);
  }

  MOE_INLINE Lanes16 scales(const Block *block) {
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
    __m256 lanes =
        _mm256_mul_ps(_mm256_cvtepi32_ps(scale), broadcastF16(block->d));
    return {lanes, lanes};
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_iq4_xs_avx2, IQ4_XS)
MOE_ROWS16_GEMM(gemm_iq4_xs_rows16_avx2, IQ4_XS)
