//===- Q4_1.h - 4-bit with an offset ----------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q4_1_H
#define MOE_KERNELS_QUANT_Q4_1_H

#include "kernels/quant/Traits.h"

namespace moek {

/// 32 elements, 5 bits each: x = d * code + m, code 0 .. 15. Byte i holds
/// element i in its low and element i + 16 in its high nibble.
struct BlockQ4_1 {
  static constexpr int kElements = 32;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 0;
  static constexpr ScaleCode kScales = ScaleCode::Half;
  Bits16 d, m; ///< F16
  uint8_t codes[16];

  /// Writes codes in column order, without scale or offset.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = codes[i] & 15;
      out[i + 16] = codes[i] >> 4;
    }
  }
};
static_assert(sizeof(BlockQ4_1) == 20);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q4_1_H
