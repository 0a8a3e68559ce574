//===- Q6_K.h - 6-bit with two levels of scales -----------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q6_K_H
#define MOE_KERNELS_QUANT_Q6_K_H

#include "kernels/quant/Traits.h"

namespace moek {

/// 256 elements, 6.5625 bits each, in 16 sub-blocks of 16: element e of
/// sub-block s is x = (d * scales[s]) * (code(e) - 32), code 0 .. 63. In each
/// half h of 128 elements, with i < 32 and k < 4, element 128 h + 32 k + i has
/// its low four bits in low[64 h + 32 (k % 2) + i] (low nibble for k < 2) and
/// its high two in bits 2k and 2k + 1 of high[32 h + i].
struct BlockQ6_K {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 6, kSub = 16, kZero = 32;
  static constexpr ScaleCode kScales = ScaleCode::Bytes;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  Bits16 d; ///< F16

  /// Writes codes in column order, without scale or zero point.
  void unpackCodes(uint8_t *out) const {
    for (int half = 0; half < 2; ++half, out += 128)
      for (int i = 0; i < 32; ++i) {
        int low0 = low[64 * half + i], low1 = low[64 * half + 32 + i];
        int top = high[32 * half + i];
        out[i] = uint8_t((low0 & 15) | (top & 3) << 4);
        out[i + 32] = uint8_t((low1 & 15) | (top >> 2 & 3) << 4);
        out[i + 64] = uint8_t(low0 >> 4 | (top >> 4 & 3) << 4);
        out[i + 96] = uint8_t(low1 >> 4 | top >> 6 << 4);
      }
  }
  int scale(int s) const { return scales[s]; }
};
static_assert(sizeof(BlockQ6_K) == 210);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q6_K_H
