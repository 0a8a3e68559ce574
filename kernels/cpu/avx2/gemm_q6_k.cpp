//===- gemm_q6_k.cpp - Q6_K with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q6_K.h"

namespace moek::avx2 {
namespace {
struct Q6_K {
  using Block = BlockQ6_K;
  static constexpr int kSpan = 256, kSub = 16, kMaxCode = 63, kZero = 32;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int v) {
    int half = v / 4, k = v % 4;
    __m256i low = load256(block->low + half * 64 + k % 2 * 32);
    low = _mm256_and_si256(_mm256_srli_epi16(low, k / 2 * 4),
                           _mm256_set1_epi8(15));
    // Bits 2k and 2k + 1 become bits 4 and 5.
    __m256i high = load256(block->high + half * 32);
    high = k < 2 ? _mm256_slli_epi16(high, 4 - 2 * k)
                 : _mm256_srli_epi16(high, 2 * k - 4);
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
  }

  MOE_INLINE Lanes16 scales(const Block *block) {
    return scaledBytes(load128(block->scales), broadcastF16(block->d));
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q6_k_avx2, Q6_K)
MOE_ROWS16_GEMM(gemm_q6_k_rows16_avx2, Q6_K)
