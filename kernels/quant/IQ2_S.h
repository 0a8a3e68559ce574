//===- IQ2_S.h - 2-bit format with a grid of 1024 rows ----------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ2_S_H
#define MOE_KERNELS_QUANT_IQ2_S_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 2.5625 bits each, in 16 sub-blocks of 16: element e of
/// sub-block s is x = (d / 8 * scale(s)) * kIq2Values[code(e)]. Elements 8 i
/// ... are a row of kGridIQ2_S: low[i] is the low byte of its number, two bits
/// of high[i / 4] from bit 2 (i % 4) on are bits 8 and 9. Their signs are
/// signs[i]. The scale is 2 n + 1, where n is nibble s of `scales` (low nibble
/// first).
struct BlockIQ2_S {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 3, kSub = 16, kZero = 128;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr float kUnit = 0x1p-3f;
  static constexpr auto &kValues = kIq2Values;
  Bits16 d; ///< F16
  uint8_t low[32], signs[32], high[8];
  uint8_t scales[8];

  [[gnu::always_inline]] uint64_t octet(int i) const {
    int top = high[i / 4] >> (i % 4 * 2) & 3;
    return kGridIQ2_S[low[i] | top << 8] | spreadBits<2>(signs[i]);
  }
  [[gnu::always_inline]] void unpackCodes(uint8_t *out) const {
    unpackOctets(*this, out);
  }
  [[gnu::always_inline]] int scale(int s) const {
    return 2 * (scales[s / 2] >> (s % 2 * 4) & 15) + 1;
  }
};
static_assert(sizeof(BlockIQ2_S) == 82);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ2_S_H
