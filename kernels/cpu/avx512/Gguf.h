//===- Gguf.h - Unpacks rows as in the file with AVX-512 --------*- C++ -*-===//
//
// Gguf<F> turns the blocks of format F into unsigned 8-bit codes in column
// order and float scales:
//
//   w[c] = scale * (code[c] - kZero) + kOffsetSign * offset
//
// The tilings in Int8Dot.h and Int8Panel.h use these. There are two kinds:
//
// kSpan = 256, super-blocks with a row of scales in registers
//   kSub         columns per scale: 32 or 16
//   kOffsetSub   columns per offset: 32, 16, or 0 for none
//   codes(block, q)  256 codes in q[0..3]
//   scales(block)    kSub 16: 16 scales; kSub 32: 8 scales in lanes 0..7 and,
//                    with kOffsetSub 32, 8 offsets in lanes 8..15
//   offsets(block)   kOffsetSub 16 only: 16 offsets
// kSpan = 64, two blocks of 32 with F16 `d` and, with an offset, `m`, or one
// with ScaleCode::Floats
//   codes<Half>(block)  64 codes, or, when Half, 32 and then zeros
//
// GgufPanel<F> is the same for panels, where unpacking is rare but scaling
// frequent: there a format may multiply a scale into its codes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AVX512_GGUF_H
#define MOE_KERNELS_CPU_AVX512_GGUF_H

#include "kernels/cpu/avx512/Int8Common.h"
#include "kernels/quant/Blocks.h"

namespace moek::avx512 {
namespace {

// Byte i of a block of 32 holds elements i and i + 16, so a 128-bit lane of
// codes is either the low or the high nibbles of 16 bytes.

/// Returns the low nibbles of lanes 0 and 2 and the high nibbles of lanes 1 and
/// 3.
MOE_INLINE __m512i alternatingNibbles(__m512i bytes) {
  __m512i shifts =
      _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0,
                        0x0004000400040004, 0x0004000400040004);
  return _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts),
                          _mm512_set1_epi8(15));
}

/// Returns 64 codes from the 16 bytes of each of two blocks; if Half, 32 codes
/// of `first` and then zeros.
template <bool Half>
MOE_INLINE __m512i nibbles(const uint8_t *first, const uint8_t *second) {
  if constexpr (Half)
    return alternatingNibbles(
        _mm512_zextsi256_si512(_mm256_broadcastsi128_si256(load128(first))));
  __m512i bytes = _mm512_broadcast_i32x4(load128(first));
  return alternatingNibbles(
      _mm512_mask_broadcast_i32x4(bytes, 0xff00, load128(second)));
}

/// Adds 16 to the codes whose bit is set in the blocks' `high` words.
template <bool Half>
MOE_INLINE __m512i addFifthBit(__m512i codes, const uint8_t *first,
                               const uint8_t *second) {
  uint64_t bits = uint32_t(load32(first));
  if constexpr (!Half)
    bits |= uint64_t(uint32_t(load32(second))) << 32;
  return _mm512_mask_add_epi8(codes, bits, codes, _mm512_set1_epi8(16));
}

/// Blocks of 32 columns; all such formats store their bits in the same places.
template <Format F> struct SmallBlock {
  using Block = BlockOf<F>;
  template <bool Half> MOE_INLINE static __m512i codes(const Block *block) {
    using Traits = BlockTraits<Block>;
    static_assert(Traits::kBits == 4 || Traits::kBits == 5 ||
                  Traits::kBits == 8);
    if constexpr (Traits::kBits == 8) {
      __m512i q = _mm512_zextsi256_si512(load256(block[0].codes));
      if constexpr (!Half)
        q = _mm512_inserti64x4(q, load256(block[1].codes), 1);
      return _mm512_xor_si512(q, _mm512_set1_epi8(char(0x80)));
    } else if constexpr (Traits::kBits == 5) {
      return addFifthBit<Half>(nibbles<Half>(block[0].low, block[1].low),
                               block[0].high, block[1].high);
    } else {
      __m512i q = nibbles<Half>(block[0].codes, block[1].codes);
      // The upper half of a half span looks up nibble 0; its activations are 0.
      if constexpr (Traits::kHasValues)
        q = valuesOf<Block>(q);
      return q;
    }
  }
};

/// Blocks of 64 columns with ScaleCode::Floats: eight bytes of codes hold eight
/// columns in their low and the next eight in their high nibbles.
template <Format F> struct FloatsBlock {
  using Block = BlockOf<F>;
  template <bool Half> MOE_INLINE static __m512i codes(const Block *block) {
    static_assert(!Half);
    __m512i twice =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3),
                                 _mm512_castsi256_si512(load256(block->codes)));
    __m512i q =
        _mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4));
    return valuesOf<Block>(_mm512_and_si512(q, _mm512_set1_epi8(15)));
  }
};

/// codes(), scales() and offsets() of a super-block: see kernels/cpu/gguf. For
/// formats with octet() the codes are looked up octet by octet.
template <Format F> struct SuperBlock {
  using Block = BlockOf<F>;
  using Traits = BlockTraits<Block>;

  MOE_INLINE static void codes(const Block *block, __m512i q[4]) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      q[v] = _mm512_setr_epi64(
          int64_t(block->octet(8 * v)), int64_t(block->octet(8 * v + 1)),
          int64_t(block->octet(8 * v + 2)), int64_t(block->octet(8 * v + 3)),
          int64_t(block->octet(8 * v + 4)), int64_t(block->octet(8 * v + 5)),
          int64_t(block->octet(8 * v + 6)), int64_t(block->octet(8 * v + 7)));
      if constexpr (Traits::kHasValues)
        q[v] = valuesOf<Block>(q[v]);
    }
  }

  MOE_INLINE static __m512 scales(const Block *block) {
    static_assert(Traits::kOffsetSub == 0);
    alignas(16) int8_t numbers[16] = {};
#pragma GCC unroll 16
    for (int s = 0; s < 256 / Traits::kSub; ++s)
      numbers[s] = int8_t(block->scale(s));
    return _mm512_mul_ps(
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(numbers))),
        broadcastScale(*block));
  }
};

template <Format F>
struct Gguf
    : std::conditional_t<BlockTraits<BlockOf<F>>::kIsSuper, SuperBlock<F>,
                         std::conditional_t<BlockTraits<BlockOf<F>>::kIsFloats,
                                            FloatsBlock<F>, SmallBlock<F>>> {
  using Block = BlockOf<F>;
  using Traits = BlockTraits<Block>;
  static constexpr int kSpan = Traits::kIsSuper ? 256 : 64;
  static constexpr int kSub = Traits::kSub, kZero = Traits::kZero;
  static constexpr int kOffsetSub = Traits::kOffsetSub;
  static constexpr int kOffsetSign = Traits::kOffsetSign;
};

template <Format F> struct GgufPanel : Gguf<F> {};

} // namespace
} // namespace moek::avx512

#endif // MOE_KERNELS_CPU_AVX512_GGUF_H
