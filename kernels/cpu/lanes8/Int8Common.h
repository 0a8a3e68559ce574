//===- Int8Common.h - Building blocks of integer gemms ----------*- C++ -*-===//
//
// Everything here has internal linkage: see kernels/CMakeLists.txt.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_LANES8_INT8COMMON_H
#define MOE_KERNELS_CPU_LANES8_INT8COMMON_H

#include "kernels/cpu/lanes8/Bytes.h"
#include "kernels/quant/Traits.h"

namespace moek::MOE_ISA {
namespace {

/// Up to 16 numbers, one per sub-block of a super-block.
struct Lanes16 {
  Floats low, high;
};

/// Broadcasts an F16 number of a block to every lane.
template <class T> MOE_INLINE Floats broadcastF16(const T &from) {
  return broadcastHalf(load16(from));
}

/// Returns 16 small integers times `factor`.
MOE_INLINE Lanes16 scaledBytes(Bytes16 signedBytes, Floats factor) {
  Ints low = signed32(signedBytes);
  Ints high = signed32(upper8(signedBytes));
  return {Simd::mul(toFloats(low), factor), Simd::mul(toFloats(high), factor)};
}

/// Whether codes of a format are multiplied as signed bytes. Where products are
/// of unsigned and signed bytes, those of 8 bits are, unless products take
/// codes above 128. Where both are signed, so are values of tables.
template <class Block>
constexpr bool kSignedCodes =
    kSignedDots
        ? BlockTraits<Block>::kIsSigned || BlockTraits<Block>::kHasValues
        : BlockTraits<Block>::kIsSigned && !kHasDots;

/// Returns the values of codes 0 .. 15 of a format, plus kZero unless they are
/// signed.
template <class Block> MOE_INLINE Ints valuesOf(Ints codes) {
  Ints table = twice(load128(Block::kValues));
  if constexpr (!kSignedCodes<Block>)
    table = add8(table, set8(char(Block::kZero)));
  return shuffle(table, codes);
}

/// Returns 2^(exponent - 128) of numbers 0 .. 255. The float's exponent bits
/// are one less than the number; 2^-127 and 2^-128 are denormal and have none.
MOE_INLINE Floats exponents(Ints numbers) {
  Ints less = sub32(numbers, set32(1));
  Ints bits = max32(shiftLeft32(less, 23), shiftLeft32(numbers, 22));
  return asFloats(max32(bits, set32(0x00200000)));
}

/// Returns scale(s) of blocks or sub-blocks from the lower eight of their
/// scaleBits(s).
MOE_INLINE Floats floatScales(Bytes16 numbers) {
  return Simd::mul(halves(shiftBytes7(numbers)), Simd::set(kFloatsUnit));
}

/// Broadcasts d * kUnit of a block to every lane.
template <class Block> MOE_INLINE Floats broadcastScale(const Block &block) {
  if constexpr (BlockTraits<Block>::kIsExponent)
    return exponents(set32(block.d));
  else if constexpr (BlockTraits<Block>::kUnit != 1)
    return Simd::mul(broadcastF16(halfOf(block)),
                     Simd::set(BlockTraits<Block>::kUnit));
  else
    return broadcastF16(block.d);
}

/// Adds pairs of neighbouring int16.
MOE_INLINE Ints pairSums(Ints sums16) { return pairProducts(sums16, set16(1)); }

} // namespace
} // namespace moek::MOE_ISA

#endif // MOE_KERNELS_CPU_LANES8_INT8COMMON_H
