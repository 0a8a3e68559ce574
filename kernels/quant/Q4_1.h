//===- Q4_1.h - 4-bit with an offset ----------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q4_1_H
#define MOE_KERNELS_QUANT_Q4_1_H

#include "kernels/quant/Half.h"

namespace moek {

/// 32 elements, 5 bits each: x = d * code + m, code 0 .. 15. Byte i holds
/// element i in its low and element i + 16 in its high nibble.
struct BlockQ4_1 {
  static constexpr int kElements = 32;
  Bits16 d, m; ///< F16
  uint8_t codes[16];

  /// In column order, without scale or zero point.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = codes[i] & 15;
      out[i + 16] = codes[i] >> 4;
    }
  }
};
static_assert(sizeof(BlockQ4_1) == 20);

inline void dequantize(const BlockQ4_1 &block, float *out) {
  float d = f16ToFloat(block.d), m = f16ToFloat(block.m);
  uint8_t codes[32];
  block.unpackCodes(codes);
  for (int i = 0; i < 32; ++i)
    out[i] = d * float(codes[i]) + m;
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q4_1_H
