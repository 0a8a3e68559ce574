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

/// vcvtph2ps wants 8 numbers in 128 bits, a pack works within each 128-bit
/// lane: a column's vectors are of rows 0 .. 3, 8 .. 11 and of the others.
struct F16Rows16 : Floats {
  static constexpr int kPanels = 1, kTokens = 3;
  MOE_INLINE void column(const uint8_t *tile, int c, __m256 to[2]) {
    __m256i low = load256(tile), high = load256(tile + 32);
    __m256i lower = _mm256_set1_epi32(0xffff);
    __m256i halves = c == 0 ? _mm256_packus_epi32(_mm256_and_si256(low, lower),
                                                  _mm256_and_si256(high, lower))
                            : _mm256_packus_epi32(_mm256_srli_epi32(low, 16),
                                                  _mm256_srli_epi32(high, 16));
    to[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    to[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
  MOE_INLINE void rows(__m256 v[2]) {
    __m256 low = _mm256_permute2f128_ps(v[0], v[1], 0x20);
    v[1] = _mm256_permute2f128_ps(v[0], v[1], 0x31);
    v[0] = low;
  }
};
} // namespace
} // namespace moek::avx2

MOE_FLOAT_GEMM(gemm_f16_avx2, F16)
MOE_ROWS16_FLOAT_GEMM(gemm_f16_rows16_avx2, moek::avx2::F16Rows16)
