//===- IQ4_NL.h - 4-bit, non-linear -----------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ4_NL_H
#define MOE_KERNELS_QUANT_IQ4_NL_H

#include "kernels/quant/Half.h"

namespace moek {

/// What a code of IQ4_NL and IQ4_XS stands for; part of the format.
inline constexpr int8_t kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// 32 elements, 4.5 bits each: x = d * kIq4Values[code]. Byte i holds element
/// i in its low and element i + 16 in its high nibble.
struct BlockIQ4_NL {
  static constexpr int kElements = 32;
  Bits16 d; ///< F16
  uint8_t codes[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

inline void dequantize(const BlockIQ4_NL &block, float *out) {
  float d = f16ToFloat(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * float(kIq4Values[block.codes[i] & 15]);
    out[i + 16] = d * float(kIq4Values[block.codes[i] >> 4]);
  }
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ4_NL_H
