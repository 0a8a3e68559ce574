//===- Products.h - Products of codes and activations, AVX2 -----*- C++ -*-===//
//
// The gemms of this folder are compiled for AVX2 and for AVX-VNNI. This header
// has what differs. The only 8-bit product of AVX2, vpmaddubsw, multiplies u8
// with s8 and adds pairs into int16 with saturation. Activations are within
// +-127, so a pair of codes up to 63 gives at most 2 * 63 * 127 = 16002. Signed
// codes are split into magnitude and sign; |-128| is 128 as u8, and 2 * 128 *
// 127 = 32512 still fits. So no sum ever saturates.
//
// Sums of products are integers below 2^24 in both sets, scales included, so
// that they are exact as floats too: both sets' results have the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_PRODUCTS_H
#define MOE_KERNELS_CPU_AVX2_PRODUCTS_H

#ifdef MOE_OF_avxvnni
#include "kernels/cpu/avxvnni/Products.h"
#else

#include "kernels/cpu/GemmTiling.h"

#include <immintrin.h>

namespace moek::MOE_ISA {
namespace {

/// Whether dot4() is one instruction, which takes any codes.
constexpr bool kHasDots = false;

/// Adds u8 * s8 products of four columns to each int32 of `sums`. Codes are at
/// most 128.
MOE_INLINE __m256i dot4(__m256i sums, __m256i codes, __m256i x) {
  __m256i pairs = _mm256_maddubs_epi16(codes, x);
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/// Initial value of sums of dot4() that floats() converts.
constexpr int32_t kDotStart = 0;

MOE_INLINE __m256 floats(__m256i sums) { return _mm256_cvtepi32_ps(sums); }

} // namespace
} // namespace moek::MOE_ISA

#endif
#endif // MOE_KERNELS_CPU_AVX2_PRODUCTS_H
