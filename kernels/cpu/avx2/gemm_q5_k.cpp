//===- gemm_q5_k.cpp - Q5_K with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/KScales.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q5_K.h"

namespace moek::avx2 {
namespace {
struct Q5_K : KScaleTraits<BlockQ5_K> {
  using Block = BlockQ5_K;
  static constexpr int kSpan = 256, kSub = 32, kMaxCode = 31, kZero = 0;
  static constexpr int kOffsetSub = 32, kOffsetSign = -1;

  MOE_INLINE __m256i codes(const Block *block, int v) {
    __m256i low = _mm256_and_si256(
        _mm256_srli_epi16(load256(block->low + v / 2 * 32), v % 2 * 4),
        _mm256_set1_epi8(15));
    // Bit v becomes bit 4.
    __m256i high = load256(block->high);
    high =
        v < 4 ? _mm256_slli_epi16(high, 4 - v) : _mm256_srli_epi16(high, v - 4);
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(16)));
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q5_k_avx2, Q5_K)
MOE_ROWS16_GEMM(gemm_q5_k_rows16_avx2, Q5_K)
