//===- Grids.h - Grids that codes are chosen from ---------------*- C++ -*-===//
//
// The formats IQ1, IQ2 and IQ3 keep an index for eight (IQ3: four) neighbouring
// columns: of all combinations of their codes the format has a few hundred, its
// grid. A row of a grid is a word of codes, the first column's lowest.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_GRIDS_H
#define MOE_KERNELS_QUANT_GRIDS_H

#include <cstdint>
#include <cstring>

namespace moek {

template <class Word, int Rows> struct Grid {
  Word rows[Rows];
  [[gnu::always_inline]] constexpr Word operator[](int row) const {
    return rows[row];
  }
};

extern const Grid<uint64_t, 2048> kGridIQ1; ///< Eight times 0, 1 or 2.
extern const Grid<uint64_t, 256> kGridIQ2_XXS;
extern const Grid<uint64_t, 512> kGridIQ2_XS;
extern const Grid<uint64_t, 1024> kGridIQ2_S;
extern const Grid<uint32_t, 256> kGridIQ3_XXS;
extern const Grid<uint32_t, 512> kGridIQ3_S;

/// What codes of IQ2 stand for: a number of the grid, bit 2 the sign.
inline constexpr int8_t kIq2Values[16] = {8, 25, 43, 0, -8, -25, -43};

/// Bit `To` of byte i is bit i of `bits`.
template <int To>
[[gnu::always_inline]] inline uint64_t spreadBits(uint8_t bits) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  // Byte i keeps bit i of a copy of all, and adding 127 carries it into bit 7.
  uint64_t kept = bits * kOnes & 0x8040201008040201;
  return (kept + 127 * kOnes) >> (7 - To) & kOnes << To;
}

/// Eight signs of which seven are kept: their number is even.
[[gnu::always_inline]] inline uint8_t evenSigns(uint32_t seven) {
  seven &= 127;
  return uint8_t(seven | uint32_t(__builtin_parity(seven)) << 7);
}

/// The codes of a super-block, in column order.
template <class Block>
[[gnu::always_inline]] inline void unpackOctets(const Block &block,
                                                uint8_t *out) {
  for (int i = 0; i < Block::kElements / 8; ++i) {
    uint64_t codes = block.octet(i);
    std::memcpy(out + 8 * i, &codes, sizeof(codes));
  }
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_GRIDS_H
