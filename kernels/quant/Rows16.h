//===- Rows16.h - Layout of sixteen interleaved weight rows -----*- C++ -*-===//
//
// The compiler writes this layout into plan.weights; vector kernels read it at
// memory speed. It holds exactly the bits of the GGUF blocks (except for grid
// formats, see below), in another order:
//   * A 64-byte vector of unpacked codes holds four neighbouring columns of 16
//     rows: byte 4 r + j is row r, column 4 g + j of column group g. One
//     broadcast of four activations serves 16 rows (vpdpbusd), sums need no
//     reduction, and 16 such vectors are one B tile of AMX.
//   * Scales are vectors over rows.
//   * A kernel reads one stream of ascending addresses.
//
// A panel is 16 rows and takes 16 * rows16Bytes bytes, as many as the GGUF rows
// except for grid formats. A last panel with fewer rows is filled up with zero
// bytes, which are weights of value 0 (for Q8_0, weights with scale 0). A panel
// consists of tiles, one per block of columns, of 16 * kPackedBytes bytes
// (Traits.h):
//
//   scale part   vectors of 16 entries, one per row
//   code part    for every 32 columns, 64 bytes per bit of code
//
// A scale part consists of (f16 means 32 bytes, u8 16 bytes): f16 d (Exponent:
// u8 d; Floats: none); f16 m or dmin if the block has it; and then, by its
// ScaleCode (Traits.h), with S = kElements / kSub:
//   Half, Exponent  nothing
//   Bytes           u8[S] signed scales
//   SixBits         S six-bit numbers (scale + 32)
//   SixBitPairs     2 S six-bit numbers: S scales, S minima
//   NibblePairs     u8[S] scale | minimum << 4
//   OddNibbles      u8[S / 2] of n, where the scale is 2 n + 1: number i in the
//                   low half, number S / 2 + i in the high half
//   Floats          u8[S] of E4M3 numbers without a sign; 0x7f is 480,
//                   where in the file it means 0, which here is 0
// With kShiftCols, 16 bits for each kShiftCols columns follow; bit r is row
// r's. N six-bit numbers are stored as u8[N / 2] with the low four bits of
// number i in the low half and of number N / 2 + i in the high half, then u8[N
// / 4] with the top two bits of numbers i, N / 4 + i, N / 2 + i, 3 N / 4 + i
// from bit 0 up.
//
// In formats with kPairs (Traits.h) the 16-byte vectors 2 i and 2 i + 1 are
// interleaved, row r at bytes 2 r and 2 r + 1. Widened, they are the 16-bit
// operands of vpmaddwd.
//
// A code part of 32 columns, which are eight groups of four, has in this order:
//   8 bits       eight vectors, one per group; Q8_0 stores code + 128
//   low 4 of 4, 5, 6 bits: four vectors, group v in the low half of the bytes
//                of vector v, group v + 4 in the high half
//   2 bits (Q2_K; low two of Q3_K; top two of Q6_K): two vectors, group 4 u + i
//                in bits 2 i of vector u
//   1 bit (top one of Q5_x and Q3_K): one vector, group i in bit i
//
// F16 and BF16: a tile is two columns, row r at bytes 4 r, without scales.
//
// Grid formats (Grids.h) are stored as codes of single columns. IQ3_S then
// takes 1.22 times the bytes of the file, IQ2_S 1.29, IQ3_XXS 1.37, IQ1 1.4,
// IQ2_XS 1.43 and IQ2_XXS 1.55. Looking up eight columns of one row in a grid
// would take some ten scalar instructions, or as many cycles of a gather for
// sixteen columns: four to eight weights per cycle. Unpacking codes of two to
// four bits yields 17 to 26, so that a core processes 1.5 to 3 times as many
// weights from memory although they have more bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_ROWS16_H
#define MOE_KERNELS_QUANT_ROWS16_H

#include "kernels/quant/Blocks.h"

namespace moek {

inline constexpr int64_t kRows16 = 16;

/// Bits per code, and bytes of scales per row and block.
struct Rows16Shape {
  int codeBits, scaleBytes;
};

/// Returns the shape for a block struct; zeros if it has no such layout.
template <class Block> constexpr Rows16Shape rows16ShapeOf() {
  if constexpr (requires { Block::kScales; })
    return {BlockTraits<Block>::kBits, BlockTraits<Block>::kScaleBytes};
  else // F16 and BF16 weights are stored unchanged.
    return {Block::kElements == 1 && sizeof(Block) == 2 ? 16 : 0, 0};
}

/// Returns the shape for a format.
constexpr Rows16Shape rows16Shape(Format format) {
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    return rows16ShapeOf<Block##name>();
#include "kernels/quant/Formats.def"
  default:
    return {0, 0};
  }
}

/// Whether rows of `cols` elements can be stored in this layout.
constexpr bool hasRows16(Format format, int64_t cols) {
  int bits = rows16Shape(format).codeBits;
  return bits == 16 ? cols % 2 == 0 : bits != 0;
}

/// Bytes of a sixteenth of a panel of `cols` columns. Needs hasRows16(format,
/// cols).
constexpr uint64_t rows16Bytes(Format format, uint64_t cols) {
  Rows16Shape shape = rows16Shape(format);
  return cols / formatInfo(format).blockElements * uint64_t(shape.scaleBytes) +
         cols * uint64_t(shape.codeBits) / 8;
}

/// Packs `count` (1 to 16) GGUF rows, `rowStride` bytes apart, into a panel of
/// 16 * rows16Bytes(format, cols) bytes at `out`. Returns false, with nothing
/// written, if hasRows16(format, cols) is false.
[[nodiscard]] bool packRows16(Format format, const uint8_t *rows,
                              int64_t rowStride, int64_t count, int64_t cols,
                              uint8_t *out);

} // namespace moek

#endif // MOE_KERNELS_QUANT_ROWS16_H
