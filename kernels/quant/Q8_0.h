//===- Q8_0.h - 8-bit, symmetric --------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q8_0_H
#define MOE_KERNELS_QUANT_Q8_0_H

#include "kernels/quant/Traits.h"

namespace moek {

/// 32 elements, 8.5 bits each: x = d * code, code -128 .. 127.
struct BlockQ8_0 {
  static constexpr int kElements = 32;
  static constexpr int kCodeBits = 8, kSub = 32, kZero = 128;
  static constexpr ScaleCode kScales = ScaleCode::Half;
  Bits16 d; ///< F16
  int8_t codes[32];

  /// Writes codes plus 128 in column order.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 32; ++i)
      out[i] = uint8_t(codes[i] + 128);
  }
};
static_assert(sizeof(BlockQ8_0) == 34);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q8_0_H
