//===- gemm_f16.cpp - F16 with AVX-512 ------------------------------------===//

#include "kernels/cpu/avx512/FloatGemm.h"

namespace moek::avx512 {
namespace {
struct F16 {
  static constexpr int64_t kBytes = 2;
  MOE_INLINE __m512 load(const uint8_t *p) {
    return _mm512_cvtph_ps(
        _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
  }
  MOE_INLINE __m512 load(const uint8_t *p, __mmask16 mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
  }
};
} // namespace
} // namespace moek::avx512

MOE_FLOAT_GEMM(gemm_f16_avx512, F16)
