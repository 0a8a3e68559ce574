//===- Q2_K.h - 2-bit with two levels of scales and minima ------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q2_K_H
#define MOE_KERNELS_QUANT_Q2_K_H

#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 2.625 bits each, in 16 sub-blocks of 16: element e of
/// sub-block s is x = (d * scale(s)) * code(e) - dmin * min(s), code 0 .. 3;
/// scale(s) is the low and min(s) the high nibble of scales[s]. In each half h
/// of 128 elements, bits 2k and 2k + 1 of codes[32 h + i] are element
/// 128 h + 32 k + i.
struct BlockQ2_K {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 2, kSub = 16, kZero = 0;
  static constexpr ScaleCode kScales = ScaleCode::NibblePairs;
  uint8_t scales[16];
  uint8_t codes[64];
  Bits16 d, dmin; ///< F16

  /// Writes codes in column order, without scale or minimum.
  void unpackCodes(uint8_t *out) const {
    for (int s = 0; s < 8; ++s)
      for (int i = 0; i < 32; ++i)
        out[32 * s + i] = codes[s / 4 * 32 + i] >> (s % 4 * 2) & 3;
  }
  int scale(int s) const { return scales[s] & 15; }
  int min(int s) const { return scales[s] >> 4; }
};
static_assert(sizeof(BlockQ2_K) == 84);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q2_K_H
