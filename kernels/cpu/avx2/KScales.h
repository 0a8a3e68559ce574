//===- KScales.h - Scales and minima of Q4_K and Q5_K -----------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_AVX2_KSCALES_H
#define MOE_KERNELS_CPU_AVX2_KSCALES_H

#include "kernels/cpu/avx2/Int8Common.h"
#include "kernels/quant/KScales.h"

namespace moek::avx2 {
namespace {

/// Eight six-bit scales in bytes 0..7, eight minima in bytes 8..15.
MOE_INLINE __m128i kScaleBytes(const KScales &scales) {
  uint32_t a = uint32_t(load32(scales.bytes));
  uint32_t b = uint32_t(load32(scales.bytes + 4));
  uint32_t c = uint32_t(load32(scales.bytes + 8));
  constexpr uint32_t kSix = 0x3f3f3f3f, kNibble = 0x0f0f0f0f, kTop = 0x30303030;
  return _mm_setr_epi32(
      int32_t(a & kSix), int32_t((c & kNibble) | (a >> 2 & kTop)),
      int32_t(b & kSix), int32_t((c >> 4 & kNibble) | (b >> 2 & kTop)));
}

/// Eight bytes as floats times an F16 number.
template <class T> MOE_INLINE Lanes16 scaledOctet(__m128i bytes, const T &d) {
  __m256 floats = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  __m256 lanes = _mm256_mul_ps(floats, broadcastF16(d));
  return {lanes, lanes};
}

/// Scales and offsets of blocks that have `d`, `dmin` and `scales`.
template <class Block> struct KScaleTraits {
  MOE_INLINE Lanes16 scales(const Block *block) {
    return scaledOctet(kScaleBytes(block->scales), block->d);
  }
  MOE_INLINE Lanes16 offsets(const Block *block) {
    return scaledOctet(_mm_srli_si128(kScaleBytes(block->scales), 8),
                       block->dmin);
  }
};

} // namespace
} // namespace moek::avx2

#endif // MOE_KERNELS_CPU_AVX2_KSCALES_H
