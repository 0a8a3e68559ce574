//===- gemm_f32.cpp - F32 with AVX-512 ------------------------------------===//

#include "kernels/cpu/avx512/FloatGemm.h"

namespace moek::avx512 {
namespace {
struct F32 {
  static constexpr int64_t kBytes = 4;
  MOE_INLINE __m512 load(const uint8_t *p) { return _mm512_loadu_ps(p); }
  MOE_INLINE __m512 load(const uint8_t *p, __mmask16 mask) {
    return _mm512_maskz_loadu_ps(mask, p);
  }
};
} // namespace
} // namespace moek::avx512

MOE_FLOAT_GEMM(gemm_f32_avx512, F32)
