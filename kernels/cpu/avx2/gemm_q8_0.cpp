//===- gemm_q8_0.cpp - Q8_0 with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"
#include "kernels/quant/Q8_0.h"

namespace moek::avx2 {
namespace {
struct Q8_0 {
  using Block = BlockQ8_0;
  static constexpr int kSpan = 32, kSub = 32, kMaxCode = 0, kZero = 0;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int) {
    return load256(block->codes);
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_q8_0_avx2, Q8_0)
MOE_ROWS16_GEMM(gemm_q8_0_rows16_avx2, Q8_0)
