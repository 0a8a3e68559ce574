//===- Q3_K.h - Unpacks Q3_K blocks to vectors ------------------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_GGUF_Q3_K_H
#define MOE_KERNELS_CPU_GGUF_Q3_K_H

#include "kernels/cpu/gguf/SuperBlock.h"

#ifdef __AVX512F__
namespace moek::avx512 {
namespace {

/// Returns the 16 scales plus 32.
MOE_INLINE __m128i scaleBytes(const BlockQ3_K *block) {
  uint64_t low;
  std::memcpy(&low, block->scales, sizeof(low));
  __m128i nibbles = _mm_and_si128(
      _mm_set_epi64x(int64_t(low >> 4), int64_t(low)), _mm_set1_epi8(15));
  __m128i tops = _mm_srlv_epi32(_mm_set1_epi32(load32(block->scales + 8)),
                                _mm_setr_epi32(0, 2, 4, 6));
  tops = _mm_slli_epi32(_mm_and_si128(tops, _mm_set1_epi8(3)), 4);
  return _mm_or_si128(nibbles, tops);
}

template <> struct SuperBlock<Format::Q3_K> {
  /// Returns codes 0 .. 7 of columns 64 v .. 64 v + 63.
  MOE_INLINE static __m512i codes(const BlockQ3_K *block, int v) {
    short shift = short(v % 2 * 4);
    __m512i low =
        _mm512_and_si512(_mm512_srlv_epi16(twice(block->low + v / 2 * 32),
                                           halves16(shift, short(shift + 2))),
                         _mm512_set1_epi8(3));
    // Bits 2v and 2v + 1 of `high` become bit 2.
    __m512i third =
        _mm512_rolv_epi32(twice(block->high), halves32(2 - 2 * v, 1 - 2 * v));
    return andOr(third, _mm512_set1_epi8(4), low);
  }

  MOE_INLINE static void codes(const BlockQ3_K *block, __m512i q[4]) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      q[v] = codes(block, v);
  }

  /// Returns the 16 scales, -32 .. 31, as int32.
  MOE_INLINE static __m512i integerScales(const BlockQ3_K *block) {
    return _mm512_sub_epi32(_mm512_cvtepu8_epi32(scaleBytes(block)),
                            _mm512_set1_epi32(32));
  }

  MOE_INLINE static __m512 scales(const BlockQ3_K *block) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(integerScales(block)),
                         broadcastF16(block->d));
  }
};

/// For panels, where unpacking is rare but scaling frequent: (code - 4) * scale
/// is in -124 .. 128 and becomes an unsigned byte by adding 124. So the scale
/// is multiplied into the codes, and one F16 scale per super-block remains.
template <> struct GgufPanel<Format::Q3_K> : Gguf<Format::Q3_K> {
  static constexpr int kSub = 32, kZero = 124;

  MOE_INLINE static void codes(const BlockQ3_K *block, __m512i q[4]) {
    // Byte c of a sub-block's table is 124 + (c - 4) * scale. As each byte of
    // the result fits, all four can be computed as one number, with borrows
    // between bytes.
    __m512i scale = SuperBlock<Format::Q3_K>::integerScales(block);
    __m512i ramp = _mm512_mullo_epi32(scale, _mm512_set1_epi32(0x03020100));
    __m512i fours = _mm512_mullo_epi32(scale, _mm512_set1_epi32(0x04040404));
    __m512i upper = _mm512_add_epi32(ramp, _mm512_set1_epi32(0x7c7c7c7c));
    __m512i lower = _mm512_sub_epi32(upper, fours);
    __m512i lane = _mm512_setr_epi32(0, 16, 0, 16, 1, 17, 1, 17, 2, 18, 2, 18,
                                     3, 19, 3, 19);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      __m512i table = _mm512_permutex2var_epi32(
          lower, _mm512_add_epi32(lane, _mm512_set1_epi32(4 * v)), upper);
      q[v] =
          _mm512_shuffle_epi8(table, SuperBlock<Format::Q3_K>::codes(block, v));
    }
  }

  MOE_INLINE static __m512 scales(const BlockQ3_K *block) {
    return broadcastF16(block->d);
  }
};

} // namespace
} // namespace moek::avx512
#else
namespace moek::MOE_ISA {
namespace {

template <> struct SuperBlock<Format::Q3_K> {
  MOE_INLINE static Ints codes(const BlockQ3_K *block, int v) {
    Ints low = bitAnd(shiftRight16(load256(block->low + v / 4 * 32), v % 4 * 2),
                      set8(3));
    // Bit v becomes bit 2.
    Ints high = load256(block->high);
    high = v < 2 ? shiftLeft16(high, 2 - v) : shiftRight16(high, v - 2);
    return bitOr(low, bitAnd(high, set8(4)));
  }

  MOE_INLINE static Lanes16 scales(const BlockQ3_K *block) {
    uint64_t low;
    std::memcpy(&low, block->scales, sizeof(low));
    Ints nibbles = bitAnd(list64(low, low >> 4, 0, 0), set8(15));
    Ints tops = shiftRightEach32(set32(load32(block->scales + 8)),
                                 list32(0, 2, 4, 6, 0, 0, 0, 0));
    tops = shiftLeft32(bitAnd(tops, set8(3)), 4);
    Ints bytes = sub8(bitOr(nibbles, tops), set8(32));
    return scaledBytes(lowHalf(bytes), broadcastF16(block->d));
  }
};

} // namespace
} // namespace moek::MOE_ISA
#endif

#endif // MOE_KERNELS_CPU_GGUF_Q3_K_H
