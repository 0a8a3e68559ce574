#include "test/softcpu/VectorTest.h"

#include <algorithm>
#include <cmath>

namespace moek::test {

namespace {
template <class To, class From> To saturate(From value) {
  if (value < From(std::numeric_limits<To>::min()))
    return std::numeric_limits<To>::min();
  if (value > From(std::numeric_limits<To>::max()))
    return std::numeric_limits<To>::max();
  return To(value);
}

/// Converts a rounded value to an integer, or to the indefinite one.
template <class To> To toInteger(long double rounded) {
  constexpr bool kSigned = std::is_signed_v<To>;
  long double least = (long double)std::numeric_limits<To>::min();
  long double most = (long double)std::numeric_limits<To>::max();
  if (rounded >= least && rounded <= most)
    return To(rounded);
  return kSigned ? std::numeric_limits<To>::min()
                 : std::numeric_limits<To>::max();
}
template <class To, class From> To nearest(From value) {
  return toInteger<To>(std::nearbyint((long double)value));
}
template <class To, class From> To truncated(From value) {
  return toInteger<To>(std::trunc((long double)value));
}

/// Returns the value of a half, or a quiet NaN.
float fromHalf(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31)
    return fraction ? std::numeric_limits<float>::quiet_NaN()
                    : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0)
    return sign * std::ldexp(float(fraction), -24);
  return sign * std::ldexp(float(1024 + fraction), exponent - 25);
}

uint16_t toHalf(float value, unsigned immediate) {
  auto bits = elementAt<uint32_t>(&value, 0);
  auto sign = uint16_t(bits >> 16 & 0x8000);
  if (std::isnan(value))
    return uint16_t(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (std::isinf(value))
    return uint16_t(sign | 0x7c00);
  double magnitude = std::fabs(double(value));
  // Units of the last place, which is at least 2^-24.
  int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  double units = std::ldexp(magnitude, 10 - exponent);
  unsigned mode = immediate & 4 ? 0 : immediate & 3;
  bool up = mode == 1 ? sign != 0 : mode == 2 && sign == 0;
  double whole = mode == 0 ? std::nearbyint(units)
                 : up      ? std::ceil(units)
                           : std::trunc(units);
  // A carry increments the exponent.
  double encoded = whole + 1024.0 * (exponent + 14);
  if (encoded >= 0x7c00)
    return uint16_t(sign | (mode == 0 || up ? 0x7c00 : 0x7bff));
  return uint16_t(sign | unsigned(encoded));
}

uint16_t toBf16(float value) {
  auto bits = elementAt<uint32_t>(&value, 0);
  switch (std::fpclassify(value)) {
  case FP_NAN:
    return uint16_t(bits >> 16 | 1 << 6);
  case FP_ZERO:
  case FP_SUBNORMAL:
    return uint16_t(bits >> 31 << 15);
  case FP_INFINITE:
    return uint16_t(bits >> 16);
  default:
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

float flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value)
                                                : value;
}

float widen(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  return flush(elementAt<float>(&wide, 0));
}

/// "+=" with one product, as in the manual's pseudo-code.
float addProduct(float sum, uint16_t a, uint16_t b) {
  return flush(std::fma(widen(a), widen(b), flush(sum)));
}
} // namespace

// clang-format off
#define WIDEN(X, letters, shape, from, to)                                     \
  X(TWO, "vpmovsx" letters, ALL | VEX, shape, from, to, b[i])                  \
  X(TWO, "vpmovzx" letters, ALL | VEX, shape, u##from, u##to, b[i])
#define NARROW(X, letters, shape, from, to)                                    \
  X(TWO, "vpmov" letters, ALL | REGISTER, shape, from, to, b[i])               \
  X(TWO, "vpmovs" letters, ALL | REGISTER, shape, from, to, saturate<to>(b[i])) \
  X(TWO, "vpmovus" letters, ALL | REGISTER, shape, u##from, u##to, saturate<u##to>(b[i]))

#define INTEGERS(X)                                                            \
  WIDEN(X, "bw", HALF_FROM, int8_t, int16_t)                                   \
  WIDEN(X, "bd", QUARTER_FROM, int8_t, int32_t)                                \
  WIDEN(X, "bq", EIGHTH_FROM, int8_t, int64_t)                                 \
  WIDEN(X, "wd", HALF_FROM, int16_t, int32_t)                                  \
  WIDEN(X, "wq", QUARTER_FROM, int16_t, int64_t)                               \
  WIDEN(X, "dq", HALF_FROM, int32_t, int64_t)                                  \
  NARROW(X, "wb", HALF_TO, int16_t, int8_t)                                    \
  NARROW(X, "db", QUARTER_TO, int32_t, int8_t)                                 \
  NARROW(X, "qb", EIGHTH_TO, int64_t, int8_t)                                  \
  NARROW(X, "dw", HALF_TO, int32_t, int16_t)                                   \
  NARROW(X, "qw", QUARTER_TO, int64_t, int16_t)                                \
  NARROW(X, "qd", HALF_TO, int64_t, int32_t)

// For doubles from memory the assembler needs the vector length in the name.
#define FLOATS(X)                                                              \
  X(TWO, "vcvtdq2ps", ALL | VEX | TO16, SAME, int32_t, float, b[i])            \
  X(TWO, "vcvtudq2ps", ALL | TO16, SAME, uint32_t, float, b[i])                \
  X(TWO, "vcvtdq2pd", ALL | VEX | TO8, HALF_FROM, int32_t, double, b[i])       \
  X(TWO, "vcvtudq2pd", ALL | TO8, HALF_FROM, uint32_t, double, b[i])           \
  X(TWO, "vcvtqq2pd", ALL | TO8, SAME, int64_t, double, b[i])                  \
  X(TWO, "vcvtuqq2pd", ALL | TO8, SAME, uint64_t, double, b[i])                \
  X(TWO, "vcvtqq2ps", ALL | REGISTER, HALF_TO, int64_t, float, b[i])           \
  X(TWO, "vcvtuqq2ps", ALL | REGISTER, HALF_TO, uint64_t, float, b[i])         \
  X(TWO, "vcvtps2pd", ALL | VEX | TO8, HALF_FROM, float, double, b[i])         \
  X(TWO, "vcvtpd2ps", ALL | VEX | REGISTER, HALF_TO, double, float, b[i])      \
  X(TWO, "vcvtps2dq", ALL | VEX | TO16, SAME, float, int32_t, nearest<int32_t>(b[i])) \
  X(TWO, "vcvttps2dq", ALL | VEX | TO16, SAME, float, int32_t, truncated<int32_t>(b[i])) \
  X(TWO, "vcvtps2udq", ALL | TO16, SAME, float, uint32_t, nearest<uint32_t>(b[i])) \
  X(TWO, "vcvttps2udq", ALL | TO16, SAME, float, uint32_t, truncated<uint32_t>(b[i])) \
  X(TWO, "vcvtpd2dq", ALL | VEX | REGISTER, HALF_TO, double, int32_t, nearest<int32_t>(b[i])) \
  X(TWO, "vcvttpd2dq", ALL | VEX | REGISTER, HALF_TO, double, int32_t, truncated<int32_t>(b[i])) \
  X(TWO, "vcvtpd2udq", ALL | REGISTER, HALF_TO, double, uint32_t, nearest<uint32_t>(b[i])) \
  X(TWO, "vcvttpd2udq", ALL | REGISTER, HALF_TO, double, uint32_t, truncated<uint32_t>(b[i])) \
  X(TWO, "vcvtps2qq", ALL | TO8, HALF_FROM, float, int64_t, nearest<int64_t>(b[i])) \
  X(TWO, "vcvttps2qq", ALL | TO8, HALF_FROM, float, int64_t, truncated<int64_t>(b[i])) \
  X(TWO, "vcvtps2uqq", ALL | TO8, HALF_FROM, float, uint64_t, nearest<uint64_t>(b[i])) \
  X(TWO, "vcvttps2uqq", ALL | TO8, HALF_FROM, float, uint64_t, truncated<uint64_t>(b[i])) \
  X(TWO, "vcvtpd2qq", ALL | TO8, SAME, double, int64_t, nearest<int64_t>(b[i])) \
  X(TWO, "vcvttpd2qq", ALL | TO8, SAME, double, int64_t, truncated<int64_t>(b[i])) \
  X(TWO, "vcvtpd2uqq", ALL | TO8, SAME, double, uint64_t, nearest<uint64_t>(b[i])) \
  X(TWO, "vcvttpd2uqq", ALL | TO8, SAME, double, uint64_t, truncated<uint64_t>(b[i])) \
  X(THREE, "vcvtss2sd", MASKED | XMM | VEX | SCALAR, ONE_4, float, double, i > 0 ? elementAt<double>(a, i) : b[i]) \
  X(THREE, "vcvtsd2ss", MASKED | XMM | VEX | SCALAR, ONE_8, double, float, i > 0 ? elementAt<float>(a, i) : b[i])

#define HALVES(X)                                                              \
  X(TWO, "vcvtph2ps", ALL | VEX, HALF_FROM, uint16_t, float, fromHalf(b[i]))   \
  X(TWO_I, "vcvtps2ph", ALL | VEX | REGISTER, HALF_TO, float, uint16_t, toHalf(b[i], imm)) \
  X(TWO, "vcvtneps2bf16", ALL | REGISTER | BF16, HALF_TO, float, uint16_t, toBf16(b[i])) \
  X(THREE, "vcvtne2ps2bf16", ALL | TO16 | BF16, SAME, float, uint16_t, toBf16(i < n / 2 ? b[i] : a[i - n / 2])) \
  X(THREE, "vdpbf16ps", ALL | TO16 | BF16, SAME, uint32_t, float, addProduct(addProduct(old[i], a[i] >> 16, b[i] >> 16), a[i], b[i]))
// clang-format on

MOE_VECTOR_CASES(ConversionInteger, INTEGERS);
MOE_VECTOR_CASES(ConversionFloat, FLOATS);
MOE_VECTOR_CASES(ConversionHalf, HALVES);

} // namespace moek::test
