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
  uint8_t scales[4]; ///< E4M3 (bias 7) without a sign; 0x7f means 0.
  uint8_t codes[32];

  /// Half of the stored scale, because kFp4Values are doubled.
  float scale(int s) const {
    int exponent = scales[s] >> 3 & 15, mantissa = scales[s] & 7;
    if (scales[s] == 0x7f)
      return 0;
    if (exponent == 0)
      return float(mantissa) * 0x1p-10f;
    return std::bit_cast<float>(uint32_t(exponent - 8 + 127) << 23 |
                                uint32_t(mantissa) << 20);
  }
};
static_assert(sizeof(BlockNVFP4) == 36);

inline void dequantize(const BlockNVFP4 &block, float *out) {
  for (int e = 0; e < BlockNVFP4::kElements; ++e) {
    int s = e / 16, i = e % 16;
    int code = block.codes[8 * s + i % 8] >> (i / 8 * 4) & 15;
    out[e] = block.scale(s) * float(kFp4Values[code]);
  }
}

} // namespace moek

#endif // MOE_KERNELS_QUANT_NVFP4_H
