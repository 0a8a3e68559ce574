//===- FloatPanels.h - Interleaved F16 and BF16 with AVX-512 ----*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX512_FLOATPANELS_H
#define MOE_KERNELS_CPU_AVX512_FLOATPANELS_H

#include "kernels/cpu/Rows16Float.h"
#include "kernels/cpu/avx512/Int8Common.h"

namespace moek::avx512 {
namespace {

/// A loader of Rows16Float.h.
template <Format F> struct FloatPanels;

template <> struct FloatPanels<Format::F16> {
  static constexpr int kPanels = 2, kTokens = 8;
  MOE_INLINE static void column(const uint8_t *tile, int c, __m512 to[1]) {
    // vcvtph2ps reads 16 adjacent numbers, so vpmovdw takes the lower halves.
    __m512i pairs = _mm512_loadu_si512(tile);
    if (c == 1)
      pairs = _mm512_srli_epi32(pairs, 16);
    to[0] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
  }
  MOE_INLINE static void rows(__m512[1]) {}
};

template <> struct FloatPanels<Format::BF16> {
  static constexpr int kPanels = 2, kTokens = 6;
  MOE_INLINE static void column(const uint8_t *tile, int c, __m512 to[1]) {
    __m512i pairs = _mm512_loadu_si512(tile);
    to[0] = _mm512_castsi512_ps(
        c == 0 ? _mm512_slli_epi32(pairs, 16)
               : _mm512_and_si512(pairs, _mm512_set1_epi32(int(0xffff0000))));
  }
  MOE_INLINE static void rows(__m512[1]) {}
};

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_FLOATPANELS_H
