//===- IQ2_XXS.h - 2-bit format with a grid of 256 rows ---------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ2_XXS_H
#define MOE_KERNELS_QUANT_IQ2_XXS_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

#include <cstring>

namespace moek {

/// 256 elements, 2.0625 bits each, in 8 sub-blocks of 32: element e of
/// sub-block s is x = (d / 8 * scale(s)) * kIq2Values[code(e)]. The first four
/// of a sub-block's eight bytes are numbers of rows of kGridIQ2_XXS. The others
/// form a number: its seven bits from bit 7 k on are the signs of row k
/// (evenSigns()); its bits from bit 28 on are n, where the scale is 2 n + 1.
struct BlockIQ2_XXS {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 3, kSub = 32, kZero = 128;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr float kUnit = 0x1p-3f;
  static constexpr auto &kValues = kIq2Values;
  Bits16 d; ///< F16
  struct {
    uint8_t rows[4], signs[4];
  } subs[8];

  [[gnu::always_inline]] uint64_t octet(int i) const {
    uint32_t signs;
    std::memcpy(&signs, subs[i / 4].signs, 4);
    return kGridIQ2_XXS[subs[i / 4].rows[i % 4]] |
           spreadBits<2>(evenSigns(signs >> (7 * (i % 4))));
  }
  [[gnu::always_inline]] void unpackCodes(uint8_t *out) const {
    unpackOctets(*this, out);
  }
  [[gnu::always_inline]] int scale(int s) const {
    return 2 * (subs[s].signs[3] >> 4) + 1;
  }
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ2_XXS_H
