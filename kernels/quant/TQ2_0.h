//===- TQ2_0.h - Ternary format with two bits per element -------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_TQ2_0_H
#define MOE_KERNELS_QUANT_TQ2_0_H

#include "kernels/quant/Half.h"

namespace moek {

/// 256 elements, 2.0625 bits each: x = d * (code - 1), code 0 .. 3; files
/// contain only 0 .. 2. In each half h of 128 elements, bits 2k and 2k + 1 of
/// codes[32 h + i] are element 128 h + 32 k + i.
struct BlockTQ2_0 {
  static constexpr int kElements = 256;
  uint8_t codes[64];
  Bits16 d; ///< F16
};
static_assert(sizeof(BlockTQ2_0) == 66);

inline void dequantize(const BlockTQ2_0 &block, float *out) {
  float d = f16ToFloat(block.d);
  for (int e = 0; e < BlockTQ2_0::kElements; ++e) {
    int code = block.codes[e / 128 * 32 + e % 32] >> (e / 32 % 4 * 2) & 3;
    out[e] = d * float(code - 1);
  }
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_TQ2_0_H
