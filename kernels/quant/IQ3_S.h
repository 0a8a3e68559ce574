//===- IQ3_S.h - 3-bit format with a grid of 512 rows -----------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_IQ3_S_H
#define MOE_KERNELS_QUANT_IQ3_S_H

#include "kernels/quant/Grids.h"
#include "kernels/quant/Traits.h"

namespace moek {

/// Values of IQ3_S codes: bits 0 to 2 are the grid's digit, bit 3 is the sign.
inline constexpr int8_t kIq3SValues[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                           -1, -3, -5, -7, -9, -11, -13, -15};

/// 256 elements, 3.4375 bits each, in 8 sub-blocks of 32: element e of
/// sub-block s is x = (d * scale(s)) * kIq3SValues[code(e)]. Elements 4 i ...
/// are a row of kGridIQ3_S: low[i] is the low byte of its number, bit i % 8 of
/// high[i / 8] is bit 8. Bit i % 8 of signs[i / 8] is the sign of element i.
/// The scale is 2 n + 1, where n is nibble s of `scales` (low nibble first).
struct BlockIQ3_S {
  static constexpr int kElements = 256;
  static constexpr int kCodeBits = 4, kSub = 32, kZero = 15;
  static constexpr ScaleCode kScales = ScaleCode::OddNibbles;
  static constexpr auto &kValues = kIq3SValues;
  Bits16 d; ///< F16
  uint8_t low[64], high[8], signs[32];
  uint8_t scales[4];

  [[gnu::always_inline]] uint64_t octet(int i) const {
    auto row = [&](int quad) -> uint64_t {
      int top = high[quad / 8] >> (quad % 8) & 1;
      return kGridIQ3_S[low[quad] | top << 8];
    };
    return row(2 * i) | row(2 * i + 1) << 32 | spreadBits<3>(signs[i]);
  }
  [[gnu::always_inline]] void unpackCodes(uint8_t *out) const {
    unpackOctets(*this, out);
  }
  [[gnu::always_inline]] int scale(int s) const {
    return 2 * (scales[s / 2] >> (s % 2 * 4) & 15) + 1;
  }
};
static_assert(sizeof(BlockIQ3_S) == 110);

} // namespace moek

#endif // MOE_KERNELS_QUANT_IQ3_S_H
