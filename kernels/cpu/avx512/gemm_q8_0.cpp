//===- gemm_q8_0.cpp - Q8_0 with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q8_0.h"

namespace moek::avx512 {
namespace {
struct Q8_0 {
  using Block = BlockQ8_0;
  static constexpr int kSpan = 64, kSub = 32, kOffsetSub = 0, kOffsetSign = 1;
  static constexpr int kZero = 128; // Flipping the top bit adds 128.

  template <bool Half> MOE_INLINE __m512i codes(const Block *block) {
    __m512i q = _mm512_zextsi256_si512(load256(block[0].codes));
    if constexpr (!Half)
      q = _mm512_inserti64x4(q, load256(block[1].codes), 1);
    return _mm512_xor_si512(q, _mm512_set1_epi8(char(0x80)));
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q8_0_avx512, Q8_0, Q8_0)
MOE_ROWS16_GEMM(gemm_q8_0_rows16_avx512, Q8_0)
