//===- gemm_f32.cpp - F32 with AVX2 ---------------------------------------===//

#include "kernels/cpu/avx2/FloatGemm.h"

namespace moek::avx2 {
namespace {
struct F32 {
  using Weight = uint32_t;
  MOE_INLINE __m256 load(const uint8_t *p) {
    return _mm256_castsi256_ps(load256(p));
  }
};
} // namespace
} // namespace moek::avx2

MOE_FLOAT_GEMM(gemm_f32_avx2, F32)
