//===- Q8_0.h - 8-bit, symmetric --------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q8_0_H
#define MOE_KERNELS_QUANT_Q8_0_H

#include "kernels/quant/Half.h"

namespace moek {

/// 32 elements, 8.5 bits each: x = d * code, code -128 .. 127.
struct BlockQ8_0 {
  static constexpr int kElements = 32;
  Bits16 d; ///< F16
  int8_t codes[32];

  /// In column order, plus 128.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 32; ++i)
      out[i] = uint8_t(codes[i] + 128);
  }
};
static_assert(sizeof(BlockQ8_0) == 34);

inline void dequantize(const BlockQ8_0 &block, float *out) {
  float d = f16ToFloat(block.d);
  for (int i = 0; i < 32; ++i)
    out[i] = float(block.codes[i]) * d;
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q8_0_H
