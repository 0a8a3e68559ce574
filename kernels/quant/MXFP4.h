//===- MXFP4.h - 4-bit floats with a shared exponent ------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_MXFP4_H
#define MOE_KERNELS_QUANT_MXFP4_H

#include "kernels/quant/Traits.h"

namespace moek {

/// Values of MXFP4 and NVFP4 codes, doubled: E2M1 of OCP Microscaling Formats
/// (MX) 1.0. Bit 3 of a code is the sign.
inline constexpr int8_t kFp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                          0, -1, -2, -3, -4, -6, -8, -12};

/// 32 elements, 4.25 bits each: x = 2^(d - 128) * kFp4Values[code]. Byte i
/// holds element i in its low and element i + 16 in its high nibble. As in GGUF
/// files, 255 is an exponent like any other, not NaN.
struct BlockMXFP4 {
  static constexpr int kElements = 32;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 12;
  static constexpr ScaleCode kScales = ScaleCode::Exponent;
  static constexpr auto &kValues = kFp4Values;
  uint8_t d;
  uint8_t codes[16];

  /// Writes codes, which are indices into kFp4Values, in column order.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = codes[i] & 15;
      out[i + 16] = codes[i] >> 4;
    }
  }
};
static_assert(sizeof(BlockMXFP4) == 17);

} // namespace moek

#endif // MOE_KERNELS_QUANT_MXFP4_H
