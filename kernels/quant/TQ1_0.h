//===- TQ1_0.h - Ternary format with five elements per byte -----*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_TQ1_0_H
#define MOE_KERNELS_QUANT_TQ1_0_H

#include "kernels/quant/Half.h"

namespace moek {

/// 256 elements, 1.6875 bits each: x = d * (digit - 1), digit 0 .. 2. A byte is
/// a fraction of 256 with five digits in base 3. Digit k is floor(3 * (byte *
/// 3^k mod 256) / 256). Digit k of low[i] is element 32 k + i, digit k of
/// middle[i] is element 160 + 16 k + i, and digit k of high[i], which has only
/// four, is element 240 + 4 k + i.
struct BlockTQ1_0 {
  static constexpr int kElements = 256;
  uint8_t low[32], middle[16], high[4];
  Bits16 d; ///< F16

  static int digit(uint8_t byte, int k) {
    for (; k > 0; --k)
      byte = uint8_t(3 * byte);
    return 3 * byte >> 8;
  }
};
static_assert(sizeof(BlockTQ1_0) == 54);

inline void dequantize(const BlockTQ1_0 &block, float *out) {
  float d = f16ToFloat(block.d);
  auto put = [&](const uint8_t *bytes, int count, int digits) {
    for (int k = 0; k < digits; ++k)
      for (int i = 0; i < count; ++i)
        *out++ = d * float(BlockTQ1_0::digit(bytes[i], k) - 1);
  };
  put(block.low, 32, 5);
  put(block.middle, 16, 5);
  put(block.high, 4, 4);
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_TQ1_0_H
