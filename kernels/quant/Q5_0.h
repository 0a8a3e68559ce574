//===- Q5_0.h - 5-bit, symmetric --------------------------------*- C++ -*-===//

#ifndef MOE_KERNELS_QUANT_Q5_0_H
#define MOE_KERNELS_QUANT_Q5_0_H

#include "kernels/quant/Traits.h"

#include <cstring>

namespace moek {

/// Unpacks five-bit codes as Q5_0 and Q5_1 pack them, eight at a time.
[[gnu::always_inline]] inline void
unpackQ5(const uint8_t (&low)[16], const uint8_t (&high)[4], uint8_t *out) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  // Moves bit i of `bits` to bit 4 of byte i: byte i keeps bit i of its copy of
  // `bits`, and adding 127 carries it into bit 7.
  auto spread = [](uint8_t bits) {
    uint64_t kept = bits * kOnes & 0x8040201008040201;
    return (kept + 127 * kOnes) >> 3 & 16 * kOnes;
  };
  for (int i = 0; i < 2; ++i) {
    uint64_t nibbles;
    std::memcpy(&nibbles, low + 8 * i, 8);
    uint64_t first = (nibbles & 15 * kOnes) | spread(high[i]);
    uint64_t second = (nibbles >> 4 & 15 * kOnes) | spread(high[2 + i]);
    std::memcpy(out + 8 * i, &first, 8);
    std::memcpy(out + 16 + 8 * i, &second, 8);
  }
}

/// 32 elements, 5.5 bits each: x = d * (code - 16), code 0 .. 31. Byte i of
/// `low` holds the low four bits of elements i and i + 16; bit e of `high`, a
/// little-endian number, is bit 4 of element e.
struct BlockQ5_0 {
  static constexpr int kElements = 32;
  static constexpr int kCodeBits = 5, kSub = 32, kZero = 16;
  static constexpr ScaleCode kScales = ScaleCode::Half;
  Bits16 d; ///< F16
  uint8_t high[4];
  uint8_t low[16];

  /// Writes codes in column order, without scale or zero point.
  void unpackCodes(uint8_t *out) const { unpackQ5(low, high, out); }
};
static_assert(sizeof(BlockQ5_0) == 22);

} // namespace moek

#endif // MOE_KERNELS_QUANT_Q5_0_H
