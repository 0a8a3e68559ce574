//===- IQ4_XS.h - 4-bit, non-linear, two levels of scales -------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ4_XS_H
#define MOE_KERNELS_QUANT_IQ4_XS_H

#include "kernels/quant/IQ4_NL.h"

namespace moek {

/// 256 elements, 4.25 bits each, in 8 sub-blocks of 32: element e of sub-block
/// s is x = (d * (scale(s) - 32)) * kIq4Values[code(e)]. The low four bits of
/// scale s are a nibble of scalesLow[s / 2] (low nibble for even s), the high
/// two are bits 2s and 2s + 1 of scalesHigh. Byte 16 s + i of `codes` holds
/// element 32 s + i in its low and 32 s + 16 + i in its high nibble.
struct BlockIQ4_XS {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 128;
  static constexpr ScaleCode kScales = ScaleCode::SixBits;
  static constexpr auto &kValues = kIq4Values;
  Bits16 d; ///< F16
  Bits16 scalesHigh;
  uint8_t scalesLow[4];
  uint8_t codes[128];

  /// Writes codes, which are indices into kIq4Values, in column order.
  void unpackCodes(uint8_t *out) const {
    for (int s = 0; s < 8; ++s, out += 32)
      for (int i = 0; i < 16; ++i) {
        out[i] = codes[16 * s + i] & 15;
        out[i + 16] = codes[16 * s + i] >> 4;
      }
  }

  /// Scale of sub-block `s`, -32 .. 31.
  int scale(int s) const {
    int low = scalesLow[s / 2] >> (s % 2 * 4) & 15;
    int high = scalesHigh.value() >> (s * 2) & 3;
    return (low | high << 4) - 32;
  }
};
static_assert(sizeof(BlockIQ4_XS) == 136);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ4_XS_H
