//===- Products.h - Products of codes and activations, AVX-VNNI -*- C++ -*-===//
//
// See kernels/cpu/avx2/Products.h. vpdpbusd adds four products u8 * s8 to an
// int32 without saturation, so codes up to 255 are exact.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVXVNNI_PRODUCTS_H
#define MOE_KERNELS_CPU_AVXVNNI_PRODUCTS_H

#include "kernels/cpu/GemmTiling.h"

#include <immintrin.h>

namespace moek::MOE_ISA {
namespace {

constexpr bool kHasDots = true;

/// The sum stays in its register: GCC would copy it from one to another.
MOE_INLINE __m256i dot4(__m256i sums, __m256i codes, __m256i x) {
  sums = _mm256_dpbusd_avx_epi32(sums, codes, x);
  __asm__("" : "+x"(sums));
  return sums;
}

/// The bits of 1.5 * 2^23: added to a sum within +-2^22, they are those of a
/// float whose unit is 1. Sums of 32 columns are at most 32 * 127 * 128.
constexpr int32_t kDotStart = 0x4b400000;

/// Subtracts that float, which is exact. Intel's CPUs convert integers on the
/// two ports that multiply, but subtract floats on a third as well.
MOE_INLINE __m256 floats(__m256i sums) {
  return _mm256_sub_ps(_mm256_castsi256_ps(sums), _mm256_set1_ps(0x1.8p23f));
}

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVXVNNI_PRODUCTS_H
