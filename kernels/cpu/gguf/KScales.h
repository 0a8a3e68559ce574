//===- KScales.h - Unpacks scales and minima of Q4_K and Q5_K ---*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_GGUF_KSCALES_H
#define MOE_KERNELS_CPU_GGUF_KSCALES_H

#include "kernels/cpu/gguf/SuperBlock.h"

#ifdef __AVX512F__
namespace moek::avx512 {
namespace {

/// Returns d * scale(s) in lanes 0..7 and dmin * min(s) in lanes 8..15, from
/// the 16 bytes {d, dmin, KScales} with which Q4_K and Q5_K blocks begin.
MOE_INLINE __m512 kScales(const void *block) {
  __m128i bytes = load128(block);
  // Low parts: six bits of bytes 0-7, and nibbles of bytes 8-11.
  __m128i low =
      _mm_shuffle_epi8(bytes, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9,
                                            10, 11, 12, 13, 14, 15));
  low = _mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4));
  low = _mm_and_si128(
      low, _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
  // The top two bits of bytes 0-7 become bits 4 and 5 of entries 4-7.
  __m128i high =
      _mm_shuffle_epi8(bytes, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1,
                                            -1, -1, 8, 9, 10, 11));
  high = _mm_and_si128(_mm_srli_epi32(high, 2), _mm_set1_epi8(0x30));
  __m512 numbers =
      _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_or_si128(low, high)));
  __m512 d = _mm512_permutexvar_ps(halves32(0, 1),
                                   _mm512_castps128_ps512(_mm_cvtph_ps(bytes)));
  return _mm512_mul_ps(numbers, d);
}

/// Scales and offsets of blocks that begin with these bytes.
template <class Block> struct KScales256 {
  MOE_INLINE static __m512 scales(const Block *block) { return kScales(block); }
};

} // namespace
} // namespace moek::avx512
#else
namespace moek::MOE_ISA {
namespace {

/// Returns eight six-bit scales in bytes 0..7 and eight minima in bytes 8..15.
MOE_INLINE Bytes16 kScaleBytes(const KScales &scales) {
  uint32_t a = uint32_t(load32(scales.bytes));
  uint32_t b = uint32_t(load32(scales.bytes + 4));
  uint32_t c = uint32_t(load32(scales.bytes + 8));
  constexpr uint32_t kSix = 0x3f3f3f3f, kNibble = 0x0f0f0f0f, kTop = 0x30303030;
  return bytes16(int(a & kSix), int((c & kNibble) | (a >> 2 & kTop)),
                 int(b & kSix), int((c >> 4 & kNibble) | (b >> 2 & kTop)));
}

/// Returns eight bytes as floats, times an F16 number.
template <class T> MOE_INLINE Lanes16 scaledOctet(Bytes16 bytes, const T &d) {
  Floats floats = toFloats(unsigned32(bytes));
  Floats lanes = Simd::mul(floats, broadcastF16(d));
  return {lanes, lanes};
}

/// Scales and offsets of blocks with members `d`, `dmin` and `scales`.
template <class Block> struct KScales256 {
  MOE_INLINE static Lanes16 scales(const Block *block) {
    return scaledOctet(kScaleBytes(block->scales), block->d);
  }
  MOE_INLINE static Lanes16 offsets(const Block *block) {
    return scaledOctet(upper8(kScaleBytes(block->scales)), block->dmin);
  }
};

} // namespace
} // namespace moek::MOE_ISA
#endif

#endif // MOE_KERNELS_CPU_GGUF_KSCALES_H
