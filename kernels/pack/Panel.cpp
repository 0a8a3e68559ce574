//===- Panel.cpp - Packs sixteen rows into a panel ------------------------===//
//
// Compiled once per instruction set (MOE_ISA). The words of the blocks of 16
// rows are transposed in squares of 4 x 4 within 128-bit lanes, so that a
// vector has the same word of every row, in order. The panel's words are
// computed from these (Quads.h) and stored. Formats whose codes come from a
// table are unpacked to bytes in column order first, as are all formats in the
// last panel of a matrix that has fewer rows, and on CPUs without AVX2.
//
// For 256 columns of Q4_K, 2304 bytes of 16 rows, AVX-512 takes about 144 loads
// of 16 bytes, 72 shuffles, 100 logical operations and 37 stores: some 100
// cycles, or 20 bytes per cycle, more than memory delivers to a core.
//
//===----------------------------------------------------------------------===//

#include "kernels/pack/Packers.h"
#include "kernels/pack/Quads.h"
#include "kernels/pack/Scales.h"

#if defined(MOE_OF_avx512)
#include "kernels/pack/Avx512.h"
#elif defined(MOE_OF_avx2)
#include "kernels/pack/Avx2.h"
#else
#include "kernels/pack/Portable.h"
#endif

namespace moek::MOE_ISA {

namespace {

using Words = Rows::Words;
constexpr int kPartBytes = int(sizeof(Words));

/// Stores a vector over rows whose part p is fn(p); returns the address after
/// it.
template <class Fn> MOE_INLINE uint8_t *putVector(uint8_t *out, Fn fn) {
  for (int p = 0; p < Rows::kParts; ++p)
    Rows::store(out + p * kPartBytes, fn(p));
  return out + 64;
}

/// Packs the code part of 32 columns. quad(p, g) is group g of part p of the
/// rows; a code's bits begin at bit `From` of its byte.
template <int Bits, int From, class Quad>
MOE_INLINE uint8_t *putCodes(uint8_t *out, Quad quad) {
  if constexpr (Bits == 8)
    for (int g = 0; g < 8; ++g)
      out = putVector(out, [&](int p) { return quad(p, g); });
  constexpr bool kNibbles = Bits >= 4 && Bits < 8;
  // The bit from which the next bits of a code are taken.
  constexpr int kLow = kNibbles ? 4 : From;
  static_assert(From == 0 || Bits == 2);
  if constexpr (kNibbles)
    for (int v = 0; v < 4; ++v)
      out = putVector(out, [&](int p) {
        return (quad(p, v) & 0x0f0f0f0f) | (quad(p, v + 4) & 0x0f0f0f0f) << 4;
      });
  constexpr bool kTwo = Bits == 2 || Bits == 3 || Bits == 6;
  if constexpr (kTwo)
    for (int u = 0; u < 8; u += 4)
      out = putVector(out, [&](int p) {
        Words bits = quad(p, u) >> kLow & 0x03030303;
        for (int i = 1; i < 4; ++i)
          bits |= (quad(p, u + i) >> kLow & 0x03030303) << (2 * i);
        return bits;
      });
  constexpr int kTop = kLow + 2 * kTwo;
  if constexpr (Bits == 3 || Bits == 5)
    out = putVector(out, [&](int p) {
      Words bits = quad(p, 0) >> kTop & 0x01010101;
      for (int g = 1; g < 8; ++g)
        bits |= (quad(p, g) >> kTop & 0x01010101) << g;
      return bits;
    });
  return out;
}

/// Loads `words` words of each row that begin at `at`. The last four overlap
/// others if the number is no multiple of four, so that nothing beyond is read.
template <int words>
MOE_INLINE void loadWords(const uint8_t *const *rows, int64_t at, Rows *out) {
  static_assert(words >= 4);
  for (int i = 0; i < words; i += 4) {
    int first = i + 4 <= words ? i : words - 4;
    Rows::load4(rows, at + 4 * first, out + first);
  }
}

template <class Block>
concept HasQuads = Rows::kUsesWords && requires {
  Quads<Block>::kFirst;
};

/// Packs tiles of blocks by their words.
template <Format F, class R = Rows>
[[gnu::flatten]] void packWords(const uint8_t *rows, int64_t rowStride,
                                int64_t cols, uint8_t *out) {
  using Block = BlockOf<F>;
  using Of = Quads<Block>;
  constexpr int kWords = (int(sizeof(Block)) - Of::kFirst) / 4;
  constexpr int kBits = rows16Shape(F).codeBits;
  const uint8_t *starts[kRows16];
  const Block *blocks[kRows16];
  for (int r = 0; r < kRows16; ++r) {
    starts[r] = rows + r * rowStride + Of::kFirst;
    blocks[r] = reinterpret_cast<const Block *>(rows + r * rowStride);
  }
  for (int64_t at = 0; at < cols / Block::kElements * int64_t(sizeof(Block));
       at += int64_t(sizeof(Block))) {
    alignas(64) Rows words[kWords];
    loadWords<kWords>(starts, at, words);
    out = putHalves(blocks, kRows16, out);
    for (auto &block : blocks)
      ++block;
    if constexpr (BlockTraits<Block>::kHasNumbers) {
      constexpr int kBytes = BlockTraits<Block>::kNumberBytes;
#pragma GCC unroll 4
      for (int i = 0; i < Of::kNumberQuads; ++i) {
        R numbers;
        for (int p = 0; p < Rows::kParts; ++p)
          numbers.part[p] =
              Of::number([&](int w) { return words[w].part[p]; }, i);
        auto put = [&]<int bytes>() {
          if constexpr (BlockTraits<Block>::kPairs)
            numbers.template putPairs<bytes>(out);
          else
            numbers.template putBytes<bytes>(out);
        };
        if (4 * i + 4 <= kBytes) {
          put.template operator()<4>();
          out += 4 * kRows16;
        } else {
          put.template operator()<2>();
          out += 2 * kRows16;
        }
      }
    }
#pragma GCC unroll 8
    for (int first = 0; first < Block::kElements / 4; first += 8)
      out = putCodes<kBits, 0>(out, [&](int p, int g) {
        return Of::code([&](int w) { return words[w].part[p]; }, first + g);
      });
  }
}

/// Packs tiles of blocks by their unpacked codes. Rows from `count` on are
/// zero.
template <Format F>
[[gnu::flatten]] void packCodes(const uint8_t *rows, int64_t rowStride,
                                int count, int64_t cols, uint8_t *out) {
  using Block = BlockOf<F>;
  constexpr int kElements = Block::kElements;
  // Codes with a shift are in eighths, so the digit begins at bit 3.
  constexpr int kFrom = BlockTraits<Block>::kShiftCols ? 3 : 0;
  alignas(64) uint8_t codes[kRows16][kElements];
  if (count < kRows16) {
    std::memset(codes, 0, sizeof(codes));
    std::memset(out, 0, size_t(kRows16) * rows16Bytes(F, uint64_t(cols)));
  }
  const uint8_t *starts[kRows16];
  const Block *blocks[kRows16];
  for (int r = 0; r < kRows16; ++r)
    starts[r] = codes[r];
  for (int r = 0; r < count; ++r)
    blocks[r] = reinterpret_cast<const Block *>(rows + r * rowStride);
  for (int64_t c = 0; c < cols; c += kElements) {
    out = putHalves(blocks, count, out);
    out = putNumbers(blocks, count, out);
    out = putShifts(blocks, count, out);
    for (int r = 0; r < count; ++r)
      blocks[r]++->unpackCodes(codes[r]);
    for (int e = 0; e < kElements; e += 32) {
      Rows words[8];
      loadWords<8>(starts, e, words);
      out = putCodes<rows16Shape(F).codeBits, kFrom>(
          out, [&](int p, int g) { return words[g].part[p]; });
    }
  }
}

/// Packs pairs of 16-bit floats. Rows from `count` on are zero.
[[gnu::flatten]] void packFloats(const uint8_t *rows, int64_t rowStride,
                                 int count, int64_t cols, uint8_t *out) {
  const uint8_t *starts[kRows16];
  for (int r = 0; r < count; ++r)
    starts[r] = rows + r * rowStride;
  int64_t words = cols / 2, at = 0;
  for (; count == kRows16 && at + 4 <= words; at += 4) {
    Rows four[4];
    Rows::load4(starts, 4 * at, four);
    for (const Rows &word : four)
      out = putVector(out, [&](int p) { return word.part[p]; });
  }
  for (; at < words; ++at, out += 64) {
    std::memset(out + 4 * count, 0, size_t(4 * (kRows16 - count)));
    for (int r = 0; r < count; ++r)
      std::memcpy(out + 4 * r, starts[r] + 4 * at, 4);
  }
}

} // namespace

bool packPanel(Format format, const uint8_t *rows, int64_t rowStride, int count,
               int64_t cols, uint8_t *out) {
  auto pack = [&]<Format F>() {
    if constexpr (rows16Shape(F).codeBits == 16)
      return packFloats(rows, rowStride, count, cols, out);
    else if constexpr (rows16Shape(F).codeBits != 0) {
      if constexpr (HasQuads<BlockOf<F>>)
        if (count == kRows16)
          return packWords<F>(rows, rowStride, cols, out);
      return packCodes<F>(rows, rowStride, count, cols, out);
    }
  };
  if (!hasRows16(format, cols))
    return false;
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    pack.template operator()<Format::name>();                                  \
    break;
#include "kernels/quant/Formats.def"
  default:
    return false;
  }
  return true;
}

} // namespace moek::MOE_ISA
