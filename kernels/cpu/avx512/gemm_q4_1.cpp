//===- gemm_q4_1.cpp - Q4_1 with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Nibbles.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q4_1.h"

namespace moek::avx512 {
namespace {
struct Q4_1 {
  using Block = BlockQ4_1;
  static constexpr int kSpan = 64, kSub = 32, kOffsetSub = 32, kOffsetSign = 1;
  static constexpr int kZero = 0;

  template <bool Half> MOE_INLINE __m512i codes(const Block *block) {
    return nibbles<Half>(block[0].codes, block[1].codes);
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q4_1_avx512, Q4_1, Q4_1)
MOE_ROWS16_GEMM(gemm_q4_1_rows16_avx512, Q4_1)
