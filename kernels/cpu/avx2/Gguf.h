//===- Gguf.h - Unpacks rows as in the file with AVX2 -----------*- C++ -*-===//
//
// Gguf<F> turns the blocks of format F into 8-bit codes in column order and
// float scales:
//
//   w[c] = scale * (code[c] - kZero) + kOffsetSign * offset
//
//   kSpan        columns per block: 256, 64 (ScaleCode::Floats) or 32
//   kMaxCode     codes are 0 .. kMaxCode; 0 means signed codes, -128 .. 127,
//                with kZero 0 (kSignedCodes)
//   kSub         columns per scale: 32 or 16
//   kOffsetSub   columns per offset: 32, 16, or 0 for none
//   codes(block, v)  columns 32 v .. 32 v + 31
//   scales(block)    if kSpan is 256: 8 or 16 scales, one per lane
//   scales(block, v) if kSpan is 64: the scales of columns 32 v .. 32 v + 15 in
//                    the lower lanes, of the 16 after them in the upper ones
//   offsets(block)   if kSpan is 256, with kOffsetSub: offsets, one per lane
// Blocks of 32 have an F16 scale `d` and, with kOffsetSub, an F16 offset `m`.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX2_GGUF_H
#define MOE_KERNELS_CPU_AVX2_GGUF_H

#include "kernels/cpu/avx2/Int8Common.h"
#include "kernels/quant/Blocks.h"

namespace moek::MOE_ISA {
namespace {

/// Returns the low nibbles of 16 bytes, followed by their high nibbles.
MOE_INLINE __m256i nibbles(const uint8_t *bytes) {
  __m128i low = load128(bytes);
  __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                         _mm_srli_epi16(low, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/// Returns 16 for each column whose bit is set in the 4 bytes at `high`, else
/// 0.
MOE_INLINE __m256i fifthBits(const uint8_t *high) {
  // Repeat each byte of the word eight times, then select one bit in each.
  __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(load32(high)),
                                      _mm256_setr_epi64x(0, 0x0101010101010101,
                                                         0x0202020202020202,
                                                         0x0303030303030303));
  __m256i bit = _mm256_set1_epi64x(int64_t(0x8040201008040201));
  __m256i isSet = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
  return _mm256_and_si256(isSet, _mm256_set1_epi8(16));
}

/// Blocks of 32 columns; all such formats store their bits in the same places.
template <Format F> struct SmallBlock {
  using Block = BlockOf<F>;
  MOE_INLINE static __m256i codes(const Block *block, int) {
    using Traits = BlockTraits<Block>;
    static_assert(Traits::kBits == 4 || Traits::kBits == 5 ||
                  Traits::kBits == 8);
    if constexpr (Traits::kBits == 8 && kSignedCodes<Block>)
      return load256(block->codes);
    else if constexpr (Traits::kBits == 8)
      return _mm256_xor_si256(load256(block->codes),
                              _mm256_set1_epi8(char(0x80)));
    else if constexpr (Traits::kBits == 5)
      return _mm256_or_si256(nibbles(block->low), fifthBits(block->high));
    else if constexpr (Traits::kHasValues)
      return valuesOf<Block>(nibbles(block->codes));
    else
      return nibbles(block->codes);
  }
};

/// Blocks of 64 columns with ScaleCode::Floats: eight bytes of codes hold eight
/// columns in their low and the next eight in their high nibbles.
template <Format F> struct FloatsBlock {
  using Block = BlockOf<F>;
  MOE_INLINE static __m256i codes(const Block *block, int v) {
    __m128i bytes = load128(block->codes + 16 * v);
    __m128i high = _mm_srli_epi16(bytes, 4);
    __m256i q = _mm256_set_m128i(_mm_unpackhi_epi64(bytes, high),
                                 _mm_unpacklo_epi64(bytes, high));
    return valuesOf<Block>(_mm256_and_si256(q, _mm256_set1_epi8(15)));
  }
  MOE_INLINE static __m256 scales(const Block *block, int v) {
    // What scaleBits() does.
    __m128i index =
        _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1);
    __m128i bytes = _mm_shuffle_epi8(
        _mm_set1_epi32(load32(block->scales) >> (16 * v)), index);
    __m128i bits = _mm_set1_epi8(0x7f);
    return floatScales(_mm_andnot_si128(_mm_cmpeq_epi8(bytes, bits),
                                        _mm_and_si128(bytes, bits)));
  }
};

/// codes(), scales() and offsets() of a super-block: see kernels/cpu/gguf. For
/// formats with octet() the codes are looked up octet by octet.
template <Format F> struct SuperBlock {
  using Block = BlockOf<F>;
  using Traits = BlockTraits<Block>;

  MOE_INLINE static __m256i codes(const Block *block, int v) {
    __m256i q = _mm256_setr_epi64x(
        int64_t(block->octet(4 * v)), int64_t(block->octet(4 * v + 1)),
        int64_t(block->octet(4 * v + 2)), int64_t(block->octet(4 * v + 3)));
    if constexpr (Traits::kHasValues)
      q = valuesOf<Block>(q);
    return q;
  }

  MOE_INLINE static Lanes16 scales(const Block *block) {
    static_assert(Traits::kOffsetSub == 0);
    alignas(16) int8_t numbers[16] = {};
#pragma GCC unroll 16
    for (int s = 0; s < 256 / Traits::kSub; ++s)
      numbers[s] = int8_t(block->scale(s));
    return scaledBytes(load128(numbers), broadcastScale(*block));
  }
};

template <Format F>
struct Gguf
    : std::conditional_t<BlockTraits<BlockOf<F>>::kIsSuper, SuperBlock<F>,
                         std::conditional_t<BlockTraits<BlockOf<F>>::kIsFloats,
                                            FloatsBlock<F>, SmallBlock<F>>> {
  using Block = BlockOf<F>;
  using Traits = BlockTraits<Block>;
  static constexpr int kSpan = Traits::kElements, kSub = Traits::kSub;
  static constexpr int kMaxCode = kSignedCodes<Block> ? 0 : Traits::kMaxCode;
  static constexpr int kZero = kSignedCodes<Block> ? 0 : Traits::kZero;
  static constexpr int kOffsetSub = Traits::kOffsetSub;
  static constexpr int kOffsetSign = Traits::kOffsetSign;
};

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_AVX2_GGUF_H
