//===- gemm_bf16.cpp - BF16 with AVX2 -------------------------------------===//

#include "kernels/cpu/avx2/FloatGemm.h"

namespace moek::avx2 {
namespace {
struct BF16 {
  using Weight = uint16_t;
  MOE_INLINE __m256 load(const uint8_t *p) {
    // A bfloat16 is the upper half of a float.
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
  }
};

struct BF16Rows16 : Floats {
  static constexpr int kPanels = 1, kTokens = 4;
  MOE_INLINE void column(const uint8_t *tile, int c, __m256 to[2]) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i pairs = load256(tile + 32 * half);
      to[half] = _mm256_castsi256_ps(
          c == 0 ? _mm256_slli_epi32(pairs, 16)
                 : _mm256_and_si256(pairs, _mm256_set1_epi32(int(0xffff0000))));
    }
  }
  MOE_INLINE void rows(__m256[2]) {}
};
} // namespace
} // namespace moek::avx2

MOE_FLOAT_GEMM(gemm_bf16_avx2, BF16)
MOE_ROWS16_FLOAT_GEMM(gemm_bf16_rows16_avx2, moek::avx2::BF16Rows16)
