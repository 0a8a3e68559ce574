//===- Half.h - Conversion of 16-bit floats ---------------------*- C++ -*-===//
//
// Converts IEEE binary16 (F16) and bfloat16 (BF16) to and from float without
// hardware support. Widening is exact; narrowing rounds to nearest, ties to
// even, keeps NaN and turns values that are too large into infinity.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_QUANT_HALF_H
#define MOE_KERNELS_QUANT_HALF_H

#include <bit>
#include <cstdint>

namespace moek {

/// A 16-bit number inside a block. It is stored as bytes because a block may
/// start at any address and its bytes are little-endian on every machine.
struct Bits16 {
  uint8_t low, high;

  constexpr uint16_t value() const { return uint16_t(low | high << 8); }
  static constexpr Bits16 of(uint16_t value) {
    return {uint8_t(value), uint8_t(value >> 8)};
  }
};
static_assert(sizeof(Bits16) == 2 && alignof(Bits16) == 1);

constexpr float bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

constexpr uint16_t floatToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return uint16_t(bits >> 16 |
                    0x40); // The quiet bit, so that it stays a NaN.
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

constexpr float f16ToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) // Infinity and NaN: all exponent bits set.
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x0400) // Values from 65536 on.
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  float subnormal = float(magnitude) * 0x1p-24f;
  return sign ? -subnormal : subnormal;
}

constexpr uint16_t floatToF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00;
  if (magnitude >= 0x47800000) // Values from 2^-14 on: normal in F16.
    return sign | 0x7c00;
  if (magnitude >= 0x38800000) { // 2^-14 and more: normal in F16.
    uint32_t rebased = magnitude - (112u << 23);
    return sign | uint16_t((rebased + 0xfff + (rebased >> 13 & 1)) >> 13);
  }
  // Adding 0.5 leaves units of 2^-24 in the low mantissa bits, rounded as the
  // hardware rounds: to nearest even.
  float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return sign | uint16_t(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
}

/// 2^(exponent - 128): half of the value that OCP's E8M0 defines, because the
/// formats' codes count halves. 2^-128 and 2^-127 are denormal.
[[gnu::always_inline]] constexpr float exponentToFloat(uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent
                                           : (exponent - 1u) << 23);
}

constexpr float f16ToFloat(Bits16 bits) { return f16ToFloat(bits.value()); }
constexpr float bf16ToFloat(Bits16 bits) { return bf16ToFloat(bits.value()); }

} // namespace moek

#endif // MOE_KERNELS_QUANT_HALF_H
