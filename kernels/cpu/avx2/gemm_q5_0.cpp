//===- gemm_q5_0.cpp - Q5_0 with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Nibbles.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q5_0.h"

namespace moek::avx2 {
namespace {
struct Q5_0 {
  using Block = BlockQ5_0;
  static constexpr int kSpan = 32, kSub = 32, kMaxCode = 31, kZero = 16;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int) {
    return _mm256_or_si256(nibbles(block->low), fifthBits(block->high));
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q5_0_avx2, Q5_0)
MOE_ROWS16_GEMM(gemm_q5_0_rows16_avx2, Q5_0)
