//===- Q4_K.h - 4-bit with two levels of scales and minima ------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q4_K_H
#define MOE_KERNELS_QUANT_Q4_K_H

#include "kernels/quant/KScales.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 4.5 bits each, in 8 sub-blocks of 32: element e of sub-block s
/// is x = (d * scale(s)) * code(e) - dmin * min(s), code 0 .. 15. Byte
/// 32 j + i holds element 64 j + i in its low and 64 j + 32 + i in its high
/// nibble.
struct BlockQ4_K {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 0;
  static constexpr ScaleCode kScales = ScaleCode::SixBitPairs;
  Bits16 d, dmin; ///< F16
  KScales scales;
  uint8_t codes[128];

  /// Writes codes in column order, without scale or minimum.
  void unpackCodes(uint8_t *out) const {
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 32; ++i) {
        out[64 * j + i] = codes[32 * j + i] & 15;
        out[64 * j + 32 + i] = codes[32 * j + i] >> 4;
      }
  }
  int scale(int s) const { return scales.scale(s); }
  int min(int s) const { return scales.min(s); }
};
static_assert(sizeof(BlockQ4_K) == 144);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q4_K_H
