//===- gemm_iq4_nl.cpp - IQ4_NL with VNNI ---------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Iq4Codes.h"
#include "kernels/cpu/avx512/Nibbles.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"

namespace moek::avx512 {
namespace {
struct IQ4_NL {
  using Block = BlockIQ4_NL;
  static constexpr int kSpan = 64, kSub = 32, kOffsetSub = 0, kOffsetSign = 1;
  static constexpr int kZero = 128;

  template <bool Half> MOE_INLINE __m512i codes(const Block *block) {
    // The upper half of a half span looks up nibble 0; its activations are 0.
    return iq4Codes(nibbles<Half>(block[0].codes, block[1].codes));
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_iq4_nl_avx512, IQ4_NL, IQ4_NL)
MOE_ROWS16_GEMM(gemm_iq4_nl_rows16_avx512, IQ4_NL)
