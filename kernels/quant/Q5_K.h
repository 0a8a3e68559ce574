//===- Q5_K.h - 5-bit with two levels of scales and minima ------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q5_K_H
#define MOE_KERNELS_QUANT_Q5_K_H

#include "kernels/quant/KScales.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// Q4_K with a fifth bit: 256 elements, 5.5 bits each, code 0 .. 31. Bit s of
/// high[i] is bit 4 of element 32 s + i.
struct BlockQ5_K {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 5, kSub = 32, kZero = 0;
  static constexpr ScaleCode kScales = ScaleCode::SixBitPairs;
  Bits16 d, dmin; ///< F16
  KScales scales;
  uint8_t high[32];
  uint8_t low[128];

  /// Writes codes in column order, without scale or minimum.
  void unpackCodes(uint8_t *out) const {
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 32; ++i) {
        int top = high[i] >> (2 * j);
        out[64 * j + i] = uint8_t((low[32 * j + i] & 15) | (top & 1) << 4);
        out[64 * j + 32 + i] =
            uint8_t(low[32 * j + i] >> 4 | (top >> 1 & 1) << 4);
      }
  }
  int scale(int s) const { return scales.scale(s); }
  int min(int s) const { return scales.min(s); }
};
static_assert(sizeof(BlockQ5_K) == 176);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q5_K_H
