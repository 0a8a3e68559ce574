//===- gemm_q3_k.cpp - Q3_K with VNNI -------------------------------------===//

#include "kernels/cpu/avx512/Int8Gemm.h"
#include "kernels/cpu/avx512/Rows16Gemm.h"
#include "kernels/quant/Q3_K.h"

namespace moek::avx512 {
namespace {
struct Q3_K {
  using Block = BlockQ3_K;
  static constexpr int kSpan = 256, kSub = 16, kZero = 4;
  static constexpr int kOffsetSub = 0, kOffsetSign = 1;

  /// Codes 0 .. 7 of columns 64 v .. 64 v + 63.
  MOE_INLINE __m512i codes(const Block *block, int v) {
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

  MOE_INLINE void codes(const Block *block, __m512i q[4]) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      q[v] = codes(block, v);
  }

  /// The 16 scales, -32 .. 31, as int32.
  MOE_INLINE __m512i integerScales(const Block *block) {
    uint64_t low;
    std::memcpy(&low, block->scales, sizeof(low));
    __m128i nibbles = _mm_and_si128(
        _mm_set_epi64x(int64_t(low >> 4), int64_t(low)), _mm_set1_epi8(15));
    __m128i tops = _mm_srlv_epi32(_mm_set1_epi32(load32(block->scales + 8)),
                                  _mm_setr_epi32(0, 2, 4, 6));
    tops = _mm_slli_epi32(_mm_and_si128(tops, _mm_set1_epi8(3)), 4);
    return _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_or_si128(nibbles, tops)),
                            _mm512_set1_epi32(32));
  }

  MOE_INLINE __m512 scales(const Block *block) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(integerScales(block)),
                         broadcastF16(block->d));
  }
};

/// For panels, where unpacking is rare and scaling is not: (code - 4) * scale
/// lies in -124 .. 128; adding 124 makes it an unsigned byte, so the scale is
/// multiplied into the codes and one F16 scale per super-block remains.
struct Q3_KScaled : Q3_K {
  static constexpr int kSub = 32, kZero = 124;

  MOE_INLINE void codes(const Block *block, __m512i q[4]) {
    // Byte c of a sub-block's table is 124 + (c - 4) * scale. As the bytes of
    // the result fit, they can be computed as one number, borrows included.
    __m512i scale = integerScales(block);
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
      q[v] = _mm512_shuffle_epi8(table, Q3_K::codes(block, v));
    }
  }

  MOE_INLINE __m512 scales(const Block *block) {
    return broadcastF16(block->d);
  }
};
} // namespace
} // namespace moek::avx512

MOE_INT8_GEMM(gemm_q3_k_avx512, Q3_K, Q3_KScaled)
MOE_ROWS16_GEMM(gemm_q3_k_rows16_avx512, Q3_K)
