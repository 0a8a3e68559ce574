//===- gemm_q4_1.cpp - Q4_1 with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Nibbles.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q4_1.h"

namespace moek::avx2 {
namespace {
struct Q4_1 {
  using Block = BlockQ4_1;
  static constexpr int kSpan = 32, kSub = 32, kMaxCode = 15, kZero = 0;
  static constexpr int kOffsetSub = 32, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int) {
    return nibbles(block->codes);
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q4_1_avx2, Q4_1)
MOE_ROWS16_GEMM(gemm_q4_1_rows16_avx2, Q4_1)
