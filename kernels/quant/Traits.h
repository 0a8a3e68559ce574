//===- Traits.h - What kernels need to know of a format ---------*- C++ -*-===//
//
// The block struct of a quantised format, BlockX in kernels/quant/X.h, says how
// a weight follows from the bits:
//
//   x[c] = d * scale(s) * (value(code[c]) - kZero) + offset(s),  s = c / kSub
//
//   kElements       columns of a block: 32, or 256 for a super-block
//   kCodeBits       2, 3, 4, 5, 6 or 8
//   kSub            columns that share a scale, and an offset: 16 or 32
//   kZero           the code of 0. 128: codes are 8 bits, with kValues those of
//                   the table plus 128
//   kScales         how scales are coded, which is how Rows16 stores them
//   kValues         optional: what a code stands for
//   Bits16 d        F16, and for an offset that is
//   Bits16 m        added: F16
//   Bits16 dmin     taken off, times min(s): F16
//   unpackCodes(to) the codes in column order, one byte each
//   scale(s), min(s)    of a super-block
//
// Everything else is derived from these: values (dequantize(), below), the
// interleaved layout (Rows16.h) and its kernels with AVX2, AVX-512 and AMX, and
// those on rows as in the file. A super-block is packed as its author liked, so
// that its codes and scales are unpacked by code of its own in
// kernels/cpu/gguf/X.h; blocks of 32 columns are all packed alike.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_TRAITS_H
#define MOE_KERNELS_QUANT_TRAITS_H

#include "kernels/quant/Half.h"

namespace moek {

enum class ScaleCode : uint8_t {
  Half,        ///< d alone: scale(s) is 1.
  Bytes,       ///< -128 .. 127.
  SixBits,     ///< -32 .. 31.
  SixBitPairs, ///< 0 .. 63, and a minimum likewise.
  NibblePairs, ///< 0 .. 15, and a minimum likewise.
};

/// Of a quantised format's block: what follows from its members.
template <class Block> struct BlockTraits {
  static constexpr int kElements = Block::kElements;
  static constexpr int kBits = Block::kCodeBits;
  static constexpr int kSub = Block::kSub;
  static constexpr int kZero = Block::kZero;
  static constexpr ScaleCode kScaleCode = Block::kScales;
  static constexpr bool kHasValues = requires { Block::kValues; };
  static constexpr bool kIsSuper = kElements == 256;
  /// Codes of 8 bits, 128 being zero.
  static constexpr bool kIsSigned = kZero == 128;
  /// An offset that is added, or times a minimum taken off.
  static constexpr bool kIsOffset1 = requires(Block b) { b.m; };
  static constexpr bool kHasDmin = requires(Block b) { b.dmin; };
  static constexpr int kOffsetSub = kIsOffset1 || kHasDmin ? kSub : 0;
  static constexpr int kOffsetSign = kHasDmin ? -1 : 1;
  /// Sums of 16 products with 127 fit 16 bits, so that vpmaddwd applies two
  /// integer scales at once.
  static constexpr bool kPairs =
      kSub == 16 && 16 * 127 * ((1 << kBits) - 1) <= 32767;
  /// Bytes that are not codes.
  static constexpr int kScaleBytes = int(sizeof(Block)) - kElements * kBits / 8;

  static_assert(kElements == 32 || kIsSuper);
  static_assert((kScaleCode != ScaleCode::Half) == kIsSuper);
};

/// The values of a block.
template <class Block>
requires requires { Block::kScales; }
void dequantize(const Block &block, float *out) {
  using Traits = BlockTraits<Block>;
  uint8_t codes[Traits::kElements];
  block.unpackCodes(codes);
  float d = f16ToFloat(block.d);
  for (int i = 0; i < Traits::kElements; ++i) {
    float scale = d;
    if constexpr (Traits::kIsSuper)
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
