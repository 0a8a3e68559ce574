//===- IQ1_S.h - 1.5-bit format with a grid of 2048 rows --------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ1_S_H
#define MOE_KERNELS_QUANT_IQ1_S_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 1.5625 bits each, in 8 sub-blocks of 32. An element's digit,
/// -1, 0 or 1, is shifted by an eighth, in the same direction for all of a
/// sub-block, so that in eighths
///
///   x = (d / 8 * scale(s)) * (code - 9), code = 8 * (digit + 1) + 2 * shift(s)
///
/// Elements 8 i ... are a row of kGridIQ1: low[i] is the low byte of its
/// number, three bits of high[i / 4] from bit 3 (i % 4) on are bits 8 to 10.
/// Bit 15 of high[s] is set if shift(s) is 0; the scale is 2 n + 1, where n is
/// bits 12 to 14.
struct BlockIQ1_S {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 2, kSub = 32, kZero = 9, kShiftCols = 32;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr float kUnit = 0x1p-3f;
  Bits16 d; ///< F16
  uint8_t low[32];
  Bits16 high[8];

  [[gnu::always_inline]] uint64_t octet(int i) const {
    int top = high[i / 4].value() >> (i % 4 * 3) & 7;
    return kGridIQ1[low[i] | top << 8] +
           0x0202020202020202 * uint64_t(shift(i / 4));
  }
  [[gnu::always_inline]] void unpackCodes(uint8_t *out) const {
    unpackOctets(*this, out);
  }
  [[gnu::always_inline]] int scale(int s) const {
    return 2 * (high[s].high >> 4 & 7) + 1;
  }
  [[gnu::always_inline]] int shift(int s) const {
    return 1 - (high[s].high >> 7);
  }
};
static_assert(sizeof(BlockIQ1_S) == 50);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ1_S_H
