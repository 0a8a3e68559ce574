//===- Q4_K.h - 4-bit with two levels of scales and minima ------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q4_K_H
#define MOE_KERNELS_QUANT_Q4_K_H

#include "kernels/quant/Half.h"
#include "kernels/quant/KScales.h"

namespace moek {

/// 256 elements, 4.5 bits each, in 8 sub-blocks of 32: element e of sub-block s
/// is x = (d * scale(s)) * code(e) - dmin * min(s), code 0 .. 15. Byte
/// 32 j + i holds element 64 j + i in its low and 64 j + 32 + i in its high
/// nibble.
struct BlockQ4_K {
  static constexpr int kElements = 256;
  Bits16 d, dmin; ///< F16
  KScales scales;
  uint8_t codes[128];

  /// In column order, without scale or minimum.
  void unpackCodes(uint8_t *out) const {
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 32; ++i) {
        out[64 * j + i] = codes[32 * j + i] & 15;
        out[64 * j + 32 + i] = codes[32 * j + i] >> 4;
      }
  }
};
static_assert(sizeof(BlockQ4_K) == 144);

inline void dequantize(const BlockQ4_K &block, float *out) {
  float d = f16ToFloat(block.d), dmin = f16ToFloat(block.dmin);
  uint8_t codes[256];
  block.unpackCodes(codes);
  for (int i = 0; i < 256; ++i)
    out[i] = d * float(block.scales.scale(i / 32)) * float(codes[i]) -
             dmin * float(block.scales.min(i / 32));
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q4_K_H
