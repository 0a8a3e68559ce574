//===- Numbers.h - Floating-point formats of a GPU --------------*- C++ -*-===//
//
// Conversions use integer arithmetic, which is the same on every host. Sums
// that a host would round twice are first rounded to odd in binary64: then a
// second rounding to 24 bits or fewer, in any direction, gives the same result
// as rounding the exact sum.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_NUMBERS_H
#define MOE_TEST_SOFTGPU_NUMBERS_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace softgpu {

enum class Rounding : uint8_t { Nearest, Zero, Down, Up, NearestAway };

struct FloatFormat {
  int exponentBits, mantissaBits;
  /// If false, only all ones are NaN, and overflow saturates.
  bool hasInfinity = true;
};
inline constexpr FloatFormat kHalf{5, 10}, kBfloat{8, 7}, kSingle{8, 23},
    kTf32{8, 10}, kE4m3{4, 3, false}, kE5m2{5, 2};

/// Encodes `value` in `format` as right-aligned bits. NaN becomes the format's
/// canonical one.
inline uint32_t encodeFloat(double value, FloatFormat format, Rounding rounding,
                            bool saturates = false) {
  int bias = (1 << (format.exponentBits - 1)) - 1;
  int top = (1 << format.exponentBits) - 1;
  uint64_t bits = std::bit_cast<uint64_t>(value);
  uint32_t sign = uint32_t(bits >> 63)
                  << (format.exponentBits + format.mantissaBits);
  uint32_t ones = (1u << format.mantissaBits) - 1;
  // The canonical NaN is all ones; that of tf32 and f32 has no sign.
  if (std::isnan(value))
    return uint32_t(top) << format.mantissaBits | ones;
  uint32_t infinity = uint32_t(top) << format.mantissaBits;
  uint32_t largest = format.hasInfinity ? infinity - 1 : infinity + ones - 1;
  bool isNegative = sign != 0;
  if (std::isinf(value))
    return sign | (format.hasInfinity && !saturates ? infinity : largest);
  int exponent = int(bits >> 52 & 0x7FF);
  uint64_t mantissa = bits & ((uint64_t(1) << 52) - 1);
  if (!exponent && !mantissa)
    return sign;
  if (exponent)
    mantissa |= uint64_t(1) << 52;
  else
    exponent = 1;
  // value = mantissa * 2^(exponent - 1075); the unit of the result is 2^unit.
  int lead = 63 - std::countl_zero(mantissa) + exponent - 1075;
  int least = 1 - bias;
  int unit = (lead < least ? least : lead) - format.mantissaBits;
  int shift = unit - (exponent - 1075);
  uint64_t kept, rest, half;
  if (shift <= 0) {
    kept = mantissa << -shift, rest = 0, half = 1;
  } else if (shift > 63) {
    // The number is less than half a unit, but not zero.
    kept = 0, rest = 1, half = 2;
  } else {
    kept = mantissa >> shift;
    rest = mantissa & ((uint64_t(1) << shift) - 1);
    half = uint64_t(1) << (shift - 1);
  }
  bool up = false;
  switch (rounding) {
  case Rounding::Nearest:
    up = rest > half || (rest == half && (kept & 1));
    break;
  case Rounding::NearestAway:
    up = rest >= half && rest;
    break;
  case Rounding::Zero:
    break;
  case Rounding::Down:
    up = rest && isNegative;
    break;
  case Rounding::Up:
    up = rest && !isNegative;
    break;
  }
  kept += up;
  // The leading one of `kept` increments the exponent field.
  uint64_t field =
      lead < least ? 0 : uint64_t(lead + bias - 1) << format.mantissaBits;
  uint64_t result = field + kept;
  if (result > largest) {
    bool toLargest = saturates || !format.hasInfinity ||
                     rounding == Rounding::Zero ||
                     (rounding == Rounding::Down && !isNegative) ||
                     (rounding == Rounding::Up && isNegative);
    result = toLargest ? largest : infinity;
  }
  return sign | uint32_t(result);
}

inline double decodeFloat(uint32_t bits, FloatFormat format) {
  int bias = (1 << (format.exponentBits - 1)) - 1;
  uint32_t ones = (1u << format.mantissaBits) - 1;
  int exponent =
      int(bits >> format.mantissaBits) & ((1 << format.exponentBits) - 1);
  uint32_t mantissa = bits & ones;
  double sign =
      bits >> (format.exponentBits + format.mantissaBits) & 1 ? -1 : 1;
  if (exponent == (1 << format.exponentBits) - 1 &&
      (format.hasInfinity || mantissa == ones))
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (!exponent)
    return sign * std::ldexp(double(mantissa), 1 - bias - format.mantissaBits);
  return sign * std::ldexp(double(mantissa + ones + 1),
                           exponent - bias - format.mantissaBits);
}

inline float asFloat(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t asBits(float value) { return std::bit_cast<uint32_t>(value); }

/// The NaN that every F32 op returns.
inline constexpr uint32_t kNan = 0x7FFFFFFF;
inline float canonical(float value) {
  return value == value ? value : asFloat(kNan);
}

/// Flushes subnormals to zero with their sign.
inline float flush(float value) {
  uint32_t bits = asBits(value);
  return asFloat(bits & 0x7F800000 ? bits : bits & 0x80000000);
}

/// Clamps to [0, 1]; NaN becomes 0.
inline float saturate(float value) {
  return value > 0 ? (value < 1 ? value : 1.0f) : 0.0f;
}

inline float floatOfHalf(uint16_t half) {
  uint32_t magnitude = uint32_t(half & 0x7FFF) << 13;
  // Multiplying by 2^112 changes the exponent's bias from half to single, for
  // subnormals too.
  uint32_t bits = asBits(asFloat(magnitude) * 0x1p112f);
  bits = (half & 0x7C00) == 0x7C00 ? magnitude | 0x7F800000 : bits;
  return asFloat(bits | uint32_t(half & 0x8000) << 16);
}
inline uint16_t halfOfFloat(float value) {
  return uint16_t(encodeFloat(value, kHalf, Rounding::Nearest));
}
inline float floatOfBfloat(uint16_t value) {
  return asFloat(uint32_t(value) << 16);
}
inline uint16_t bfloatOfFloat(float value) {
  uint32_t bits = asBits(value);
  uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return value == value ? uint16_t(rounded) : uint16_t(0x7FFF);
}

/// Returns the quieted first NaN among the operands of a sum; if a NaN results
/// without one, it is negative. (The order was observed on sm_90.)
inline double withNan(double result, double first, double second,
                      double third) {
  if (result == result)
    return result;
  double nan = first != first ? first : second != second ? second : third;
  uint64_t bits =
      nan != nan ? std::bit_cast<uint64_t>(nan) : 0xFFF8000000000000;
  return std::bit_cast<double>(bits | uint64_t(1) << 51);
}

/// Returns a + b rounded to odd: the last bit tells that something was lost.
inline double addToOdd(double a, double b) {
  double sum = a + b;
  double part = sum - a;
  double lost = (a - (sum - part)) + (b - part);
  if (lost == 0 || !std::isfinite(sum))
    return sum;
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (bits & 1)
    return sum;
  bool away = (lost > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_NUMBERS_H
