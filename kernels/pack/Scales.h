//===- Scales.h - The scale part of a tile, from blocks ---------*- C++ -*-===//
//
// Every packer uses it for what it has no faster way for. A format needs only
// the members that kernels/quant/Traits.h names.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_PACK_SCALES_H
#define MOE_KERNELS_PACK_SCALES_H

#include "kernels/cpu/Inline.h"
#include "kernels/quant/Blocks.h"
#include "kernels/quant/Rows16.h"

#include <cstring>

namespace moek {

/// One byte per row.
using Bytes16 = uint8_t[kRows16];

/// Stores `count` vectors of 16 bytes; byte `row` of vector i is fn(i, row).
/// The vectors follow each other or, if `Paired`, the bytes of two of them
/// alternate. Returns the address after them, like all functions here.
template <bool Paired, class Fn>
MOE_INLINE uint8_t *putBytes(uint8_t *out, int count, Fn fn) {
  for (int i = 0; i < count; ++i) {
    uint8_t *to =
        Paired ? out + i / 2 * 2 * kRows16 + i % 2 : out + i * kRows16;
    for (int r = 0; r < kRows16; ++r)
      to[Paired ? 2 * r : r] = uint8_t(fn(i, r));
  }
  return out + count * kRows16;
}

/// Stores N six-bit numbers of each row; number i of row r is fn(i, r).
template <bool Paired, int N, class Fn>
MOE_INLINE uint8_t *putSixBits(uint8_t *out, Fn fn) {
  Bytes16 numbers[N] = {};
  for (int i = 0; i < N; ++i)
    for (int r = 0; r < kRows16; ++r)
      numbers[i][r] = uint8_t(fn(i, r));
  out = putBytes<Paired>(out, N / 2, [&](int i, int r) {
    return (numbers[i][r] & 15) | (numbers[N / 2 + i][r] & 15) << 4;
  });
  return putBytes<Paired>(out, N / 4, [&](int i, int r) {
    int top = 0;
    for (int j = 0; j < 4; ++j)
      top |= numbers[j * N / 4 + i][r] >> 4 << (2 * j);
    return top;
  });
}

/// Stores d, m and dmin; blocks[r] is the block of row r, of `count` rows.
template <class Block>
MOE_INLINE uint8_t *putHalves(const Block *const *blocks, int count,
                              uint8_t *out) {
  using Traits = BlockTraits<Block>;
  auto put = [&](auto number) {
    using Number = decltype(number(*blocks[0]));
    for (int r = 0; r < count; ++r) {
      Number value = number(*blocks[r]);
      std::memcpy(out + r * int(sizeof(value)), &value, sizeof(value));
    }
    out += kRows16 * int(sizeof(Number));
  };
  if constexpr (Traits::kIsExponent)
    put([](const Block &block) { return block.d; });
  else if constexpr (!Traits::kIsFloats)
    put([](const Block &block) { return halfOf(block); });
  if constexpr (Traits::kIsOffset1)
    put([](const Block &block) { return block.m; });
  if constexpr (Traits::kHasDmin)
    put([](const Block &block) { return block.dmin; });
  return out;
}

/// Stores the integers of sub-blocks; rows that do not exist get zeros.
template <class Block>
MOE_INLINE uint8_t *putNumbers(const Block *const *blocks, int count,
                               uint8_t *out) {
  using Traits = BlockTraits<Block>;
  constexpr int kScales = Traits::kElements / Traits::kSub;
  constexpr bool kPaired = Traits::kPairs;
  auto ofRows = [&](auto number) {
    return [=](int i, int r) { return r < count ? number(*blocks[r], i) : 0; };
  };
  if constexpr (Traits::kScaleCode == ScaleCode::SixBitPairs)
    return putSixBits<kPaired, 2 * kScales>(
        out, ofRows([](const Block &block, int i) {
          return i < kScales ? block.scale(i) : block.min(i - kScales);
        }));
  else if constexpr (Traits::kScaleCode == ScaleCode::SixBits)
    return putSixBits<kPaired, kScales>(
        out,
        ofRows([](const Block &block, int i) { return block.scale(i) + 32; }));
  else if constexpr (Traits::kScaleCode == ScaleCode::Bytes)
    return putBytes<kPaired>(
        out, kScales,
        ofRows([](const Block &block, int i) { return block.scale(i); }));
  else if constexpr (Traits::kIsFloats)
    return putBytes<kPaired>(
        out, kScales,
        ofRows([](const Block &block, int i) { return block.scaleBits(i); }));
  else if constexpr (Traits::kScaleCode == ScaleCode::NibblePairs)
    return putBytes<kPaired>(out, kScales,
                             ofRows([](const Block &block, int i) {
                               return block.scale(i) | block.min(i) << 4;
                             }));
  else if constexpr (Traits::kScaleCode == ScaleCode::OddNibbles)
    return putBytes<kPaired>(
        out, kScales / 2, ofRows([](const Block &block, int i) {
          return block.scale(i) / 2 | block.scale(kScales / 2 + i) / 2 << 4;
        }));
  else
    return out;
}

/// Stores the bits of kShiftCols columns each.
template <class Block>
MOE_INLINE uint8_t *putShifts(const Block *const *blocks, int count,
                              uint8_t *out) {
  using Traits = BlockTraits<Block>;
  if constexpr (Traits::kShiftCols != 0)
    for (int i = 0; i < Traits::kElements / Traits::kShiftCols; ++i, out += 2) {
      unsigned bits = 0;
      for (int r = 0; r < count; ++r)
        bits |= unsigned(blocks[r]->shift(i)) << r;
      Bits16 word = Bits16::of(uint16_t(bits));
      std::memcpy(out, &word, 2);
    }
  return out;
}

} // namespace moek

#endif // MOE_KERNELS_PACK_SCALES_H
