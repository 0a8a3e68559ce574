//===- Iq4Codes.h - The value table of IQ4_NL and IQ4_XS --------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX2_IQ4CODES_H
#define MOE_KERNELS_CPU_AVX2_IQ4CODES_H

#include "kernels/cpu/avx2/Nibbles.h"
#include "kernels/quant/IQ4_NL.h"

namespace moek::avx2 {
namespace {

/// Signed values of the 32 codes in 16 bytes.
MOE_INLINE __m256i iq4Codes(const uint8_t *bytes) {
  __m256i table = _mm256_broadcastsi128_si256(load128(kIq4Values));
  return _mm256_shuffle_epi8(table, nibbles(bytes));
}

} // namespace
} // namespace moek::avx2

#endif // MOE_KERNELS_CPU_AVX2_IQ4CODES_H
