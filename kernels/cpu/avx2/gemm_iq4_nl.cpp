//===- gemm_iq4_nl.cpp - IQ4_NL with AVX2 ---------------------------------===//

#include "kernels/cpu/avx2/Int8Gemm.h"
#include "kernels/cpu/avx2/Iq4Codes.h"
#include "kernels/cpu/avx2/Rows16Gemm.h"

namespace moek::avx2 {
namespace {
struct IQ4_NL {
  using Block = BlockIQ4_NL;
  static constexpr int kSpan = 32, kSub = 32, kMaxCode = 0, kZero = 0;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  MOE_INLINE __m256i codes(const Block *block, int) {
    return iq4Codes(block->codes);
  }
};
} // namespace
} // namespace moek::avx2

MOE_INT8_GEMM(gemm_iq4_nl_avx2, IQ4_NL)
MOE_ROWS16_GEMM(gemm_iq4_nl_rows16_avx2, IQ4_NL)
