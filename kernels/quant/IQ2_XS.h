//===- IQ2_XS.h - 2-bit format with a grid of 512 rows ----------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ2_XS_H
#define MOE_KERNELS_QUANT_IQ2_XS_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 2.3125 bits each, in 16 sub-blocks of 16: element e of
/// sub-block s is x = (d / 8 * scale(s)) * kIq2Values[code(e)]. Each eight
/// elements have a word: nine bits are the number of a row of kGridIQ2_XS, the
/// other seven are signs (evenSigns()). The scale is 2 n + 1, where n is nibble
/// s of `scales` (low nibble first).
struct BlockIQ2_XS {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 3, kSub = 16, kZero = 128;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr float kUnit = 0x1p-3f;
  static constexpr auto &kValues = kIq2Values;
  Bits16 d; ///< F16
  Bits16 words[32];
  uint8_t scales[8];

  [[gnu::always_inline]] uint64_t octet(int i) const {
    uint16_t word = words[i].value();
    return kGridIQ2_XS[word & 511] | spreadBits<2>(evenSigns(word >> 9));
  }
  [[gnu::always_inline]] void unpackCodes(uint8_t *out) const {
    unpackOctets(*this, out);
  }
  [[gnu::always_inline]] int scale(int s) const {
    return 2 * (scales[s / 2] >> (s % 2 * 4) & 15) + 1;
  }
};
static_assert(sizeof(BlockIQ2_XS) == 74);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ2_XS_H
