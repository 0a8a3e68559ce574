//===- IQ1_M.h - 1.75-bit, of a grid of 2048 --------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ1_M_H
#define MOE_KERNELS_QUANT_IQ1_M_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 1.75 bits each, in 16 sub-blocks of 16. As in IQ1_S (IQ1_S.h),
/// but each eight elements are moved on their own. Elements 8 i .. are row
/// low[i] of kGridIQ1, bits 8 to 10 of it bits 0 to 2 of nibble i of `high`,
/// low before high; its bit 3 is set where shift(i) is 0. Of the four words of
/// `scales`, bits 12 to 15 are d, four bits each from the lowest up, and bits
/// 3 (s % 4) on of word s / 4 are n of scale s, 2 n + 1.
struct BlockIQ1_M {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 2, kSub = 16, kZero = 9, kShiftCols = 8;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr float kUnit = 0x1p-3f;
  uint8_t low[32], high[16];
  Bits16 scales[4];

  /// F16
  [[gnu::always_inline]] constexpr Bits16 d() const {
    return {uint8_t(scales[0].high >> 4 | (scales[1].high & 0xf0)),
            uint8_t(scales[2].high >> 4 | (scales[3].high & 0xf0))};
  }
  [[gnu::always_inline]] uint64_t octet(int i) const {
    return kGridIQ1[low[i] | (nibble(i) & 7) << 8] +
           0x0202020202020202 * uint64_t(shift(i));
  }
  [[gnu::always_inline]] void unpackCodes(uint8_t *out) const {
    unpackOctets(*this, out);
  }
  [[gnu::always_inline]] int scale(int s) const {
    return 2 * (scales[s / 4].value() >> (s % 4 * 3) & 7) + 1;
  }
  [[gnu::always_inline]] int shift(int i) const { return 1 - (nibble(i) >> 3); }

private:
  [[gnu::always_inline]] int nibble(int i) const {
    return high[i / 2] >> (i % 2 * 4) & 15;
  }
};
static_assert(sizeof(BlockIQ1_M) == 56);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ1_M_H
