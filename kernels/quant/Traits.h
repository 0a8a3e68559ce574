//===- Traits.h - Properties of a format that kernels need ------*- C++ -*-===//
//
// The block struct of a quantised format, BlockX in kernels/quant/X.h, defines
// how a weight is computed from the bits:
//
//   x[c] = d * kUnit * scale(s) * (value(code[c]) - kZero) + offset(s),
//   s = c / kSub
//
//   kElements       columns of a block: 32, 64 with ScaleCode::Floats, or 256
//                   for a super-block
//   kCodeBits       bits of a code in Rows16: 2, 3, 4, 5, 6 or 8
//   kSub            columns that share a scale and an offset: 16 or 32
//   kZero           the code of weight 0. If it is 128, codes have 8 bits, and
//                   with kValues they are the table's values plus 128
//   kScales         how scales are coded, and thus how Rows16 stores them
//   kValues         optional table of 16 values; value(code) is its entry plus
//                   kZero. With kZero 128 it is multiplied as a signed byte if
//                   the instruction set has nothing better.
//   kUnit           optional power of two
//   kShiftCols      optional: columns that share a bit that shifts their values
//                   by one step, see IQ1_S.h; unpackCodes() includes it
//   Bits16 d        F16 (a method if its bits are scattered); uint8_t: the
//                   exponent of d; none with ScaleCode::Floats, where d is 1
//   Bits16 m        optional F16 offset that is added
//   Bits16 dmin     optional F16 factor; dmin * min(s) is subtracted
//   unpackCodes(to) writes the codes in column order, one byte each
//   octet(i)        optional: codes 8 i .. 8 i + 7 from the lowest byte up.
//                   Super-blocks that have it need no kernels/cpu/gguf/X.h.
//   scale(s), min(s)    integer scale and minimum of a super-block's sub-block
//   scaleBits(s)    ScaleCode::Floats: twice scale(s), which is no integer, as
//                   E4M3 without a sign
//   shift(i)        the shift bit of columns kShiftCols i ...
//
// Everything else is derived from these: values (dequantize(), below), the
// interleaved layout (Rows16.h) and its kernels with AVX2, AVX-512 and AMX, and
// the kernels on rows as in the file. The packing of a super-block is different
// in each format, so code in kernels/cpu/gguf/X.h unpacks its codes and scales;
// blocks of 32 columns are all packed alike.
//
// Codes of a block may be indices into a grid of the format (Grids.h): then
// kCodeBits are the bits of a single value, and Rows16 takes more bytes than
// the file.
//
// A format that only the reference kernel multiplies defines its values by its
// own dequantize() instead.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_TRAITS_H
#define MOE_KERNELS_QUANT_TRAITS_H

#include "kernels/quant/Half.h"

namespace moek {

enum class ScaleCode : uint8_t {
  Half,        ///< Only d: scale(s) is 1.
  Exponent,    ///< Only d, which is 2^(byte - 128).
  Bytes,       ///< -128 .. 127.
  SixBits,     ///< -32 .. 31.
  SixBitPairs, ///< 0 .. 63, and minima 0 .. 63.
  NibblePairs, ///< 0 .. 15, and minima 0 .. 15.
  OddNibbles,  ///< 1, 3, .. 31.
  Floats,      ///< Halves of E4M3 numbers without a sign, and no d.
};

/// Seven places higher, the bits of an E4M3 number are those of an F16 number,
/// also below the normal range: 2^-8 of it. scale(s) of ScaleCode::Floats is
/// this factor times that number.
inline constexpr float kFloatsUnit = 0x1p7f;

/// Properties that follow from the members of a quantised format's block.
template <class Block> struct BlockTraits {
  static constexpr int kElements = Block::kElements;
  static constexpr int kBits = Block::kCodeBits;
  static constexpr int kSub = Block::kSub;
  static constexpr int kZero = Block::kZero;
  static constexpr ScaleCode kScaleCode = Block::kScales;
  static constexpr bool kHasValues = requires { Block::kValues; };
  static constexpr bool kIsSuper = kElements == 256;
  /// Codes have 8 bits, and 128 is zero.
  static constexpr bool kIsSigned = kZero == 128;
  static constexpr bool kIsExponent = kScaleCode == ScaleCode::Exponent;
  static constexpr bool kIsFloats = kScaleCode == ScaleCode::Floats;
  /// Sub-blocks have a scale of their own.
  static constexpr bool kHasNumbers = kIsSuper || kIsFloats;
  static constexpr float kUnit = [] {
    if constexpr (requires { Block::kUnit; })
      return Block::kUnit;
    return 1.0f;
  }();
  static constexpr int kShiftCols = [] {
    if constexpr (requires { Block::kShiftCols; })
      return Block::kShiftCols;
    return 0;
  }();
  /// The smallest and the largest value after subtracting kZero (kLow, kHigh),
  /// and the largest unpacked code, which includes kZero (kMaxCode).
  static constexpr int kLow = [] {
    int low = kIsSigned ? -128 : -kZero;
    if constexpr (kHasValues) {
      low = 0;
      for (int value : Block::kValues)
        low = value < low ? value : low;
    }
    return low;
  }();
  static constexpr int kMaxCode = [] {
    // 8 times the digit, plus twice the shift bit.
    int most = kShiftCols ? 8 * 2 + 2 : (1 << kBits) - 1;
    if constexpr (kHasValues) {
      most = kZero;
      for (int value : Block::kValues)
        most = value + kZero > most ? value + kZero : most;
    }
    return most;
  }();
  static constexpr int kHigh = kMaxCode - kZero;
  /// Whether an offset is added (m), or a multiple of a minimum subtracted
  /// (dmin).
  static constexpr bool kIsOffset1 = requires(Block b) { b.m; };
  static constexpr bool kHasDmin = requires(Block b) { b.dmin; };
  static constexpr int kOffsetSub = kIsOffset1 || kHasDmin ? kSub : 0;
  static constexpr int kOffsetSign = kHasDmin ? -1 : 1;
  /// Sums of 16 products with 127 fit in 16 bits, so that vpmaddwd can apply
  /// two integer scales at once.
  static constexpr bool kPairs = kSub == 16 && !kHasValues && !kShiftCols &&
                                 16 * 127 * ((1 << kBits) - 1) <= 32767;
  /// Bytes per row and block in Rows16 of vectors over rows: of the F16 numbers
  /// (or exponents), of the integers after them, and of the bits of kShiftCols.
  static constexpr int kHalfBytes = kIsFloats ? 0
                                    : kIsExponent
                                        ? 1
                                        : 2 * (1 + kIsOffset1 + kHasDmin);
  static constexpr int kNumberBytes = [] {
    int scales = kElements / kSub;
    switch (kScaleCode) {
    case ScaleCode::Half:
    case ScaleCode::Exponent:
      return 0;
    case ScaleCode::Bytes:
    case ScaleCode::NibblePairs:
    case ScaleCode::Floats:
      return scales;
    case ScaleCode::SixBits:
      return scales * 6 / 8;
    case ScaleCode::SixBitPairs:
      return scales * 12 / 8;
    case ScaleCode::OddNibbles:
      return scales / 2;
    }
    return 0;
  }();
  static constexpr int kShiftBytes =
      kShiftCols ? kElements / kShiftCols / 8 : 0;
  static constexpr int kScaleBytes = kHalfBytes + kNumberBytes + kShiftBytes;
  static constexpr int kPackedBytes = kScaleBytes + kElements * kBits / 8;
  /// A grid encodes more values in its bits than codes of single values could.
  static constexpr bool kIsGrid = kPackedBytes != int(sizeof(Block));

  static_assert(kElements == 32 || kHasNumbers);
  static_assert((kScaleCode != ScaleCode::Half && !kIsExponent) == kHasNumbers);
  static_assert(!kIsFloats || kElements == 64);
  static_assert(kPackedBytes >= int(sizeof(Block)));
};

/// Returns a block's F16 scale.
template <class Block>
[[gnu::always_inline]] constexpr Bits16 halfOf(const Block &block) {
  if constexpr (requires { block.d(); })
    return block.d();
  else
    return block.d;
}

/// Returns d * kUnit of a block.
template <class Block> constexpr float scaleOf(const Block &block) {
  if constexpr (BlockTraits<Block>::kIsExponent)
    return exponentToFloat(block.d);
  else if constexpr (BlockTraits<Block>::kIsFloats)
    return 1;
  else
    return f16ToFloat(halfOf(block)) * BlockTraits<Block>::kUnit;
}

/// Computes the values of a block.
template <class Block>
requires requires { Block::kScales; }
void dequantize(const Block &block, float *out) {
  using Traits = BlockTraits<Block>;
  uint8_t codes[Traits::kElements];
  block.unpackCodes(codes);
  float d = scaleOf(block);
  for (int i = 0; i < Traits::kElements; ++i) {
    float scale = d;
    if constexpr (Traits::kHasNumbers)
      scale = d * float(block.scale(i / Traits::kSub));
    int code = codes[i] - Traits::kZero;
    if constexpr (Traits::kHasValues)
      code = Block::kValues[codes[i]];
    out[i] = scale * float(code);
    if constexpr (Traits::kIsOffset1)
      out[i] += f16ToFloat(block.m);
    if constexpr (Traits::kHasDmin)
      out[i] -= f16ToFloat(block.dmin) * float(block.min(i / Traits::kSub));
  }
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_TRAITS_H
