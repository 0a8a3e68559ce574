//===- gemm_q5_1.cpp - Q5_1 with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Nibbles.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q5_1.h"

namespace moek::avx2 {
namespace {
struct Q5_1 {
  using Block = BlockQ5_1;
  static constexpr int kSpan = 32, kSub = 32, kMaxCode = 31, kZero = 0;
  static constexpr int kOffsetSub = 32, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int) {
    return _mm256_or_si256(nibbles(block->low), fifthBits(block->high));
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q5_1_avx2, Q5_1)
MOE_ROWS16_GEMM(gemm_q5_1_rows16_avx2, Q5_1)
