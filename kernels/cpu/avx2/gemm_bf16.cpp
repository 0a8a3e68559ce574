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
} // namespace
} // namespace moek::avx2

MOE_FLOAT_GEMM(gemm_bf16_avx2, BF16)
