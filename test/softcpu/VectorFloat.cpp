//===- VectorFloat.cpp - Floating-point arithmetic ------------------------===//
//
// Results, including NaNs, are those of the instructions' VEX counterparts.
//
//===----------------------------------------------------------------------===//

#include "test/softcpu/VectorOperations.h"

#include <cmath>
#include <limits>

namespace moek::test {

namespace {
//===----------------------------------------------------------------------===//
// vrndscale: rounds to a multiple of 2^-(immediate / 16)
//===----------------------------------------------------------------------===//

__m128d rounded(__m128d value, int control) {
  switch (control & 7) {
  case 0:
    return _mm_round_sd(value, value, _MM_FROUND_TO_NEAREST_INT);
  case 1:
    return _mm_round_sd(value, value, _MM_FROUND_TO_NEG_INF);
  case 2:
    return _mm_round_sd(value, value, _MM_FROUND_TO_POS_INF);
  case 3:
    return _mm_round_sd(value, value, _MM_FROUND_TO_ZERO);
  default:
    return _mm_round_sd(value, value, _MM_FROUND_CUR_DIRECTION);
  }
}

template <class T> T quiet(T nan) { return nan + nan; }

template <class T> T roundScaled(T value, uint8_t immediate) {
  if (std::isnan(value))
    return quiet(value);
  // A double this large has no fraction, and the scaling could overflow.
  if (std::fabs(value) >= T(0x1p52))
    return value;
  double scale = double(1 << (immediate >> 4));
  __m128d result = rounded(_mm_set_sd(double(value) * scale), immediate);
  return T(_mm_cvtsd_f64(result) / scale);
}

template <class T>
void roundScale(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < in.bytes / sizeof(T); ++i)
    r[i] = roundScaled(a[i], in.immediate);
  put<sizeof(T)>(in, regs, r.wide());
}

template <class T>
void roundScaleScalar(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(right<sizeof(T)>(in, regs));
  a[0] = roundScaled(a[0], in.immediate);
  putScalar<sizeof(T)>(in, regs, a.wide(), left(in, regs));
}

//===----------------------------------------------------------------------===//
// vscalef: a * 2^floor(b)
//===----------------------------------------------------------------------===//

float scaledBy(float value, float exponent) {
  // Exact in a double, then rounded once: |value| is between 2^-149 and 2^128,
  // so that exponents beyond -400 and 400 change nothing more.
  float whole = std::floor(exponent);
  int by = whole < -400 ? -400 : whole > 400 ? 400 : int(whole);
  return float(double(value) * std::bit_cast<double>(int64_t(by + 1023) << 52));
}

double scaledBy(double value, double exponent) {
  int by = int(std::fmax(-3000.0, std::fmin(3000.0, std::floor(exponent))));
  return std::ldexp(value, by);
}

template <class T> T scaled(T a, T b) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  using Bits = Unsigned<sizeof(T)>;
  bool signals =
      std::isnan(a) && std::bit_cast<Bits>(quiet(a)) != std::bit_cast<Bits>(a);
  if (std::isnan(a) && (signals || !std::isinf(b)))
    return quiet(a);
  if (std::isnan(b))
    return quiet(b);
  if (std::isinf(b)) {
    bool grows = b > 0;
    if (std::isnan(a))
      return grows ? kInfinity : T(0);
    if (grows ? a == 0 : std::isinf(a))
      return -std::numeric_limits<T>::quiet_NaN(); // The default NaN of x86.
    return std::copysign(grows ? kInfinity : T(0), a);
  }
  return scaledBy(a, b);
}

template <class T> void scale(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(left(in, regs)), b(right<sizeof(T)>(in, regs)), r;
  for (size_t i = 0; i < in.bytes / sizeof(T); ++i)
    r[i] = scaled(a[i], b[i]);
  put<sizeof(T)>(in, regs, r.wide());
}

template <class T>
void scaleScalar(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(left(in, regs)), b(right<sizeof(T)>(in, regs));
  b[0] = scaled(a[0], b[0]);
  putScalar<sizeof(T)>(in, regs, b.wide(), a.wide());
}

//===----------------------------------------------------------------------===//
// Comparisons that set flags
//===----------------------------------------------------------------------===//

template <class T>
void compareToFlags(const VectorInstruction &in, Registers &regs) {
  constexpr uint64_t kCarry = 1, kParity = 4, kZero = 0x40;
  constexpr uint64_t kAll = kCarry | kParity | kZero | 0x10 | 0x80 | 0x800;
  T a = Lanes<T>(load(&regs.vector[in.to]))[0];
  T b = Lanes<T>(right<sizeof(T)>(in, regs))[0];
  uint64_t flags = a > b    ? 0
                   : a < b  ? kCarry
                   : a == b ? kZero
                            : kCarry | kParity | kZero;
  regs.flags = (regs.flags & ~kAll) | flags;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MOE_ROW(name, ...)                                                     \
  { ZYDIS_MNEMONIC_##name, Form::Vector, __VA_ARGS__ }

#define MOE_BINARY(name, text)                                                 \
  MOE_ROW(name##PS, halves2<4, 4, MOE_TWIN2(text "ps")>),                      \
      MOE_ROW(name##PD, halves2<8, 8, MOE_TWIN2(text "pd")>)
#define MOE_BINARY_AND_SCALAR(name, text)                                      \
  MOE_BINARY(name, text), MOE_ROW(name##SS, scalar2<4, MOE_TWIN2(text "ps")>), \
      MOE_ROW(name##SD, scalar2<8, MOE_TWIN2(text "pd")>)

#define MOE_FUSED_PACKED(name, text)                                           \
  MOE_ROW(name##PS, halves3<4, 4, MOE_TWIN3(text "ps")>),                      \
      MOE_ROW(name##PD, halves3<8, 8, MOE_TWIN3(text "pd")>)
#define MOE_FUSED_SCALAR(name, text)                                           \
  MOE_ROW(name##SS, scalar3<4, MOE_TWIN3(text "ps")>),                         \
      MOE_ROW(name##SD, scalar3<8, MOE_TWIN3(text "pd")>)
#define MOE_FUSED_ORDERS(rows, name, text)                                     \
  rows(name##132, text "132"), rows(name##213, text "213"),                    \
      rows(name##231, text "231")
#define MOE_FUSED(name, text)                                                  \
  MOE_FUSED_ORDERS(MOE_FUSED_PACKED, name, text),                              \
      MOE_FUSED_ORDERS(MOE_FUSED_SCALAR, name, text)

/// An operation on the last source only, where a table expects one on two
/// sources.
#define MOE_SECOND(text)                                                       \
  [](__m256i a, __m256i b) {                                                   \
    asm(text " %1, %0" : "=x"(a) : "x"(b));                                    \
    return a;                                                                  \
  }

const VectorRow kRows[] = {
    MOE_BINARY_AND_SCALAR(VADD, "vadd"),
    MOE_BINARY_AND_SCALAR(VSUB, "vsub"),
    MOE_BINARY_AND_SCALAR(VMUL, "vmul"),
    MOE_BINARY_AND_SCALAR(VDIV, "vdiv"),
    MOE_BINARY_AND_SCALAR(VMIN, "vmin"),
    MOE_BINARY_AND_SCALAR(VMAX, "vmax"),
    MOE_BINARY(VAND, "vand"),
    MOE_BINARY(VANDN, "vandn"),
    MOE_BINARY(VOR, "vor"),
    MOE_BINARY(VXOR, "vxor"),
    MOE_ROW(VSQRTPS, halves1<4, 4, MOE_TWIN1("vsqrtps")>),
    MOE_ROW(VSQRTPD, halves1<8, 8, MOE_TWIN1("vsqrtpd")>),
    MOE_ROW(VSQRTSS, scalar2<4, MOE_SECOND("vsqrtps")>),
    MOE_ROW(VSQRTSD, scalar2<8, MOE_SECOND("vsqrtpd")>),

    MOE_FUSED(VFMADD, "vfmadd"),
    MOE_FUSED(VFMSUB, "vfmsub"),
    MOE_FUSED(VFNMADD, "vfnmadd"),
    MOE_FUSED(VFNMSUB, "vfnmsub"),
    MOE_FUSED_ORDERS(MOE_FUSED_PACKED, VFMADDSUB, "vfmaddsub"),
    MOE_FUSED_ORDERS(MOE_FUSED_PACKED, VFMSUBADD, "vfmsubadd"),

    {ZYDIS_MNEMONIC_VRNDSCALEPS, Form::Immediate, roundScale<float>},
    {ZYDIS_MNEMONIC_VRNDSCALEPD, Form::Immediate, roundScale<double>},
    MOE_ROW(VRNDSCALESS, roundScaleScalar<float>),
    MOE_ROW(VRNDSCALESD, roundScaleScalar<double>),
    MOE_ROW(VSCALEFPS, scale<float>),
    MOE_ROW(VSCALEFPD, scale<double>),
    MOE_ROW(VSCALEFSS, scaleScalar<float>),
    MOE_ROW(VSCALEFSD, scaleScalar<double>),

    MOE_ROW(VCOMISS, compareToFlags<float>),
    MOE_ROW(VCOMISD, compareToFlags<double>),
    MOE_ROW(VUCOMISS, compareToFlags<float>),
    MOE_ROW(VUCOMISD, compareToFlags<double>),
};
} // namespace

std::span<const VectorRow> floatRows() { return kRows; }

} // namespace moek::test
