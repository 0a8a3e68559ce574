//===- gemm_q5_0.cpp - Q5_0 with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Nibbles.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q5_0.h"

namespace moek::avx512 {
namespace {
struct Q5_0 {
  using Block = BlockQ5_0;
  static constexpr int kSpan = 64, kSub = 32, kOffsetSub = 0, kOffsetSign = 1;
  static constexpr int kZero = 16;

  template <bool Half> MOE_INLINE __m512i codes(const Block *block) {
    return addFifthBit<Half>(nibbles<Half>(block[0].low, block[1].low),
                             block[0].high, block[1].high);
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q5_0_avx512, Q5_0, Q5_0)
MOE_ROWS16_GEMM(gemm_q5_0_rows16_avx512, Q5_0)
