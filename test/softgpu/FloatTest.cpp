//===- FloatTest.cpp - Floating point and cvt against host arithmetic -----===//
//
// Directed roundings are checked with long double, which represents every sum
// and product of two f32 and tells on which side of a result the exact value
// is.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/PtxTest.h"

#include <algorithm>
#include <cmath>

namespace softgpu {
namespace {

class FloatTest : public PtxTest {};

uint64_t bitsOrNan(float x) { return std::isnan(x) ? 0x7FFFFFFF : bitsOf(x); }
float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

/// A sum for which 64 bits may not suffice; `rest` is what is missing.
struct Exact {
  long double value, rest = 0;
};

Exact sum(long double a, long double b) {
  long double s = a + b, part = s - a;
  return {s, std::isfinite(s) ? (a - (s - part)) + (b - part) : 0};
}

/// Returns the float next to the exact value in the direction of the mode.
float directed(Exact exact, char mode) {
  if (!std::isfinite(exact.value))
    return float(exact.value);
  float nearest = float(exact.value);
  bool down = mode == 'm' || (mode == 'z' && exact.value > 0);
  long double above =
      (exact.value - nearest) + exact.rest; // The exact value minus `nearest`.
  if (std::isinf(nearest))
    above = nearest > 0 ? -1 : 1;
  if (down && above < 0)
    nearest = std::nextafter(nearest, -INFINITY);
  if (!down && above > 0)
    nearest = std::nextafter(nearest, INFINITY);
  return nearest;
}

TEST_F(FloatTest, AddMulFma) {
  Widths three{32, 32, 32}, four{32, 32, 32, 32};
  expectBits(
      "add.f32 %d, %a, %b;", three,
      [](auto &x) { return bitsOrNan(floatOf(x.a) + floatOf(x.b)); }, true);
  expectBits(
      "sub.rn.f32 %d, %a, %b;", three,
      [](auto &x) { return bitsOrNan(floatOf(x.a) - floatOf(x.b)); }, true);
  expectBits(
      "mul.f32 %d, %a, %b;", three,
      [](auto &x) { return bitsOrNan(floatOf(x.a) * floatOf(x.b)); }, true);
  expectBits(
      "fma.rn.f32 %d, %a, %b, %c;", four,
      [](auto &x) {
        return bitsOrNan(std::fma(floatOf(x.a), floatOf(x.b), floatOf(x.c)));
      },
      true);
  expectBits(
      "mad.rn.f32 %d, %a, %b, %c;", four,
      [](auto &x) {
        return bitsOrNan(std::fma(floatOf(x.a), floatOf(x.b), floatOf(x.c)));
      },
      true);
  expectBits(
      "add.ftz.f32 %d, %a, %b;", three,
      [](auto &x) {
        return bitsOrNan(
            flushed(flushed(floatOf(x.a)) + flushed(floatOf(x.b))));
      },
      true);
  expectBits(
      "mul.ftz.sat.f32 %d, %a, %b;", three,
      [](auto &x) {
        float y = flushed(flushed(floatOf(x.a)) * flushed(floatOf(x.b)));
        return bitsOf(y > 0 ? std::min(y, 1.0f) : 0.0f);
      },
      true);
  expectBits(
      "add.f64 %d, %a, %b;", {64, 64, 64},
      [](auto &x) { return bitsOf(doubleOf(x.a) + doubleOf(x.b)); }, true);
  expectBits(
      "fma.rn.f64 %d, %a, %b, %c;", {64, 64, 64, 64},
      [](auto &x) {
        return bitsOf(std::fma(doubleOf(x.a), doubleOf(x.b), doubleOf(x.c)));
      },
      true);
}

TEST_F(FloatTest, DirectedRoundings) {
  for (char mode : {'z', 'm', 'p'}) {
    std::string suffix = std::string("r") + mode + ".f32 %d, %a, %b";
    expectBits(
        "mul." + suffix + ";", {32, 32, 32},
        [=](auto &x) {
          long double exact = (long double)floatOf(x.a) * floatOf(x.b);
          return bitsOrNan(directed({exact}, mode));
        },
        true);
    expectBits(
        "add." + suffix + ";", {32, 32, 32},
        [=](auto &x) {
          float a = floatOf(x.a), b = floatOf(x.b);
          Exact exact = sum(a, b);
          if (exact.value == 0 && mode == 'm' &&
              (std::signbit(a) || std::signbit(b)))
            return bitsOf(-0.0f);
          return bitsOrNan(directed(exact, mode));
        },
        true);
  }
  expectBits(
      "fma.rz.f32 %d, %a, %b, 0f3F800000;", {32, 32, 32},
      [](auto &x) {
        return bitsOrNan(
            directed(sum((long double)floatOf(x.a) * floatOf(x.b), 1), 'z'));
      },
      true);
}

TEST_F(FloatTest, DivisionAndRoots) {
  expectBits(
      "div.rn.f32 %d, %a, %b;", {32, 32, 32},
      [](auto &x) { return bitsOrNan(floatOf(x.a) / floatOf(x.b)); }, true);
  expectBits(
      "div.rn.f64 %d, %a, %b;", {64, 64, 64},
      [](auto &x) { return bitsOf(doubleOf(x.a) / doubleOf(x.b)); }, true);
  expectBits(
      "sqrt.rn.f32 %d, %a;", {32, 32},
      [](auto &x) { return bitsOrNan(std::sqrt(floatOf(x.a))); }, true);
  expectBits(
      "rcp.rn.f32 %d, %a;", {32, 32},
      [](auto &x) { return bitsOrNan(1 / floatOf(x.a)); }, true);
}

TEST_F(FloatTest, MinMaxAbsNeg) {
  auto least = [](float a, float b) {
    if (std::isnan(a) || std::isnan(b))
      return std::isnan(a) ? b : a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  };
  expectBits(
      "min.f32 %d, %a, %b;", {32, 32, 32},
      [=](auto &x) { return bitsOrNan(least(floatOf(x.a), floatOf(x.b))); },
      true);
  expectBits(
      "max.f32 %d, %a, %b;", {32, 32, 32},
      [=](auto &x) { return bitsOrNan(-least(-floatOf(x.a), -floatOf(x.b))); },
      true);
  expectBits(
      "max.NaN.f32 %d, %a, %b;", {32, 32, 32},
      [=](auto &x) {
        float a = floatOf(x.a), b = floatOf(x.b);
        return std::isnan(a) || std::isnan(b) ? 0x7FFFFFFF
                                              : bitsOf(-least(-a, -b));
      },
      true);
  // "NaN inputs yield an unspecified NaN": here the canonical one.
  expectBits(
      "abs.f32 %d, %a;", {32, 32},
      [](auto &x) { return bitsOrNan(std::fabs(floatOf(x.a))); }, true);
  expectBits(
      "neg.f32 %d, %a;", {32, 32},
      [](auto &x) { return bitsOrNan(-floatOf(x.a)); }, true);
  auto negated = [](uint64_t half) {
    return (half & 0x7FFF) > 0x7C00 ? 0x7FFF : half ^ 0x8000;
  };
  expectBits("neg.f16x2 %d, %a;", {32, 32}, [=](auto &x) {
    return negated(x.a & 0xFFFF) | negated(x.a >> 16) << 16;
  });
  expectBits("abs.bf16 %d, %a;", {16, 16}, [](auto &x) {
    return std::min<uint64_t>(x.a & 0x7FFF, 0x7F81) == 0x7F81 ? 0x7FFF
                                                              : x.a & 0x7FFF;
  });
  expectBits(
      "copysign.f32 %d, %a, %b;", {32, 32, 32},
      [](auto &x) { return (x.a & 0x80000000) | (x.b & 0x7FFFFFFF); }, true);
  expectBits(
      "testp.subnormal.f32 %d, %a;", {1, 32},
      [](auto &x) {
        return uint64_t(std::fpclassify(floatOf(x.a)) == FP_SUBNORMAL);
      },
      true);
  expectBits(
      "testp.finite.f32 %d, %a;", {1, 32},
      [](auto &x) { return uint64_t(std::isfinite(floatOf(x.a))); }, true);
}

TEST_F(FloatTest, Compares) {
  auto holds = [this](const std::string &name, auto body) {
    expectBits(
        "setp." + name + ".f32 %d, %a, %b;", {1, 32, 32},
        [=](auto &x) { return uint64_t(body(floatOf(x.a), floatOf(x.b))); },
        true);
  };
  auto un = [](float a, float b) { return std::isnan(a) || std::isnan(b); };
  holds("eq", [](float a, float b) { return a == b; });
  holds("ne", [=](float a, float b) { return a != b && !un(a, b); });
  holds("lt", [](float a, float b) { return a < b; });
  holds("le", [](float a, float b) { return a <= b; });
  holds("gt", [](float a, float b) { return a > b; });
  holds("ge", [](float a, float b) { return a >= b; });
  holds("equ", [=](float a, float b) { return a == b || un(a, b); });
  holds("neu", [](float a, float b) { return a != b; });
  holds("ltu", [](float a, float b) { return !(a >= b); });
  holds("leu", [](float a, float b) { return !(a > b); });
  holds("gtu", [](float a, float b) { return !(a <= b); });
  holds("geu", [](float a, float b) { return !(a < b); });
  holds("num", [=](float a, float b) { return !un(a, b); });
  holds("nan", [=](float a, float b) { return un(a, b); });
}

/// Converts f16 bits to double, by the definition of the format.
double half(uint64_t bits) {
  int exponent = int(bits >> 10 & 31);
  double mantissa = double(bits & 1023), sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31)
    return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25)
                          : std::ldexp(mantissa, -24));
}

/// Converts double to f16 by trying the neighbours: the nearest, ties to even
/// bits.
uint64_t toHalf(double x) {
  if (std::isnan(x))
    return 0x7FFF;
  uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  double magnitude = std::fabs(x);
  if (magnitude >= 65520)
    return sign | 0x7C00;
  uint64_t low = 0, high = 0x7BFF; // Searches the largest that is not greater.
  while (low < high) {
    uint64_t middle = (low + high + 1) / 2;
    half(middle) <= magnitude ? low = middle : high = middle - 1;
  }
  if (low == 0x7BFF)
    return sign | low;
  double below = magnitude - half(low), above = half(low + 1) - magnitude;
  return sign | (above < below || (above == below && low & 1) ? low + 1 : low);
}

double bfloat(uint64_t bits) { return floatOf(bits << 16); }

TEST_F(FloatTest, Halves) {
  Widths three{16, 16, 16}, four{16, 16, 16, 16};
  expectBits(
      "add.f16 %d, %a, %b;", three,
      [](auto &x) { return toHalf(half(x.a) + half(x.b)); }, true);
  expectBits(
      "mul.f16 %d, %a, %b;", three,
      [](auto &x) { return toHalf(half(x.a) * half(x.b)); }, true);
  expectBits(
      "fma.rn.f16 %d, %a, %b, %c;", four,
      [](auto &x) { return toHalf(half(x.a) * half(x.b) + half(x.c)); }, true);
  expectBits(
      "fma.rn.relu.f16 %d, %a, %b, %c;", four,
      [](auto &x) {
        double y = half(x.a) * half(x.b) + half(x.c);
        return std::isnan(y) ? 0x7FFF : y > 0 ? toHalf(y) : 0;
      },
      true);
  auto pair = [](auto body) {
    return [=](const Operands &x) {
      return body(x.a & 0xFFFF, x.b & 0xFFFF, x.c & 0xFFFF) |
             body(x.a >> 16, x.b >> 16, x.c >> 16) << 16;
    };
  };
  expectBits("fma.rn.f16x2 %d, %a, %b, %c;", {32, 32, 32, 32},
             pair([](uint64_t a, uint64_t b, uint64_t c) {
               return toHalf(half(a) * half(b) + half(c));
             }));
  expectBits("sub.f16x2 %d, %a, %b;", {32, 32, 32},
             pair([](uint64_t a, uint64_t b, uint64_t) {
               return toHalf(half(a) - half(b));
             }));
  expectBits("fma.rn.bf16x2 %d, %a, %b, %c;", {32, 32, 32, 32},
             pair([](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
               Exact exact = sum((long double)bfloat(a) * bfloat(b), bfloat(c));
               long double y = exact.value;
               if (std::isnan(y))
                 return 0x7FFF;
               float low = directed(exact, 'z');
               // Round to nearest even of the upper 16 bits, with the rest as
               // sticky bit.
               uint64_t bits = bitsOf(low) & 0xFFFFFFFF;
               bool sticky = (long double)low != y || exact.rest != 0;
               uint64_t rest = (bits & 0xFFFF) * 2 + sticky;
               uint64_t up = bits >> 16;
               if (std::isinf(float(y)) || std::isinf(low))
                 return std::isinf(y) || std::fabs(y) > 3.39e38L
                            ? (y > 0 ? 0x7F80 : 0xFF80)
                            : up;
               return rest > 0x10000 || (rest == 0x10000 && up & 1) ? up + 1
                                                                    : up;
             }));
  expectBits(
      "setp.lt.f16 %d, %a, %b;", {1, 16, 16},
      [](auto &x) { return uint64_t(half(x.a) < half(x.b)); }, true);
  expectBits("setp.gt.f16x2 %p9|%d, %a, %b;", {1, 32, 32}, [](auto &x) {
    return uint64_t(half(x.a >> 16) > half(x.b >> 16));
  });
  expectBits("max.f16x2 %d, %a, %b;", {32, 32, 32},
             pair([](uint64_t a, uint64_t b, uint64_t) {
               double x = half(a), y = half(b);
               if (std::isnan(x) || std::isnan(y))
                 return std::isnan(x) && std::isnan(y) ? uint64_t(0x7FFF)
                        : std::isnan(x)                ? b
                                                       : a;
               return x > y || (x == y && !(a & 0x8000)) ? a : b;
             }));
}

TEST_F(FloatTest, ConvertsHalves) {
  expectBits(
      "cvt.rn.f16.f32 %d, %a;", {16, 32},
      [](auto &x) { return toHalf(floatOf(x.a)); }, true);
  expectBits(
      "cvt.f32.f16 %d, %a;", {32, 16},
      [](auto &x) { return bitsOrNan(float(half(x.a))); }, true);
  expectBits(
      "cvt.f32.bf16 %d, %a;", {32, 16}, [](auto &x) { return x.a << 16; },
      true);
  auto toBfloat = [](float x) -> uint64_t {
    uint64_t bits = bitsOf(x), rest = bits & 0xFFFF;
    if (std::isnan(x))
      return 0x7FFF;
    return (bits >> 16) + (rest > 0x8000 || (rest == 0x8000 && bits >> 16 & 1));
  };
  expectBits(
      "cvt.rn.bf16.f32 %d, %a;", {16, 32},
      [=](auto &x) { return toBfloat(floatOf(x.a)); }, true);
  expectBits(
      "cvt.rn.bf16x2.f32 %d, %a, %b;", {32, 32, 32},
      [=](auto &x) {
        return toBfloat(floatOf(x.a)) << 16 | toBfloat(floatOf(x.b));
      },
      true);
  expectBits(
      "cvt.rn.f16x2.f32 %d, %a, %b;", {32, 32, 32},
      [](auto &x) { return toHalf(floatOf(x.a)) << 16 | toHalf(floatOf(x.b)); },
      true);
  expectBits(
      "cvt.rz.f16.f32 %d, %a;", {16, 32},
      [](auto &x) -> uint64_t {
        float a = floatOf(x.a);
        if (std::isnan(a) || std::isinf(a))
          return toHalf(a);
        uint64_t nearest = toHalf(a);
        if ((nearest & 0x7FFF) == 0x7C00 ||
            std::fabs(half(nearest)) > std::fabs(a))
          --nearest;
        return nearest;
      },
      true);
  expectBits(
      "cvt.rna.tf32.f32 %d, %a;", {32, 32},
      [](auto &x) -> uint64_t {
        if (std::isnan(floatOf(x.a)))
          return x.a & 0xFFFFE000;
        return std::isinf(floatOf(x.a)) ? x.a : (x.a + 0x1000) & 0xFFFFE000;
      },
      true);
}

TEST_F(FloatTest, ConvertsE4m3) {
  auto value = [](int bits) {
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    return exponent ? std::ldexp(8 + mantissa, exponent - 10)
                    : std::ldexp(mantissa, -9);
  };
  auto encode = [=](float x) -> uint64_t {
    if (std::isnan(x))
      return 0x7F;
    uint64_t sign = std::signbit(x) ? 0x80 : 0;
    int best = 0;
    for (int i = 0; i <= 0x7E; ++i) {
      double d = std::fabs(value(i) - std::fabs(x)),
             b = std::fabs(value(best) - std::fabs(x));
      if (d < b || (d == b && !(i & 1)))
        best = i;
    }
    return sign | (std::isinf(x) ? 0x7E : uint64_t(best));
  };
  expectBits(
      "cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", {16, 32, 32},
      [=](auto &x) { return encode(floatOf(x.a)) << 8 | encode(floatOf(x.b)); },
      true);
  expectBits("cvt.rn.f16x2.e4m3x2 %d, %a;", {32, 16}, [=](auto &x) {
    uint64_t out = 0;
    for (int i = 0; i < 2; ++i) {
      int bits = int(x.a >> 8 * i & 255);
      double y = (bits & 0x7F) == 0x7F ? NAN
                 : bits & 0x80         ? -value(bits & 0x7F)
                                       : value(bits);
      out |= toHalf(y) << 16 * i;
    }
    return out;
  });
}

TEST_F(FloatTest, ConvertsIntegers) {
  using I = int32_t;
  expectBits("cvt.rn.f32.s32 %d, %a;", {32, 32},
             [](auto &x) { return bitsOf(float(I(x.a))); });
  expectBits("cvt.rn.f32.u32 %d, %a;", {32, 32},
             [](auto &x) { return bitsOf(float(uint32_t(x.a))); });
  expectBits("cvt.rn.f32.s64 %d, %a;", {32, 64},
             [](auto &x) { return bitsOf(float(int64_t(x.a))); });
  expectBits("cvt.rn.f64.u64 %d, %a;", {64, 64},
             [](auto &x) { return bitsOf(double(x.a)); });
  expectBits("cvt.rz.f32.u64 %d, %a;", {32, 64},
             [](auto &x) { return bitsOf(directed({(long double)x.a}, 'z')); });
  expectBits("cvt.rn.f16.s32 %d, %a;", {16, 32},
             [](auto &x) { return toHalf(I(x.a)); });
  expectBits("cvt.rn.f32.u8 %d, %a;", {32, 32},
             [](auto &x) { return bitsOf(float(x.a & 255)); });
  expectBits("cvt.rn.f32.s8 %d, %a;", {32, 16},
             [](auto &x) { return bitsOf(float(int8_t(x.a))); });
  auto clamp = [](double y, double low, double high) {
    return std::isnan(y) ? 0 : uint64_t(int64_t(std::clamp(y, low, high)));
  };
  expectBits(
      "cvt.rzi.s32.f32 %d, %a;", {32, 32},
      [=](auto &x) {
        return clamp(std::trunc(floatOf(x.a)), -2147483648.0, 2147483647.0);
      },
      true);
  expectBits(
      "cvt.rni.s32.f32 %d, %a;", {32, 32},
      [=](auto &x) {
        return clamp(std::nearbyint(floatOf(x.a)), -2147483648.0, 2147483647.0);
      },
      true);
  expectBits(
      "cvt.rmi.u32.f32 %d, %a;", {32, 32},
      [=](auto &x) { return clamp(std::floor(floatOf(x.a)), 0, 4294967295.0); },
      true);
  expectBits(
      "cvt.rpi.s8.f32 %d, %a;", {32, 32},
      [=](auto &x) { return clamp(std::ceil(floatOf(x.a)), -128, 127); }, true);
  expectBits(
      "cvt.rzi.s64.f32 %d, %a;", {64, 32},
      [](auto &x) -> uint64_t {
        double y = floatOf(x.a);
        if (std::isnan(y))
          return 1ull << 63;
        return y >= 0x1p63   ? INT64_MAX
               : y < -0x1p63 ? 1ull << 63
                             : uint64_t(int64_t(y));
      },
      true);
  expectBits(
      "cvt.rni.f32.f32 %d, %a;", {32, 32},
      [](auto &x) { return bitsOrNan(std::nearbyint(floatOf(x.a))); }, true);
  expectBits(
      "cvt.sat.f32.f32 %d, %a;", {32, 32},
      [](auto &x) {
        float y = floatOf(x.a);
        return bitsOf(y > 0 ? std::min(y, 1.0f) : 0.0f);
      },
      true);
  expectBits(
      "cvt.rn.f32.f64 %d, %a;", {32, 64},
      [](auto &x) { return bitsOf(float(doubleOf(x.a))); }, true);
  expectBits(
      "cvt.f64.f32 %d, %a;", {64, 32},
      [](auto &x) {
        return std::isnan(floatOf(x.a)) ? bitsOf(double(NAN))
                                        : bitsOf(double(floatOf(x.a)));
      },
      true);
  // Integers are truncated, extended into wider registers, or saturated.
  expectBits("cvt.s64.s32 %d, %a;", {64, 32},
             [](auto &x) { return uint64_t(int64_t(I(x.a))); });
  expectBits("cvt.u32.u64 %d, %a;", {32, 64}, [](auto &x) { return x.a; });
  expectBits("cvt.s16.s8 %d, %a;", {16, 16},
             [](auto &x) { return uint64_t(int8_t(x.a)); });
  expectBits("cvt.u16.u8 %d, %a;", {16, 32}, [](auto &x) { return x.a & 255; });
  expectBits("cvt.s8.s32 %d, %a;", {32, 32},
             [](auto &x) { return uint64_t(int8_t(x.a)); });
  expectBits("cvt.sat.s8.s32 %d, %a;", {32, 32},
             [](auto &x) { return uint64_t(std::clamp(I(x.a), -128, 127)); });
  expectBits("cvt.sat.u8.s32 %d, %a;", {32, 32},
             [](auto &x) { return uint64_t(std::clamp(I(x.a), 0, 255)); });
  expectBits("cvt.sat.u32.s64 %d, %a;", {32, 64}, [](auto &x) {
    return uint64_t(std::clamp<int64_t>(int64_t(x.a), 0, 0xFFFFFFFF));
  });
}

/// Results are within the documented error of the exact result, and at its ends
/// if requested.
TEST_F(FloatTest, Approximations) {
  struct {
    const char *text;
    double (*exact)(double);
    double relative, absolute, low, high;
  } kFunctions[] = {
      {"ex2.approx.ftz.f32", [](double x) { return std::exp2(x); }, 0x1p-22, 0,
       -60, 60},
      {"lg2.approx.f32", [](double x) { return std::log2(x); }, 0x1p-22,
       0x1p-22, 0.01, 1e6},
      {"rcp.approx.ftz.f32", [](double x) { return 1 / x; }, 0x1p-23, 0, 0.01,
       1e6},
      {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }, 0x1.2p-23,
       0, 0.01, 1e6},
      {"sqrt.approx.f32", [](double x) { return std::sqrt(x); }, 0x1p-23, 0,
       0.01, 1e6},
      {"sin.approx.f32", [](double x) { return std::sin(x); }, 0, 0x1.7p-21, -3,
       3},
      {"cos.approx.f32", [](double x) { return std::cos(x); }, 0, 0x1.7p-21, -3,
       3},
      {"tanh.approx.f32", [](double x) { return std::tanh(x); }, 0x1p-11, 0, -4,
       4}};
  std::mt19937 random(3);
  for (auto &f : kFunctions) {
    std::vector<Operands> rows;
    std::uniform_real_distribution<float> draw(float(f.low), float(f.high));
    for (int i = 0; i < 300; ++i)
      rows.push_back({bitsOf(draw(random))});
    double error[3] = {};
    for (ApproxError bound :
         {ApproxError::Nominal, ApproxError::Low, ApproxError::High}) {
      gpu.options().approxError = bound;
      auto values = evaluate(std::string(f.text) + " %d, %a;", {32, 32}, rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        double exact = f.exact(floatOf(rows[i].a)), y = floatOf(values[i]);
        double allowed = f.relative * std::fabs(exact) + f.absolute +
                         std::fabs(exact) * 0x1p-24;
        EXPECT_LE(std::fabs(y - exact), allowed)
            << f.text << " of " << floatOf(rows[i].a);
        error[int(bound)] += y - exact;
      }
    }
    if (isOnDriver())
      continue; // This function has only one kind of error.
    EXPECT_LT(error[int(ApproxError::Low)], error[0]) << f.text;
    EXPECT_GT(error[int(ApproxError::High)], error[0]) << f.text;
  }
}

} // namespace
} // namespace softgpu
