//===- IQ1_M.h - 1.75-bit format with a grid of 2048 rows -------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ1_M_H
#define MOE_KERNELS_QUANT_IQ1_M_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 1.75 bits each, in 16 sub-blocks of 16. Values are computed as
/// in IQ1_S (IQ1_S.h), but each eight elements have their own shift. Elements 8
/// i ... are a row of kGridIQ1: low[i] is the low byte of its number, bits 0 to
/// 2 of nibble i of `high` (low nibble first) are bits 8 to 10. Bit 3 of the
/// nibble is set if shift(i) is 0. Bits 12 to 15 of the four words of `scales`
/// form d, from its lowest four bits up. Scale s is 2 n + 1, where n is three
/// bits of word s / 4 from bit 3 (s % 4) on.
struct BlockIQ1_M {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 2, kSub = 16, kZero = 9, kShiftCols = 8;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr float kUnit = 0x1p-3f;
  uint8_t low[32], high[16];
  Bits16 scales[4];

  /// The F16 scale.
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
