//===- Q5_0.h - 5-bit, symmetric --------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q5_0_H
#define MOE_KERNELS_QUANT_Q5_0_H

#include "kernels/quant/Half.h"

namespace moek {

/// 32 elements, 5.5 bits each: x = d * (code - 16), code 0 .. 31. Byte i of
/// `low` holds the low four bits of elements i and i + 16; bit e of `high`, a
/// little-endian number, is bit 4 of element e.
struct BlockQ5_0 {
  static constexpr int kElements = 32;
  Bits16 d; ///< F16
  uint8_t high[4];
  uint8_t low[16];

  /// In column order, without scale or zero point.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = uint8_t((low[i] & 15) | (high[i / 8] >> (i % 8) & 1) << 4);
      out[i + 16] =
          uint8_t(low[i] >> 4 | (high[2 + i / 8] >> (i % 8) & 1) << 4);
    }
  }
};
static_assert(sizeof(BlockQ5_0) == 22);

inline void dequantize(const BlockQ5_0 &block, float *out) {
  float d = f16ToFloat(block.d);
  uint8_t codes[32];
  block.unpackCodes(codes);
  for (int i = 0; i < 32; ++i)
    out[i] = d * float(codes[i] - 16);
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q5_0_H
