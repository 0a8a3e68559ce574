//===- Gguf.h - Unpacks rows as in the file ---------------------*- C++ -*-===//
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

#ifndef MOE_KERNELS_CPU_LANES8_GGUF_H
#define MOE_KERNELS_CPU_LANES8_GGUF_H

#include "kernels/cpu/lanes8/Int8Common.h"
#include "kernels/quant/Blocks.h"

namespace moek::MOE_ISA {
namespace {

/// Returns 16 for each column whose bit is set in the 4 bytes at `high`, else
/// 0.
MOE_INLINE Ints fifthBits(const uint8_t *high) {
  // Repeat each byte of the word eight times, then select one bit in each.
  Ints bytes = shuffle(
      set32(load32(high)),
      list64(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  Ints bit = set64(0x8040201008040201);
  Ints isSet = equal8(bitAnd(bytes, bit), bit);
  return bitAnd(isSet, set8(16));
}

/// Blocks of 32 columns; all such formats store their bits in the same places.
template <Format F> struct SmallBlock {
  using Block = BlockOf<F>;
  MOE_INLINE static Ints codes(const Block *block, int) {
    using Traits = BlockTraits<Block>;
    static_assert(Traits::kBits == 4 || Traits::kBits == 5 ||
                  Traits::kBits == 8);
    if constexpr (Traits::kBits == 8 && kSignedCodes<Block>)
      return load256(block->codes);
    else if constexpr (Traits::kBits == 8)
      return bitXor(load256(block->codes), set8(char(0x80)));
    else if constexpr (Traits::kBits == 5)
      return bitOr(nibbles(load128(block->low)), fifthBits(block->high));
    else if constexpr (Traits::kHasValues)
      return valuesOf<Block>(nibbles(load128(block->codes)));
    else
      return nibbles(load128(block->codes));
  }
};

/// Blocks of 64 columns with ScaleCode::Floats: eight bytes of codes hold eight
/// columns in their low and the next eight in their high nibbles.
template <Format F> struct FloatsBlock {
  using Block = BlockOf<F>;
  MOE_INLINE static Ints codes(const Block *block, int v) {
    return valuesOf<Block>(nibbleOctets(load128(block->codes + 16 * v)));
  }
  MOE_INLINE static Floats scales(const Block *block, int v) {
    // The same result as that of scaleBits().
    Ints index = twice(bytes16(0x0101010100000000, 0x8080808080808080));
    Ints bytes = shuffle(set32(load32(block->scales) >> (16 * v)), index);
    Ints bits = set8(0x7f);
    return floatScales(
        lowHalf(andNot(bitAnd(bytes, bits), equal8(bytes, bits))));
  }
};

/// codes(), scales() and offsets() of a super-block: see kernels/cpu/gguf. For
/// formats with octet() the codes are looked up octet by octet.
template <Format F> struct SuperBlock {
  using Block = BlockOf<F>;
  using Traits = BlockTraits<Block>;

  MOE_INLINE static Ints codes(const Block *block, int v) {
    Ints q = list64(block->octet(4 * v), block->octet(4 * v + 1),
                    block->octet(4 * v + 2), block->octet(4 * v + 3));
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

#endif // MOE_KERNELS_CPU_LANES8_GGUF_H
