//===- gemm_q4_0.cpp - Q4_0 with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Nibbles.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q4_0.h"

namespace moek::avx512 {
namespace {
struct Q4_0 {
  using Block = BlockQ4_0;
  static constexpr int kSpan = 64, kSub = 32, kOffsetSub = 0, kOffsetSign = 1;
  static constexpr int kZero = 8;

  template <bool Half> MOE_INLINE __m512i codes(const Block *block) {
    return nibbles<Half>(block[0].codes, block[1].codes);
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q4_0_avx512, Q4_0, Q4_0)
MOE_ROWS16_GEMM(gemm_q4_0_rows16_avx512, Q4_0)
