//===- Grids.h - Grids of the IQ formats ------------------------*- C++ -*-===//
//
// The formats IQ1, IQ2 and IQ3 store an index for eight (IQ3: four)
// neighbouring columns. The format's grid lists the few hundred combinations of
// codes that such columns may have. A row of a grid is a word of codes, the
// first column's in the lowest byte.
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

/// Each row is eight values of 0, 8 or 16.
extern const Grid<uint64_t, 2048> kGridIQ1;
extern const Grid<uint64_t, 256> kGridIQ2_XXS;
extern const Grid<uint64_t, 512> kGridIQ2_XS;
extern const Grid<uint64_t, 1024> kGridIQ2_S;
extern const Grid<uint32_t, 256> kGridIQ3_XXS;
extern const Grid<uint32_t, 512> kGridIQ3_S;

/// Values of IQ2 codes: bits 0 and 1 are the grid's digit, bit 2 is the sign.
inline constexpr int8_t kIq2Values[16] = {8, 25, 43, 0, -8, -25, -43};

/// Bit `To` of byte i of the result is bit i of `bits`.
template <int To>
[[gnu::always_inline]] inline uint64_t spreadBits(uint8_t bits) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  // Byte i keeps bit i of its copy of `bits`; adding 127 carries it into bit 7.
  uint64_t kept = bits * kOnes & 0x8040201008040201;
  return (kept + 127 * kOnes) >> (7 - To) & kOnes << To;
}

/// Restores eight signs from the seven that are stored: their parity is even.
[[gnu::always_inline]] inline uint8_t evenSigns(uint32_t seven) {
  seven &= 127;
  return uint8_t(seven | uint32_t(__builtin_parity(seven)) << 7);
}

/// Unpacks the codes of a super-block in column order.
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
