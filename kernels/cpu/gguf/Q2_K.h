//===- Q2_K.h - Unpacks Q2_K blocks to vectors ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_GGUF_Q2_K_H
#define MOE_KERNELS_CPU_GGUF_Q2_K_H

#include "kernels/cpu/gguf/SuperBlock.h"

#ifdef __AVX512F__
namespace moek::avx512 {
namespace {

template <> struct SuperBlock<Format::Q2_K> {
  /// Returns codes 0 .. 3 of columns 64 v .. 64 v + 63.
  MOE_INLINE static __m512i codes(const BlockQ2_K *block, int v) {
    short shift = short(v % 2 * 4);
    return _mm512_and_si512(
        _mm512_srlv_epi16(twice(block->codes + v / 2 * 32),
                          halves16(shift, short(shift + 2))),
        _mm512_set1_epi8(3));
  }

  MOE_INLINE static void codes(const BlockQ2_K *block, __m512i q[4]) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      q[v] = codes(block, v);
  }

  MOE_INLINE static __m512i integerScales(const BlockQ2_K *block) {
    return _mm512_cvtepu8_epi32(
        _mm_and_si128(load128(block->scales), _mm_set1_epi8(15)));
  }

  MOE_INLINE static __m512 scales(const BlockQ2_K *block) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(integerScales(block)),
                         broadcastF16(block->d));
  }

  MOE_INLINE static __m512 offsets(const BlockQ2_K *block) {
    __m128i mins = _mm_and_si128(_mm_srli_epi16(load128(block->scales), 4),
                                 _mm_set1_epi8(15));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(mins)),
                         broadcastF16(block->dmin));
  }
};

/// For panels, where unpacking is rare but scaling frequent: a code times its
/// 4-bit scale is at most 45, so the scale is multiplied into the codes, and
/// one F16 scale per super-block remains.
template <> struct GgufPanel<Format::Q2_K> : Gguf<Format::Q2_K> {
  static constexpr int kSub = 32;

  MOE_INLINE static void codes(const BlockQ2_K *block, __m512i q[4]) {
    // The table has bytes {0, s, 2s, 3s} per sub-block. A 128-bit lane of codes
    // is one sub-block, so that a byte shuffle multiplies.
    __m512i products =
        _mm512_mullo_epi32(SuperBlock<Format::Q2_K>::integerScales(block),
                           _mm512_set1_epi32(0x03020100));
    __m512i lane =
        _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m512i table = _mm512_permutexvar_epi32(
          _mm512_add_epi32(lane, _mm512_set1_epi32(4 * v)), products);
      q[v] =
          _mm512_shuffle_epi8(table, SuperBlock<Format::Q2_K>::codes(block, v));
    }
  }

  MOE_INLINE static __m512 scales(const BlockQ2_K *block) {
    return broadcastF16(block->d);
  }
};

} // namespace
} // namespace moek::avx512
#else
namespace moek::MOE_ISA {
namespace {

template <> struct SuperBlock<Format::Q2_K> {
  MOE_INLINE static Ints codes(const BlockQ2_K *block, int v) {
    Ints bytes = load256(block->codes + v / 4 * 32);
    return bitAnd(shiftRight16(bytes, v % 4 * 2), set8(3));
  }

  MOE_INLINE static Lanes16 scales(const BlockQ2_K *block) {
    Bytes16 low = lowNibbles(load128(block->scales));
    return scaledBytes(low, broadcastF16(block->d));
  }

  MOE_INLINE static Lanes16 offsets(const BlockQ2_K *block) {
    Bytes16 high = highNibbles(load128(block->scales));
    return scaledBytes(high, broadcastF16(block->dmin));
  }
};

} // namespace
} // namespace moek::MOE_ISA
#endif

#endif // MOE_KERNELS_CPU_GGUF_Q2_K_H
