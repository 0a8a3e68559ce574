//===- gemm_f16.cpp - F16 with AVX2 ---------------------------------------===//

#include "kernels/cpu/avx2/FloatGemm.h"

namespace moek::avx2 {
namespace {
struct F16 {
  using Weight = uint16_t;
  MOE_INLINE __m256 load(const uint8_t *p) {
    return _mm256_cvtph_ps(load128(p));
  }
};
} // namespace
} // namespace moek::avx2

MOE_FLOAT_GEMM(gemm_f16_avx2, F16)
