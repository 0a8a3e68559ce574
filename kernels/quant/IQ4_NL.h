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

  /// In column order: indices into kIq4Values.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = codes[i] & 15;
      out[i + 16] = codes[i] >> 4;
    }
  }
};
static_assert(sizeof(BlockIQ4_NL) == 18);

inline void dequantize(const BlockIQ4_NL &block, float *out) {
  float d = f16ToFloat(block.d);
  uint8_t codes[32];
  block.unpackCodes(codes);
  for (int i = 0; i < 32; ++i)
    out[i] = d * float(kIq4Values[codes[i]]);
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ4_NL_H
