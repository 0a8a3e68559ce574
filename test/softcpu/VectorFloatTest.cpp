#include "test/softcpu/VectorTest.h"

#include <cfenv>
#include <cmath>

namespace moek::test {

namespace {
/// Return the last source unless the comparison is true: also for zeros and
/// NaNs.
template <class T> T greater(T a, T b) { return a > b ? a : b; }
template <class T> T less(T a, T b) { return a < b ? a : b; }

/// c is added for even i and subtracted for odd i, or the other way round.
template <class T> T alternating(T a, T b, T c, size_t i, size_t added) {
  return std::fma(a, b, i % 2 == added ? c : -c);
}

template <class T> T roundScaled(T value, unsigned immediate) {
  if (!std::isfinite(value))
    return value;
  long double scaled = std::ldexp((long double)value, int(immediate >> 4));
  switch (immediate & 7) {
  case 1:
    scaled = std::floor(scaled);
    break;
  case 2:
    scaled = std::ceil(scaled);
    break;
  case 3:
    scaled = std::trunc(scaled);
    break;
  default:
    scaled = std::nearbyint(scaled);
  }
  return T(std::ldexp(scaled, -int(immediate >> 4)));
}

bool signals(float value) {
  auto bits = elementAt<uint32_t>(&value, 0);
  return std::isnan(value) && !(bits & 0x00400000);
}
bool signals(double value) {
  auto bits = elementAt<uint64_t>(&value, 0);
  return std::isnan(value) && !(bits & 0x0008000000000000);
}

/// vscalef: its table of special cases, and a * 2^floor(b).
template <class T> T scaled(T a, T b) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  if (signals(a) || std::isnan(b))
    return kNan;
  if (b == kInfinity)
    return std::isnan(a) ? kInfinity
           : a == 0      ? kNan
                         : std::copysign(kInfinity, a);
  if (b == -kInfinity)
    return std::isnan(a) ? T(0) : std::isinf(a) ? kNan : std::copysign(T(0), a);
  if (std::isnan(a) || std::isinf(a) || a == 0)
    return a;
  // A long double represents all results except those that overflow or vanish.
  long double by = std::fmin(std::fmax(std::floor(b), T(-8000)), T(8000));
  return T(std::ldexp((long double)a, int(by)));
}

/// Returns the result of `compute` under the rounding mode of fesetround.
template <class Compute> auto rounding(int mode, Compute compute) {
  std::fesetround(mode);
  volatile auto result = compute();
  std::fesetround(FE_TONEAREST);
  return decltype(compute())(result);
}

template <class To, class From> To toInteger(From value) {
  double rounded = std::nearbyint(double(value));
  if (rounded >= double(std::numeric_limits<To>::min()) &&
      rounded <= double(std::numeric_limits<To>::max()))
    return To(rounded);
  return std::is_signed_v<To> ? std::numeric_limits<To>::min()
                              : std::numeric_limits<To>::max();
}
} // namespace

// clang-format off
#define PACKED(X, name, expression)                                            \
  X(THREE, name "ps", ALL | TO16 | VEX, SAME, float, float, expression)        \
  X(THREE, name "pd", ALL | TO8 | VEX, SAME, double, double, expression)
// The other elements of 16 bytes come from the first source, or with three
// sources from the destination.
#define SINGLE(X, name, forms, rest, expression)                               \
  X(THREE, name "ss", MASKED | SCALAR | forms, ONE_4, float, float, i > 0 ? rest[i] : expression) \
  X(THREE, name "sd", MASKED | SCALAR | forms, ONE_8, double, double, i > 0 ? rest[i] : expression)
#define BOTH(X, name, expression)                                              \
  PACKED(X, name, expression) SINGLE(X, name, VEX_ONE, a, expression)
#define VEX_ONE (VEX | XMM)
#define FUSED(X, name, x, y, z)                                                \
  PACKED(X, name "132", std::fma(x old[i], b[i], z a[i]))                      \
  PACKED(X, name "213", std::fma(x a[i], old[i], z b[i]))                      \
  PACKED(X, name "231", std::fma(x a[i], b[i], z old[i]))                      \
  SINGLE(X, name "132", VEX_ONE, old, std::fma(x old[i], b[i], z a[i]))        \
  SINGLE(X, name "213", VEX_ONE, old, std::fma(x a[i], old[i], z b[i]))        \
  SINGLE(X, name "231", VEX_ONE, old, std::fma(x a[i], b[i], z old[i]))
#define ALTERNATING(X, name, added)                                            \
  PACKED(X, name "132", alternating(old[i], b[i], a[i], i, added))             \
  PACKED(X, name "213", alternating(a[i], old[i], b[i], i, added))             \
  PACKED(X, name "231", alternating(a[i], b[i], old[i], i, added))
#define LOGIC(X, name, expression)                                             \
  X(THREE, name "ps", ALL | TO16 | VEX, SAME, uint32_t, uint32_t, expression)  \
  X(THREE, name "pd", ALL | TO8 | VEX, SAME, uint64_t, uint64_t, expression)

#define ARITHMETIC(X)                                                          \
  BOTH(X, "vadd", a[i] + b[i])                                                 \
  BOTH(X, "vsub", a[i] - b[i])                                                 \
  BOTH(X, "vmul", a[i] * b[i])                                                 \
  BOTH(X, "vdiv", a[i] / b[i])                                                 \
  BOTH(X, "vmin", less(a[i], b[i]))                                            \
  BOTH(X, "vmax", greater(a[i], b[i]))                                         \
  SINGLE(X, "vsqrt", VEX_ONE, a, std::sqrt(b[i]))                              \
  X(TWO, "vsqrtps", ALL | TO16 | VEX, SAME, float, float, std::sqrt(b[i]))     \
  X(TWO, "vsqrtpd", ALL | TO8 | VEX, SAME, double, double, std::sqrt(b[i]))    \
  LOGIC(X, "vand", a[i] & b[i])                                                \
  LOGIC(X, "vandn", ~a[i] & b[i])                                              \
  LOGIC(X, "vor", a[i] | b[i])                                                 \
  LOGIC(X, "vxor", a[i] ^ b[i])                                                \
  X(TWO_I, "vrndscaleps", ALL | TO16, SAME, float, float, roundScaled(b[i], imm)) \
  X(TWO_I, "vrndscalepd", ALL | TO8, SAME, double, double, roundScaled(b[i], imm)) \
  X(THREE_I, "vrndscaless", MASKED | SCALAR | XMM, ONE_4, float, float, i > 0 ? a[i] : roundScaled(b[i], imm)) \
  X(THREE_I, "vrndscalesd", MASKED | SCALAR | XMM, ONE_8, double, double, i > 0 ? a[i] : roundScaled(b[i], imm)) \
  X(THREE, "vscalefps", ALL | TO16, SAME, float, float, scaled(a[i], b[i]))    \
  X(THREE, "vscalefpd", ALL | TO8, SAME, double, double, scaled(a[i], b[i]))   \
  SINGLE(X, "vscalef", XMM, a, scaled(a[i], b[i]))

#define FUSED_ARITHMETIC(X)                                                    \
  FUSED(X, "vfmadd", , , )                                                     \
  FUSED(X, "vfmsub", , , -)                                                    \
  FUSED(X, "vfnmadd", -, , )                                                   \
  FUSED(X, "vfnmsub", -, , -)                                                  \
  ALTERNATING(X, "vfmaddsub", 1)                                               \
  ALTERNATING(X, "vfmsubadd", 0)

// An instruction has its own rounding only between registers of 64 bytes.
#define ROUNDINGS(X, mode, fe)                                                 \
  X(THREE, "vaddps {" mode "-sae},", MASKED | REGISTER, SAME, float, float, rounding(fe, [&] { return a[i] + b[i]; })) \
  X(THREE, "vsubpd {" mode "-sae},", MASKED | REGISTER, SAME, double, double, rounding(fe, [&] { return a[i] - b[i]; })) \
  X(THREE, "vmulps {" mode "-sae},", MASKED | REGISTER, SAME, float, float, rounding(fe, [&] { return a[i] * b[i]; })) \
  X(THREE, "vdivps {" mode "-sae},", MASKED | REGISTER, SAME, float, float, rounding(fe, [&] { return a[i] / b[i]; })) \
  X(THREE, "vfmadd231ps {" mode "-sae},", MASKED | REGISTER, SAME, float, float, rounding(fe, [&] { return std::fma(a[i], b[i], old[i]); })) \
  X(THREE, "vaddss {" mode "-sae},", MASKED | SCALAR | REGISTER, ONE_4, float, float, i > 0 ? a[i] : rounding(fe, [&] { return a[i] + b[i]; })) \
  X(TWO, "vsqrtps {" mode "-sae},", MASKED | REGISTER, SAME, float, float, rounding(fe, [&] { return std::sqrt(b[i]); })) \
  X(TWO, "vcvtps2dq {" mode "-sae},", MASKED | REGISTER, SAME, float, int32_t, rounding(fe, [&] { return toInteger<int32_t>(b[i]); })) \
  X(TWO, "vcvtps2udq {" mode "-sae},", MASKED | REGISTER, SAME, float, uint32_t, rounding(fe, [&] { return toInteger<uint32_t>(b[i]); })) \
  X(TWO, "vcvtdq2ps {" mode "-sae},", MASKED | REGISTER, SAME, int32_t, float, rounding(fe, [&] { return float(b[i]); })) \
  X(TWO, "vcvtuqq2pd {" mode "-sae},", MASKED | REGISTER, SAME, uint64_t, double, rounding(fe, [&] { return double(b[i]); })) \
  X(TWO, "vcvtpd2ps {" mode "-sae},", MASKED | REGISTER, HALF_TO, double, float, rounding(fe, [&] { return float(b[i]); }))

#define ALL_ROUNDINGS(X)                                                       \
  ROUNDINGS(X, "rn", FE_TONEAREST)                                             \
  ROUNDINGS(X, "rd", FE_DOWNWARD)                                              \
  ROUNDINGS(X, "ru", FE_UPWARD)                                                \
  ROUNDINGS(X, "rz", FE_TOWARDZERO)
// clang-format on

MOE_VECTOR_CASES(FloatArithmetic, ARITHMETIC);
MOE_VECTOR_CASES(FloatFused, FUSED_ARITHMETIC);
MOE_VECTOR_CASES(FloatRounding, ALL_ROUNDINGS);

} // namespace moek::test
