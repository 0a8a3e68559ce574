//===- Iq4Codes.h - The value table of IQ4_NL and IQ4_XS --------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX512_IQ4CODES_H
#define MOE_KERNELS_CPU_AVX512_IQ4CODES_H

#include "kernels/cpu/avx512/Int8Common.h"
#include "kernels/quant/IQ4_NL.h"

namespace moek::avx512 {
namespace {

/// kIq4Values[nibble] + 128: 1 .. 241.
MOE_INLINE __m512i iq4Codes(__m512i nibbles) {
  __m512i table = _mm512_broadcast_i32x4(load128(kIq4Values));
  table = _mm512_xor_si512(table, _mm512_set1_epi8(char(0x80)));
  return _mm512_shuffle_epi8(table, nibbles);
}

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_IQ4CODES_H
