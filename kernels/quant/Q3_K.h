//===- Q3_K.h - 3-bit with two levels of scales -----------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q3_K_H
#define MOE_KERNELS_QUANT_Q3_K_H

#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 3.4375 bits each, in 16 sub-blocks of 16: element e of
/// sub-block s is x = (d * (scale(s) - 32)) * (code(e) - 4), code 0 .. 7. The
/// low two bits of a code are packed as in Q2_K; bit k of high[i] is bit 2 of
/// element 32 k + i. A scale has six bits: the low four of scale s are a nibble
/// of scales[s % 8] (low nibble for s < 8), the high two are bits 2 (s / 4) and
/// up of scales[8 + s % 4].
struct BlockQ3_K {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 3, kSub = 16, kZero = 4;
  static constexpr ScaleCode kScales = ScaleCode::SixBits;
  uint8_t high[32];
  uint8_t low[64];
  uint8_t scales[12];
  Bits16 d; ///< F16

  /// Writes codes in column order, without scale or zero point.
  void unpackCodes(uint8_t *out) const {
    for (int s = 0; s < 8; ++s)
      for (int i = 0; i < 32; ++i)
        out[32 * s + i] = uint8_t((low[s / 4 * 32 + i] >> (s % 4 * 2) & 3) |
                                  (high[i] >> s & 1) << 2);
  }

  /// Scale of sub-block `s`, -32 .. 31.
  int scale(int s) const {
    int nibble = scales[s % 8] >> (s / 8 * 4) & 15;
    int top = scales[8 + s % 4] >> (s / 4 * 2) & 3;
    return (nibble | top << 4) - 32;
  }
};
static_assert(sizeof(BlockQ3_K) == 110);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q3_K_H
