//===- gemm_q4_k.cpp - Q4_K with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/KScales.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q4_K.h"

namespace moek::avx512 {
namespace {
struct Q4_K {
  using Block = BlockQ4_K;
  static constexpr int kSpan = 256, kSub = 32, kZero = 0;
  static constexpr int kOffsetSub = 32, kOffsetSign = -1;

  MOE_INLINE void codes(const Block *block, __m512i q[4]) {
    // 32 bytes hold 64 columns: low nibbles first, high nibbles after them.
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      q[v] = _mm512_and_si512(
          _mm512_srlv_epi16(twice(block->codes + 32 * v), halves16(0, 4)),
          _mm512_set1_epi8(15));
  }

  MOE_INLINE __m512 scales(const Block *block) { return kScales(block); }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q4_k_avx512, Q4_K, Q4_K)
MOE_ROWS16_GEMM(gemm_q4_k_rows16_avx512, Q4_K)
