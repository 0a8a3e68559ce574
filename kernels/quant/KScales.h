//===- KScales.h - The packed scales of Q4_K and Q5_K -----------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_KSCALES_H
#define MOE_KERNELS_QUANT_KSCALES_H

#include <cstdint>

namespace moek {

/// Eight scales and eight minima of six bits each. For s < 4, bytes s and s + 4
/// hold scale s and minimum s in their low six bits. For s >= 4, the low four
/// bits are the low (scale) and high (minimum) nibble of byte s + 4, the high
/// two are the top bits of bytes s - 4 (scale) and s (minimum).
struct KScales {
  uint8_t bytes[12];

  int scale(int s) const {
    return s < 4 ? bytes[s] & 63
                 : (bytes[s + 4] & 15) | (bytes[s - 4] >> 6) << 4;
  }
  int min(int s) const {
    return s < 4 ? bytes[s + 4] & 63 : bytes[s + 4] >> 4 | (bytes[s] >> 6) << 4;
  }
};
static_assert(sizeof(KScales) == 12);

} // namespace moek

#endif // MOE_KERNELS_QUANT_KSCALES_H
