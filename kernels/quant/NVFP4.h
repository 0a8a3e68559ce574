//===- NVFP4.h - 4-bit floats with 8-bit float scales -----------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_NVFP4_H
#define MOE_KERNELS_QUANT_NVFP4_H

#include "kernels/quant/MXFP4.h"

namespace moek {

/// 64 elements, 4.5 bits each, in 4 sub-blocks of 16: element e of sub-block s
/// is x = scale(s) * kFp4Values[code]. Byte 8 s + i of `codes` holds element
/// 16 s + i in its low and 16 s + 8 + i in its high nibble.
struct BlockNVFP4 {
  static constexpr int kElements = 64;
  static constexpr int kCodeBits = 4, kSub = 16, kZero = 12;
  static constexpr ScaleCode kScales = ScaleCode::Floats;
  static constexpr auto &kValues = kFp4Values;
  uint8_t scales[4]; ///< E4M3 (bias 7); the sign is ignored, 0x7f means 0.
  uint8_t codes[32];

  /// Writes codes, which are indices into kFp4Values, in column order.
  void unpackCodes(uint8_t *out) const {
    for (int s = 0; s < 4; ++s, out += 16)
      for (int i = 0; i < 8; ++i) {
        out[i] = codes[8 * s + i] & 15;
        out[i + 8] = codes[8 * s + i] >> 4;
      }
  }

  /// The stored scale as seven bits that every reader understands alike.
  uint8_t scaleBits(int s) const {
    return scales[s] == 0x7f ? 0 : scales[s] & 0x7f;
  }
  /// Half of the stored scale, because kFp4Values are doubled.
  float scale(int s) const {
    int exponent = scaleBits(s) >> 3, mantissa = scaleBits(s) & 7;
    if (exponent == 0)
      return float(mantissa) * 0x1p-10f;
    return std::bit_cast<float>(uint32_t(exponent - 8 + 127) << 23 |
                                uint32_t(mantissa) << 20);
  }
};
static_assert(sizeof(BlockNVFP4) == 36);

} // namespace moek

#endif // MOE_KERNELS_QUANT_NVFP4_H
