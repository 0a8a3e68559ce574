//===- Bf16Sum.h - Arithmetic of BF16 dot products --------------*- C++ -*-===//
//
// As in tdpbf16ps and vdpbf16ps: rounding to nearest even; denormal inputs are
// taken as zero and denormal results flushed to zero, whatever MXCSR says.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_AMX_BF16SUM_H
#define MOE_TEST_AMX_BF16SUM_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace moek::test {

/// Converts to FP32, with denormals taken as zero.
inline float widenBf16(uint16_t bits) {
  if ((bits & 0x7f80) == 0)
    bits &= 0x8000;
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// Rounds an exact result to FP32: to nearest even, with denormals flushed to
/// zero. Whether a result is denormal is decided after rounding to 24 bits:
/// just below the smallest normal number it is rounded up to that.
inline float roundToFloat(double exact) {
  constexpr double kLeast = double(std::numeric_limits<float>::min());
  if (std::fabs(exact) < kLeast * (1 - 0x1p-25))
    return std::copysign(0.0f, float(exact));
  return float(exact);
}

inline float flushed(float value) { return roundToFloat(double(value)); }

/// Adds two FP32 numbers, or one and the product of two BF16, with one
/// rounding: the product of 8-bit significands is exact in a double, and a sum
/// rounded to a double's 53 bits and then to 24 equals the sum rounded once.
inline float addRounded(double a, double b) { return roundToFloat(a + b); }

} // namespace moek::test

#endif // MOE_TEST_AMX_BF16SUM_H
