//===- Q5_K.h - 5-bit with two levels of scales and minima ------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q5_K_H
#define MOE_KERNELS_QUANT_Q5_K_H

#include "kernels/quant/Half.h"
#include "kernels/quant/KScales.h"

namespace moek {

/// Q4_K with a fifth bit: 256 elements, 5.5 bits each, code 0 .. 31. Bit s of
/// high[i] is bit 4 of element 32 s + i.
struct BlockQ5_K {
  static constexpr int kElements = 256;
  Bits16 d, dmin; ///< F16
  KScales scales;
  uint8_t high[32];
  uint8_t low[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

inline void dequantize(const BlockQ5_K &block, float *out) {
  float d = f16ToFloat(block.d), dmin = f16ToFloat(block.dmin);
  for (int i = 0; i < 256; ++i) {
    int s = i / 32;
    int low = block.low[i / 64 * 32 + i % 32] >> (s % 2 * 4) & 15;
    int high = block.high[i % 32] >> s & 1;
    out[i] = d * float(block.scales.scale(s)) * float(low | high << 4) -
             dmin * float(block.scales.min(s));
  }
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q5_K_H
