//===- gemm_q4_0.cpp - Q4_0 with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Nibbles.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q4_0.h"

namespace moek::avx2 {
namespace {
struct Q4_0 {
  using Block = BlockQ4_0;
  static constexpr int kSpan = 32, kSub = 32, kMaxCode = 15, kZero = 8;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int) {
    return nibbles(block->codes);
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q4_0_avx2, Q4_0)
MOE_ROWS16_GEMM(gemm_q4_0_rows16_avx2, Q4_0)
