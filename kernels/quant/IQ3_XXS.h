//===- IQ3_XXS.h - 3-bit format with a grid of 256 rows ---------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ3_XXS_H
#define MOE_KERNELS_QUANT_IQ3_XXS_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

#include <cstring>

namespace moek {

/// Values of IQ3_XXS codes: bits 0 to 2 are the grid's digit, bit 3 is the
/// sign.
inline constexpr int8_t kIq3XxsValues[16] = {
    4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};

/// 256 elements, 3.0625 bits each, in 8 sub-blocks of 32: element e of
/// sub-block s is x = (d / 4 * scale(s)) * kIq3XxsValues[code(e)]. Elements 4 i
/// ... are row rows[i] of kGridIQ3_XXS. Four bytes of a sub-block form a
/// number: its seven bits from bit 7 k on are the signs of elements 8 k ...
/// (evenSigns()); its bits from bit 28 on are n, where the scale is 2 n + 1.
struct BlockIQ3_XXS {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 128;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr float kUnit = 0x1p-2f;
  static constexpr auto &kValues = kIq3XxsValues;
  Bits16 d; ///< F16
  uint8_t rows[64];
  uint8_t signs[8][4];

  [[gnu::always_inline]] uint64_t octet(int i) const {
    uint32_t subSigns;
    std::memcpy(&subSigns, signs[i / 4], 4);
    uint64_t codes = kGridIQ3_XXS[rows[2 * i]] |
                     uint64_t(kGridIQ3_XXS[rows[2 * i + 1]]) << 32;
    return codes | spreadBits<3>(evenSigns(subSigns >> (7 * (i % 4))));
  }
  [[gnu::always_inline]] void unpackCodes(uint8_t *out) const {
    unpackOctets(*this, out);
  }
  [[gnu::always_inline]] int scale(int s) const {
    return 2 * (signs[s][3] >> 4) + 1;
  }
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ3_XXS_H
