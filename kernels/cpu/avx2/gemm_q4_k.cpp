//===- gemm_q4_k.cpp - Q4_K with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/KScales.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q4_K.h"

namespace moek::avx2 {
namespace {
struct Q4_K : KScaleTraits<BlockQ4_K> {
  using Block = BlockQ4_K;
  static constexpr int kSpan = 256, kSub = 32, kMaxCode = 15, kZero = 0;
  static constexpr int kOffsetSub = 32, kOffsetSign = -1;

  MOE_INLINE __m256i codes(const Block *block, int v) {
    __m256i bytes = load256(block->codes + v / 2 * 32);
    return _mm256_and_si256(_mm256_srli_epi16(bytes, v % 2 * 4),
                            _mm256_set1_epi8(15));
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q4_k_avx2, Q4_K)
MOE_ROWS16_GEMM(gemm_q4_k_rows16_avx2, Q4_K)
