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

struct F16Rows16 : Floats {
  static constexpr int kPanels = 2, kTokens = 8;
  MOE_INLINE void column(const uint8_t *tile, int c, __m512 to[1]) {
    // vcvtph2ps wants 16 numbers side by side: vpmovdw takes the lower halves.
    __m512i pairs = _mm512_loadu_si512(tile);
    if (c == 1)
      pairs = _mm512_srli_epi32(pairs, 16);
    to[0] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
  }
  MOE_INLINE void rows(__m512[1]) {}
};
} // namespace
} // namespace moek::avx512

MOE_FLOAT_GEMM(gemm_f16_avx512, F16)
MOE_ROWS16_FLOAT_GEMM(gemm_f16_rows16_avx512, moek::avx512::F16Rows16)
