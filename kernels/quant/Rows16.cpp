//===- Rows16.cpp - Packs sixteen rows into a panel -----------------------===//
//
// Packs one tile at a time: the rows' codes are unpacked to bytes in column
// order; then four neighbouring columns are moved as one 32-bit word, by
// transposing 32 columns of the 16 rows in squares of 4 x 4 words. The code
// uses the compiler's generic vectors, so that packing is fast on every
// architecture.
//
//===----------------------------------------------------------------------===//

#include "kernels/quant/Rows16.h"

#include "kernels/quant/Blocks.h"

#include <cstring>

namespace moek {

namespace {

/// One word of each of four neighbouring rows.
using Quad [[gnu::vector_size(16)]] = uint32_t;
constexpr int kQuads = kRows16 / 4;

Quad loadQuad(const uint8_t *p) {
  Quad quad;
  std::memcpy(&quad, p, sizeof(quad));
  return quad;
}

/// One word of each of the 16 rows: four columns of codes or two of floats.
struct Group {
  Quad rows[kQuads];
};

/// Loads eight groups: 32 bytes of each row from `first` on; rows are `stride`
/// bytes apart.
void loadGroups(const uint8_t *first, int64_t stride, Group (&groups)[8]) {
  for (int g = 0; g < 8; g += 4)
    for (int q = 0; q < kQuads; ++q) {
      const uint8_t *p = first + 4 * q * stride + 4 * g;
      Quad a = loadQuad(p), b = loadQuad(p + stride);
      Quad c = loadQuad(p + 2 * stride), d = loadQuad(p + 3 * stride);
      Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      groups[g].rows[q] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      groups[g + 1].rows[q] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      groups[g + 2].rows[q] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      groups[g + 3].rows[q] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    }
}

/// Stores a vector whose quad q is fn(q); returns the address after it.
template <class Fn> uint8_t *putVector(uint8_t *out, Fn fn) {
  for (int q = 0; q < kQuads; ++q) {
    Quad quad = fn(q);
    std::memcpy(out + 16 * q, &quad, sizeof(quad));
  }
  return out + 64;
}

/// Packs the code part of 32 columns; a code's bits begin at bit `From` of its
/// byte.
template <int Bits, int From>
void packCodes(const uint8_t *codes, int64_t stride, uint8_t *out) {
  Group groups[8];
  loadGroups(codes, stride, groups);
  if constexpr (Bits == 8)
    for (const Group &group : groups)
      out = putVector(out, [&](int q) { return group.rows[q]; });
  // The bit from which the next bits of a code are taken.
  constexpr bool kNibbles = Bits >= 4 && Bits < 8;
  constexpr int kLow = kNibbles ? 4 : From;
  static_assert(From == 0 || Bits == 2);
  if constexpr (kNibbles)
    for (int v = 0; v < 4; ++v)
      out = putVector(out, [&](int q) {
        return (groups[v].rows[q] & 0x0f0f0f0f) |
               (groups[v + 4].rows[q] & 0x0f0f0f0f) << 4;
      });
  constexpr bool kTwo = Bits == 2 || Bits == 3 || Bits == 6;
  if constexpr (kTwo)
    for (int u = 0; u < 8; u += 4)
      out = putVector(out, [&](int q) {
        Quad bits = groups[u].rows[q] >> kLow & 0x03030303;
        for (int i = 1; i < 4; ++i)
          bits |= (groups[u + i].rows[q] >> kLow & 0x03030303) << (2 * i);
        return bits;
      });
  constexpr int kTop = kLow + 2 * kTwo;
  if constexpr (Bits == 3 || Bits == 5)
    out = putVector(out, [&](int q) {
      Quad bits = groups[0].rows[q] >> kTop & 0x01010101;
      for (int g = 1; g < 8; ++g)
        bits |= (groups[g].rows[q] >> kTop & 0x01010101) << g;
      return bits;
    });
}

/// One byte per row.
using Bytes16 = uint8_t[kRows16];

/// Stores `count` vectors of 16 bytes; byte `row` of vector i is fn(i, row).
/// The vectors follow each other or, if `Paired`, the bytes of two of them
/// alternate.
template <bool Paired, class Fn>
uint8_t *putBytes(uint8_t *out, int count, Fn fn) {
  for (int i = 0; i < count; ++i) {
    uint8_t *to =
        Paired ? out + i / 2 * 2 * kRows16 + i % 2 : out + i * kRows16;
    for (int r = 0; r < kRows16; ++r)
      to[Paired ? 2 * r : r] = uint8_t(fn(i, r));
  }
  return out + count * kRows16;
}

/// Stores N six-bit numbers of each row; number i of row r is fn(i, r).
template <bool Paired, int N, class Fn> void putSixBits(uint8_t *out, Fn fn) {
  Bytes16 numbers[N] = {};
  for (int i = 0; i < N; ++i)
    for (int r = 0; r < kRows16; ++r)
      numbers[i][r] = uint8_t(fn(i, r));
  out = putBytes<Paired>(out, N / 2, [&](int i, int r) {
    return (numbers[i][r] & 15) | (numbers[N / 2 + i][r] & 15) << 4;
  });
  putBytes<Paired>(out, N / 4, [&](int i, int r) {
    int top = 0;
    for (int j = 0; j < 4; ++j)
      top |= numbers[j * N / 4 + i][r] >> 4 << (2 * j);
    return top;
  });
}

/// Packs the scale part of a tile; blocks[r] is that of row r, of `count` rows.
template <class Block>
void packScales(const Block *const *blocks, int count, uint8_t *out) {
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
  constexpr int kScales = Traits::kElements / Traits::kSub;
  constexpr bool kPaired = Traits::kPairs;
  // Rows that do not exist get zeros.
  auto ofRows = [&](auto number) {
    return [=](int i, int r) { return r < count ? number(*blocks[r], i) : 0; };
  };
  if constexpr (Traits::kScaleCode == ScaleCode::SixBitPairs)
    putSixBits<kPaired, 2 * kScales>(out, ofRows([](const Block &block, int i) {
                                       return i < kScales
                                                  ? block.scale(i)
                                                  : block.min(i - kScales);
                                     }));
  if constexpr (Traits::kScaleCode == ScaleCode::SixBits)
    putSixBits<kPaired, kScales>(out, ofRows([](const Block &block, int i) {
                                   return block.scale(i) + 32;
                                 }));
  if constexpr (Traits::kScaleCode == ScaleCode::Bytes)
    putBytes<kPaired>(out, kScales, ofRows([](const Block &block, int i) {
                        return block.scale(i);
                      }));
  if constexpr (Traits::kIsFloats)
    putBytes<kPaired>(out, kScales, ofRows([](const Block &block, int i) {
                        return block.scaleBits(i);
                      }));
  if constexpr (Traits::kScaleCode == ScaleCode::NibblePairs)
    putBytes<kPaired>(out, kScales, ofRows([](const Block &block, int i) {
                        return block.scale(i) | block.min(i) << 4;
                      }));
  if constexpr (Traits::kScaleCode == ScaleCode::OddNibbles)
    out = putBytes<kPaired>(
        out, kScales / 2, ofRows([](const Block &block, int i) {
          return block.scale(i) / 2 | block.scale(kScales / 2 + i) / 2 << 4;
        }));
  if constexpr (Traits::kShiftCols != 0)
    for (int i = 0; i < Traits::kElements / Traits::kShiftCols; ++i) {
      unsigned bits = 0;
      for (int r = 0; r < count; ++r)
        bits |= unsigned(blocks[r]->shift(i)) << r;
      Bits16 word = Bits16::of(uint16_t(bits));
      std::memcpy(out + 2 * i, &word, 2);
    }
}

/// Packs tiles of quantised blocks. Rows from `count` on are zero.
template <Format F>
void packBlocks(const uint8_t *rows, int64_t rowStride, int count, int64_t cols,
                uint8_t *out) {
  using Block = BlockOf<F>;
  constexpr int kElements = Block::kElements;
  constexpr Rows16Shape kShape = rows16Shape(F);
  // Codes with a shift are in eighths, so the digit begins at bit 3.
  constexpr int kFrom = BlockTraits<Block>::kShiftCols ? 3 : 0;
  uint8_t codes[kRows16][kElements];
  std::memset(codes[count], 0, size_t(kRows16 - count) * kElements);
  if (count < kRows16)
    std::memset(out, 0, size_t(kRows16) * rows16Bytes(F, uint64_t(cols)));
  const Block *blocks[kRows16];
  for (int r = 0; r < count; ++r)
    blocks[r] = reinterpret_cast<const Block *>(rows + r * rowStride);
  for (int64_t c = 0; c < cols; c += kElements) {
    packScales(blocks, count, out);
    out += kRows16 * kShape.scaleBytes;
    for (int r = 0; r < count; ++r)
      blocks[r]++->unpackCodes(codes[r]);
    for (int e = 0; e < kElements; e += 32, out += 64 * kShape.codeBits)
      packCodes<kShape.codeBits, kFrom>(codes[0] + e, kElements, out);
  }
}

/// Packs pairs of 16-bit floats, as packCodes packs words of four codes.
void packPairs(const uint8_t *rows, int64_t rowStride, int64_t count,
               int64_t cols, uint8_t *out) {
  uint8_t part[kRows16][32] = {};
  for (int64_t c = 0; c < cols; c += 16) {
    int64_t pairs = cols - c < 16 ? (cols - c) / 2 : 8;
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(part[r], rows + r * rowStride + 2 * c, size_t(4 * pairs));
    Group groups[8];
    loadGroups(part[0], sizeof(part[0]), groups);
    for (int64_t g = 0; g < pairs; ++g)
      out = putVector(out, [&](int q) { return groups[g].rows[q]; });
  }
}

} // namespace

bool packRows16(Format format, const uint8_t *rows, int64_t rowStride,
                int64_t count, int64_t cols, uint8_t *out) {
  if (!hasRows16(format, cols))
    return false;
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    if constexpr (rows16Shape(Format::name).codeBits == 16)                    \
      packPairs(rows, rowStride, count, cols, out);                            \
    else if constexpr (rows16Shape(Format::name).codeBits != 0)                \
      packBlocks<Format::name>(rows, rowStride, int(count), cols, out);        \
    return true;
#include "kernels/quant/Formats.def"
  default:
    return false;
  }
}

} // namespace moek
