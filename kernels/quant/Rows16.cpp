//===- Rows16.cpp - Packing sixteen rows ----------------------------------===//
//
// A tile at a time: each row's codes are unpacked to bytes in column order, and
// four neighbouring columns then move as one 32-bit word.
//
//===----------------------------------------------------------------------===//

#include "kernels/quant/Rows16.h"

#include "kernels/quant/Blocks.h"

#include <cstring>

namespace moek {

namespace {

uint32_t load32(const uint8_t *p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

/// ORs `word` into row `r` of a 64-byte vector.
void merge32(uint8_t *vector, int r, uint32_t word) {
  word |= load32(vector + 4 * r);
  std::memcpy(vector + 4 * r, &word, sizeof(word));
}

/// Puts 32 codes of row `r` into a zeroed code part.
template <int Bits> void packCodes(const uint8_t *codes, int r, uint8_t *out) {
  // What is left of each group's four codes, one per byte.
  uint32_t groups[8];
  for (int g = 0; g < 8; ++g)
    groups[g] = load32(codes + 4 * g);
  if constexpr (Bits == 8) {
    for (int g = 0; g < 8; ++g)
      merge32(out + 64 * g, r, groups[g]);
    return;
  }
  if constexpr (Bits >= 4) {
    for (int v = 0; v < 4; ++v, out += 64)
      merge32(out, r,
              (groups[v] & 0x0f0f0f0f) | (groups[v + 4] & 0x0f0f0f0f) << 4);
    for (uint32_t &group : groups)
      group = group >> 4 & 0x0f0f0f0f;
  }
  if constexpr (Bits == 2 || Bits == 3 || Bits == 6) {
    for (int u = 0; u < 2; ++u, out += 64) {
      uint32_t word = 0;
      for (int i = 0; i < 4; ++i)
        word |= (groups[4 * u + i] & 0x03030303) << (2 * i);
      merge32(out, r, word);
    }
    for (uint32_t &group : groups)
      group = group >> 2 & 0x3f3f3f3f;
  }
  if constexpr (Bits == 3 || Bits == 5) {
    uint32_t word = 0;
    for (int g = 0; g < 8; ++g)
      word |= (groups[g] & 0x01010101) << g;
    merge32(out, r, word);
  }
}

/// Entry `r` of a vector of F16 numbers; returns what follows the vector.
uint8_t *putHalf(uint8_t *out, int r, Bits16 value) {
  std::memcpy(out + 2 * r, &value, sizeof(value));
  return out + 32;
}

/// Where entry `r` of vector `i` of 16 bytes lies.
template <bool Paired> int64_t byteAt(int i, int r) {
  return Paired ? i / 2 * 2 * kRows16 + 2 * r + i % 2 : i * kRows16 + r;
}

template <bool Paired, int N>
void putSixBits(uint8_t *out, int r, const int (&numbers)[N]) {
  for (int i = 0; i < N / 2; ++i)
    out[byteAt<Paired>(i, r)] =
        uint8_t((numbers[i] & 15) | (numbers[N / 2 + i] & 15) << 4);
  out += N / 2 * kRows16;
  for (int i = 0; i < N / 4; ++i) {
    int top = 0;
    for (int j = 0; j < 4; ++j)
      top |= numbers[j * N / 4 + i] >> 4 << (2 * j);
    out[byteAt<Paired>(i, r)] = uint8_t(top);
  }
}

template <class Block>
void packScales(const Block &block, int r, uint8_t *out) {
  out = putHalf(out, r, block.d);
  if constexpr (requires { block.m; })
    out = putHalf(out, r, block.m);
  if constexpr (requires { block.dmin; })
    out = putHalf(out, r, block.dmin);
  if constexpr (requires { block.scales.min(0); }) {
    int numbers[16];
    for (int i = 0; i < 8; ++i) {
      numbers[i] = block.scales.scale(i);
      numbers[8 + i] = block.scales.min(i);
    }
    putSixBits<false>(out, r, numbers);
  } else if constexpr (requires { block.scale(0); }) {
    constexpr int kNumbers = Block::kElements / Block::kScaleColumns;
    int numbers[kNumbers];
    for (int i = 0; i < kNumbers; ++i)
      numbers[i] = block.scale(i) + 32;
    putSixBits<kNumbers == 16>(out, r, numbers);
  } else if constexpr (requires { block.scales[0]; }) {
    constexpr bool kPaired = requires { block.dmin; };
    for (int i = 0; i < 16; ++i)
      out[byteAt<kPaired>(i, r)] = uint8_t(block.scales[i]);
  }
}

template <Format F> struct TilePacker {
  using Block = BlockOf<F>;
  static constexpr Rows16Shape kShape = rows16Shape(F);
  static_assert(kShape.scaleBytes * 8 + kShape.codeBits * Block::kElements ==
                int64_t(sizeof(Block)) * 8);

  static void pack(const Block &block, int r, uint8_t *tile) {
    packScales(block, r, tile);
    uint8_t codes[Block::kElements];
    block.unpackCodes(codes);
    uint8_t *out = tile + kRows16 * kShape.scaleBytes;
    for (int c = 0; c < Block::kElements; c += 32)
      packCodes<kShape.codeBits>(codes + c, r,
                                 out + c / 32 * 64 * kShape.codeBits);
  }
};

template <Format F>
void packPanel(const uint8_t *rows, int64_t rowStride, int64_t count,
               int64_t cols, uint8_t *out) {
  if constexpr (rows16Shape(F).codeBits == 16) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < cols; c += 2)
        std::memcpy(out + c * 2 * kRows16 + 4 * r, rows + r * rowStride + 2 * c,
                    4);
  } else if constexpr (rows16Shape(F).codeBits != 0) {
    using Block = BlockOf<F>;
    for (int64_t i = 0; i < cols / Block::kElements; ++i)
      for (int r = 0; r < int(count); ++r)
        TilePacker<F>::pack(
            reinterpret_cast<const Block *>(rows + r * rowStride)[i], r,
            out + i * kRows16 * int64_t(sizeof(Block)));
  }
}

} // namespace

bool packRows16(Format format, const uint8_t *rows, int64_t rowStride,
                int64_t count, int64_t cols, uint8_t *out) {
  if (!hasRows16(format, cols))
    return false;
  // Codes are merged into the tiles, and rows beyond `count` stay zero.
  std::memset(out, 0, size_t(kRows16) * rowBytes(format, uint64_t(cols)));
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    packPanel<Format::name>(rows, rowStride, count, cols, out);                \
    return true;
#include "kernels/quant/Formats.def"
  default:
    return false;
  }
}

} // namespace moek
