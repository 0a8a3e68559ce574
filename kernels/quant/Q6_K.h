//===- Q6_K.h - 6-bit with two levels of scales -----------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q6_K_H
#define MOE_KERNELS_QUANT_Q6_K_H

#include "kernels/quant/Half.h"

namespace moek {

/// 256 elements, 6.5625 bits each, in 16 sub-blocks of 16: element e of
/// sub-block s is x = (d * scales[s]) * (code(e) - 32), code 0 .. 63. In each
/// half h of 128 elements, with i < 32 and k < 4, element 128 h + 32 k + i has
/// its low four bits in low[64 h + 32 (k % 2) + i] (low nibble for k < 2) and
/// its high two in bits 2k and 2k + 1 of high[32 h + i].
struct BlockQ6_K {
  static constexpr int kElements = 256;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  Bits16 d; ///< F16
};
static_assert(sizeof(BlockQ6_K) == 210);

inline void dequantize(const BlockQ6_K &block, float *out) {
  float d = f16ToFloat(block.d);
  for (int i = 0; i < 256; ++i) {
    int half = i / 128, k = i / 32 % 4;
    int low = block.low[half * 64 + i % 64] >> (k / 2 * 4) & 15;
    int high = block.high[half * 32 + i % 32] >> (k * 2) & 3;
    out[i] = d * float(block.scales[i / 16]) * float((low | high << 4) - 32);
  }
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q6_K_H
