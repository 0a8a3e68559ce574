//===- Q4_0.h - 4-bit, symmetric --------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q4_0_H
#define MOE_KERNELS_QUANT_Q4_0_H

#include "kernels/quant/Traits.h"

namespace moek {

/// 32 elements, 4.5 bits each: x = d * (code - 8), code 0 .. 15. Byte i holds
/// element i in its low and element i + 16 in its high nibble.
struct BlockQ4_0 {
  static constexpr int kElements = 32;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 8;
  static constexpr ScaleCode kScales = ScaleCode::Half;
  Bits16 d; ///< F16
  uint8_t codes[16];

  /// Writes codes in column order, without scale or zero point.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = codes[i] & 15;
      out[i + 16] = codes[i] >> 4;
    }
  }
};
static_assert(sizeof(BlockQ4_0) == 18);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q4_0_H
