//===- Q5_1.h - 5-bit with an offset ----------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q5_1_H
#define MOE_KERNELS_QUANT_Q5_1_H

#include "kernels/quant/Q5_0.h"

namespace moek {

/// 32 elements, 6 bits each: x = d * code + m, code 0 .. 31, packed as in Q5_0.
struct BlockQ5_1 {
  static constexpr int kElements = 32;
  static constexpr int kCodeBits = 5, kSub = 32, kZero = 0;
  static constexpr ScaleCode kScales = ScaleCode::Half;
  Bits16 d, m; ///< F16
  uint8_t high[4];
  uint8_t low[16];

  /// Writes codes in column order, without scale or offset.
  void unpackCodes(uint8_t *out) const { unpackQ5(low, high, out); }
};
static_assert(sizeof(BlockQ5_1) == 24);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q5_1_H
