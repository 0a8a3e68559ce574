//===- gemm_q5_1.cpp - Q5_1 with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Nibbles.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q5_1.h"

namespace moek::avx512 {
namespace {
struct Q5_1 {
  using Block = BlockQ5_1;
  static constexpr int kSpan = 64, kSub = 32, kOffsetSub = 32, kOffsetSign = 1;
  static constexpr int kZero = 0;

  template <bool Half> MOE_INLINE __m512i codes(const Block *block) {
    return addFifthBit<Half>(nibbles<Half>(block[0].low, block[1].low),
                             block[0].high, block[1].high);
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q5_1_avx512, Q5_1, Q5_1)
MOE_ROWS16_GEMM(gemm_q5_1_rows16_avx512, Q5_1)
