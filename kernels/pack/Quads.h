//===- Quads.h - Packed words from words of GGUF blocks ---------*- C++ -*-===//
//
// A quad is a 32-bit word: the codes of four neighbouring columns of a row, one
// per byte, or four bytes of the scale part. Quads<Block> says how a block's
// quads follow from the block's own words, by operations that apply to one
// 32-bit word as well as to a vector of words of several rows:
//
//   kFirst          where the block's words begin: 0 .. 3 bytes after its start
//   code(w, g)      the codes of columns 4 g ... 4 g + 3 (Block::unpackCodes)
//   kNumberQuads    super-blocks: quads of the integers in the scale part
//   number(w, i)    bytes 4 i ... of these integers for a row (Rows16.h)
//
// where w(i) is the block's word i. A format without Quads is packed from
// unpackCodes() and scale(), byte by byte.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_PACK_QUADS_H
#define MOE_KERNELS_PACK_QUADS_H

#include "kernels/cpu/Inline.h"
#include "kernels/quant/Blocks.h"

#include <cstddef>

namespace moek {

template <class Block> struct Quads {};

/// Sixteen bytes of codes from word `First` on; byte i has element i in its low
/// and element i + 16 in its high nibble.
template <int Start, int First> struct NibbleQuads {
  static constexpr int kFirst = Start;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    return w(First + g % 4) >> (g / 4 * 4) & 0x0f0f0f0f;
  }
};

template <> struct Quads<BlockQ4_0> : NibbleQuads<2, 0> {};
template <> struct Quads<BlockQ4_1> : NibbleQuads<0, 1> {};
template <> struct Quads<BlockIQ4_NL> : NibbleQuads<2, 0> {};
template <> struct Quads<BlockMXFP4> : NibbleQuads<1, 0> {};

/// Does the work of NibbleQuads, with the fifth bits of all elements in word
/// `High`.
template <int Start, int High> struct FiveBitQuads {
  static constexpr int kFirst = Start;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    auto bits = w(High) >> (4 * g) & 15;
    auto spread =
        (bits | bits << 7 | bits << 14 | bits << 21) & 0x01010101; // Bit i to
    return NibbleQuads<Start, High + 1>::code(w, g) | spread << 4; // byte i.
  }
};

template <> struct Quads<BlockQ5_0> : FiveBitQuads<2, 0> {};
template <> struct Quads<BlockQ5_1> : FiveBitQuads<0, 1> {};

template <> struct Quads<BlockQ8_0> {
  static constexpr int kFirst = 2;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    return w(g) ^ 0x80808080;
  }
};

/// Two bits as Q2_K and Q3_K pack them, in words from `First` on.
template <int First, class W> MOE_INLINE auto twoBits(const W &w, int g) {
  return w(First + g / 32 * 8 + g % 8) >> (g / 8 % 4 * 2) & 0x03030303;
}

template <> struct Quads<BlockQ2_K> {
  static constexpr int kFirst = 0, kNumberQuads = 4;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    return twoBits<offsetof(BlockQ2_K, codes) / 4>(w, g);
  }
  template <class W> MOE_INLINE static auto number(const W &w, int i) {
    return w(i);
  }
};

template <> struct Quads<BlockQ3_K> {
  static constexpr int kFirst = 0, kNumberQuads = 3;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    return twoBits<offsetof(BlockQ3_K, low) / 4>(w, g) |
           (w(g % 8) >> (g / 8) & 0x01010101) << 2;
  }
  /// The file pairs the same numbers as the panel.
  template <class W> MOE_INLINE static auto number(const W &w, int i) {
    return w(int(offsetof(BlockQ3_K, scales) / 4) + i);
  }
};

/// The nibbles of Q4_K and Q5_K, in words from `First` on, and their KScales.
template <int First> struct KQuads {
  static constexpr int kFirst = 0, kNumberQuads = 3;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    return w(First + g / 16 * 8 + g % 8) >> (g / 8 % 2 * 4) & 0x0f0f0f0f;
  }
  /// Numbers i and 8 + i of a panel are scale and minimum i, whose low halves
  /// are one byte of the file for i >= 4. The top halves of scales i and 4 + i
  /// are the upper nibble of byte i, those of the minima that of byte 4 + i.
  template <class W> MOE_INLINE static auto number(const W &w, int i) {
    if (i == 0)
      return (w(1) & 0x0f0f0f0f) | (w(2) & 0x0f0f0f0f) << 4;
    if (i == 1)
      return w(3) | 0;
    return (w(1) >> 4 & 0x0f0f0f0f) | (w(2) & 0xf0f0f0f0);
  }
};

template <> struct Quads<BlockQ4_K> : KQuads<offsetof(BlockQ4_K, codes) / 4> {};
template <> struct Quads<BlockQ5_K> : KQuads<offsetof(BlockQ5_K, low) / 4> {
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    constexpr int kHigh = offsetof(BlockQ5_K, high) / 4;
    return KQuads::code(w, g) | (w(kHigh + g % 8) >> (g / 8) & 0x01010101) << 4;
  }
};

template <> struct Quads<BlockQ6_K> {
  static constexpr int kFirst = 0, kNumberQuads = 4;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    constexpr int kHigh = offsetof(BlockQ6_K, high) / 4;
    int half = g / 32, k = g / 8 % 4;
    auto low = w(16 * half + k % 2 * 8 + g % 8) >> (k / 2 * 4);
    auto top = w(kHigh + 8 * half + g % 8) >> (2 * k);
    return (low & 0x0f0f0f0f) | (top & 0x03030303) << 4;
  }
  template <class W> MOE_INLINE static auto number(const W &w, int i) {
    return w(int(offsetof(BlockQ6_K, scales) / 4) + i);
  }
};

/// Exchanges bits of a word: those of `mask` with those `by` places higher.
template <class Word> MOE_INLINE Word swapBits(Word x, uint32_t mask, int by) {
  Word t = (x ^ x >> by) & mask;
  return x ^ t ^ t << by;
}

template <> struct Quads<BlockIQ4_XS> {
  static constexpr int kFirst = 0, kNumberQuads = 2;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    return w(2 + g / 8 * 4 + g % 4) >> (g / 4 % 2 * 4) & 0x0f0f0f0f;
  }
  /// Eight nibbles in order become pairs of number i and number 4 + i. Of eight
  /// top halves in order those with even and with odd numbers become bytes, in
  /// the lower half of the second quad.
  template <class W> MOE_INLINE static auto number(const W &w, int i) {
    if (i == 0)
      return swapBits(swapBits(w(1), 0x0000ff00, 8), 0x00f000f0, 4);
    return swapBits(swapBits(w(0) >> 16, 0x0c0c, 2), 0x00f0, 4);
  }
};

template <> struct Quads<BlockNVFP4> {
  static constexpr int kFirst = 0, kNumberQuads = 1;
  template <class W> MOE_INLINE static auto code(const W &w, int g) {
    return w(1 + g / 4 * 2 + g % 2) >> (g / 2 % 2 * 4) & 0x0f0f0f0f;
  }
  /// Bytes 0x7f become 0, others lose their sign. Adding 1 carries into bit 7
  /// of what was 0x7f with or without it.
  template <class W> MOE_INLINE static auto number(const W &w, int) {
    auto bits = w(0) & 0x7f7f7f7f;
    auto isSpecial = (bits + 0x01010101) & ~w(0) & 0x80808080;
    return bits & ~(isSpecial - (isSpecial >> 7));
  }
};

} // namespace moek

#endif // MOE_KERNELS_PACK_QUADS_H
