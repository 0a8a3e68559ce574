//===- IQ4_NL.h - 4-bit, non-linear -----------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ4_NL_H
#define MOE_KERNELS_QUANT_IQ4_NL_H

#include "kernels/quant/Traits.h"

namespace moek {

/// Values of IQ4_NL and IQ4_XS codes; they are part of the format.
inline constexpr int8_t kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// 32 elements, 4.5 bits each: x = d * kIq4Values[code]. Byte i holds element
/// i in its low and element i + 16 in its high nibble.
struct BlockIQ4_NL {
  static constexpr int kElements = 32;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 128;
  static constexpr ScaleCode kScales = ScaleCode::Half;
  static constexpr auto &kValues = kIq4Values;
  Bits16 d; ///< F16
  uint8_t codes[16];

  /// Writes codes, which are indices into kIq4Values, in column order.
  void unpackCodes(uint8_t *out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = codes[i] & 15;
      out[i + 16] = codes[i] >> 4;
    }
  }
};
static_assert(sizeof(BlockIQ4_NL) == 18);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ4_NL_H
