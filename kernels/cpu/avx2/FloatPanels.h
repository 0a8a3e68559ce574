//===- FloatPanels.h - Interleaved F16 and BF16 with AVX2 -------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX2_FLOATPANELS_H
#define MOE_KERNELS_CPU_AVX2_FLOATPANELS_H

#include "kernels/cpu/Rows16Float.h"
#include "kernels/cpu/avx2/Int8Common.h"

namespace moek::MOE_ISA {
namespace {

/// A loader of Rows16Float.h.
template <Format F> struct FloatPanels;

/// vcvtph2ps reads 8 numbers from 128 bits, and a pack works within each
/// 128-bit lane: so the first vector of a column has rows 0 .. 3 and 8 .. 11,
/// the second the other rows.
template <> struct FloatPanels<Format::F16> {
  static constexpr int kPanels = 1, kTokens = 3;
  MOE_INLINE static void column(const uint8_t *tile, int c, __m256 to[2]) {
    __m256i low = load256(tile), high = load256(tile + 32);
    __m256i lower = _mm256_set1_epi32(0xffff);
    __m256i halves = c == 0 ? _mm256_packus_epi32(_mm256_and_si256(low, lower),
                                                  _mm256_and_si256(high, lower))
                            : _mm256_packus_epi32(_mm256_srli_epi32(low, 16),
                                                  _mm256_srli_epi32(high, 16));
    to[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    to[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
  MOE_INLINE static void rows(__m256 v[2]) {
    __m256 low = _mm256_permute2f128_ps(v[0], v[1], 0x20);
    v[1] = _mm256_permute2f128_ps(v[0], v[1], 0x31);
    v[0] = low;
  }
};

template <> struct FloatPanels<Format::BF16> {
  static constexpr int kPanels = 1, kTokens = 4;
  MOE_INLINE static void column(const uint8_t *tile, int c, __m256 to[2]) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m256i pairs = load256(tile + 32 * half);
      to[half] = _mm256_castsi256_ps(
          c == 0 ? _mm256_slli_epi32(pairs, 16)
                 : _mm256_and_si256(pairs, _mm256_set1_epi32(int(0xffff0000))));
    }
  }
  MOE_INLINE static void rows(__m256[2]) {}
};

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_FLOATPANELS_H
