//===- gemm_q2_k.cpp - Q2_K with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q2_K.h"

namespace moek::avx2 {
namespace {
struct Q2_K {
  using Block = BlockQ2_K;
  static constexpr int kSpan = 256, kSub = 16, kMaxCode = 3, kZero = 0;
  static constexpr int kOffsetSub = 16, kOffsetSign = -1;

  MOE_INLINE __m256i codes(const Block *block, int v) {
    __m256i bytes = load256(block->codes + v / 4 * 32);
    return _mm256_and_si256(_mm256_srli_epi16(bytes, v % 4 * 2),
                            _mm256_set1_epi8(3));
  }

  MOE_INLINE Lanes16 scales(const Block *block) {
    __m128i low = _mm_and_si128(load128(block->scales), _mm_set1_epi8(15));
    return scaledBytes(low, broadcastF16(block->d));
  }

  MOE_INLINE Lanes16 offsets(const Block *block) {
    __m128i high = _mm_and_si128(_mm_srli_epi16(load128(block->scales), 4),
                                 _mm_set1_epi8(15));
    return scaledBytes(high, broadcastF16(block->dmin));
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q2_k_avx2, Q2_K)
MOE_ROWS16_GEMM(gemm_q2_k_rows16_avx2, Q2_K)
