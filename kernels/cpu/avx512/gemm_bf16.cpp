//===- gemm_bf16.cpp - BF16 with AVX-512 ----------------------------------===//

#include "kernels/cpu/avx512/FloatGemm.h"

namespace moek::avx512 {
namespace {
struct BF16 {
  static constexpr int64_t kBytes = 2;
  /// A bfloat16 is the upper half of a float.
  MOE_INLINE __m512 widen(__m256i bits) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  MOE_INLINE __m512 load(const uint8_t *p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
  }
  MOE_INLINE __m512 load(const uint8_t *p, __mmask16 mask) {
    return widen(_mm256_maskz_loadu_epi16(mask, p));
  }
};

struct BF16Rows16 : Floats {
  static constexpr int kPanels = 2, kTokens = 6;
  MOE_INLINE void column(const uint8_t *tile, int c, __m512 to[1]) {
    __m512i pairs = _mm512_loadu_si512(tile);
    to[0] = _mm512_castsi512_ps(
        c == 0 ? _mm512_slli_epi32(pairs, 16)
               : _mm512_and_si512(pairs, _mm512_set1_epi32(int(0xffff0000))));
  }
  MOE_INLINE void rows(__m512[1]) {}
};
} // namespace
} // namespace moek::avx512

MOE_FLOAT_GEMM(gemm_bf16_avx512, BF16)
MOE_ROWS16_FLOAT_GEMM(gemm_bf16_rows16_avx512, moek::avx512::BF16Rows16)
