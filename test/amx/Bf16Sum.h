//===- Bf16Sum.h - The arithmetic of BF16 dot products ----------*- C++ -*-===//
//
// That of tdpbf16ps and vdpbf16ps: to nearest even, denormals taken for zero
// and flushed to zero, whatever MXCSR says.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_AMX_BF16SUM_H
#define MOE_TEST_AMX_BF16SUM_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace moek::test {

/// FP32 with denormals taken for zero.
inline float widenBf16(uint16_t bits) {
  if ((bits & 0x7f80) == 0)
    bits &= 0x8000;
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// An exact result as FP32: to nearest even, denormals flushed to zero.
/// Whether a result is denormal is seen after rounding to 24 bits: just under
/// the smallest normal number it rounds up to that.
inline float roundToFloat(double exact) {
  constexpr double kLeast = double(std::numeric_limits<float>::min());
  if (std::fabs(exact) < kLeast * (1 - 0x1p-25))
    return std::copysign(0.0f, float(exact));
  return float(exact);
}

inline float flushed(float value) { return roundToFloat(double(value)); }

/// Two FP32 numbers, or one and the product of two BF16, added with one
/// rounding: the product of 8-bit significands is exact in a double, and a sum
/// rounded to a double's 53 bits and then to 24 is as if rounded once.
inline float addRounded(double a, double b) { return roundToFloat(a + b); }

} // namespace moek::test

#endif // MOE_TEST_AMX_BF16SUM_H
