//===- Arithmetic.cpp - Floating-point add to neg -------------------------===//

#include "test/softgpu/HalfLanes.h"
#include "test/softgpu/Integer.h"
#include "test/softgpu/Lanes.h"
#include "test/softgpu/Numbers.h"

namespace softgpu {

// Op::kind: the rounding, and these flags.
static constexpr uint8_t kFtz = 8, kSat = 16, kRelu = 32, kNaN = 64,
                         kXorSign = 128;

static Rounding roundingOf(const Op &op) { return Rounding(op.kind & 7); }

/// The sign of zero for x + y, which is negative when rounding downward.
static double zeroOf(double sum, double x, double y, Rounding rounding) {
  bool isNegative = sum == 0 && rounding == Rounding::Down &&
                    (std::signbit(x) || std::signbit(y));
  return isNegative ? -0.0 : sum;
}

// `fast` uses the host's rounding to nearest; `exact` rounds to odd.
struct Add {
  static float fast(float a, float b, float) { return a + b; }
  static double fast(double a, double b, double) { return a + b; }
  static double exact(double a, double b, double, Rounding r) {
    return zeroOf(addToOdd(a, b), a, b, r);
  }
};
struct Sub {
  static float fast(float a, float b, float) { return a - b; }
  static double fast(double a, double b, double) { return a - b; }
  static double exact(double a, double b, double, Rounding r) {
    return zeroOf(addToOdd(a, -b), a, -b, r);
  }
};
struct Mul {
  static float fast(float a, float b, float) { return a * b; }
  static double fast(double a, double b, double) { return a * b; }
  static double exact(double a, double b, double, Rounding) { return a * b; }
};
struct Fma {
  static float fast(float a, float b, float c) { return std::fma(a, b, c); }
  static double fast(double a, double b, double c) { return std::fma(a, b, c); }
  static double exact(double a, double b, double c, Rounding r) {
    return zeroOf(addToOdd(a * b, c), a * b, c, r);
  }
};

/// Results below the smallest normal are flushed before they are rounded, even
/// if they would be rounded up to it (observed on sm_90).
template <class F>
static float flushed(float result, float a, float b, float c) {
  float out = flush(result);
  if (std::fabs(out) == 0x1p-126f &&
      std::fabs(F::exact(a, b, c, Rounding::Zero)) < 0x1p-126)
    return std::copysign(0.0f, out);
  return out;
}

template <class F> static void single(Warp &warp, const Op &op, Mask mask) {
  const float *a = warp.lanes<float>(op.r[1]), *b = warp.lanes<float>(op.r[2]);
  const float *c = op.sources == 3 ? warp.lanes<float>(op.r[3]) : b;
  alignas(64) float out[kLanes];
  if (op.kind == 0) {
    for (int i = 0; i < kLanes; ++i)
      out[i] = canonical(F::fast(a[i], b[i], c[i]));
  } else if (op.kind == kFtz) {
    uint8_t isSmallest[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      out[i] = canonical(flush(F::fast(flush(a[i]), flush(b[i]), flush(c[i]))));
      isSmallest[i] = std::fabs(out[i]) == 0x1p-126f;
    }
    for (Mask left = maskOf(isSmallest); left; left &= left - 1) {
      int i = std::countr_zero(left);
      out[i] = flushed<F>(out[i], flush(a[i]), flush(b[i]), flush(c[i]));
    }
  } else {
    bool ftz = op.kind & kFtz;
    for (int i = 0; i < kLanes; ++i) {
      float x = ftz ? flush(a[i]) : a[i], y = ftz ? flush(b[i]) : b[i],
            z = ftz ? flush(c[i]) : c[i];
      float result = F::fast(x, y, z);
      if (roundingOf(op) != Rounding::Nearest && std::isfinite(x) &&
          std::isfinite(y) && std::isfinite(z))
        result = asFloat(encodeFloat(F::exact(x, y, z, roundingOf(op)), kSingle,
                                     roundingOf(op)));
      result = canonical(ftz ? flushed<F>(result, x, y, z) : result);
      out[i] = op.kind & kSat ? saturate(result) : result;
    }
  }
  store(warp.lanes<float>(op.r[0]), out, mask);
}

template <class F> static void doubles(Warp &warp, const Op &op, Mask mask) {
  const double *a = warp.lanes<double>(op.r[1]),
               *b = warp.lanes<double>(op.r[2]);
  const double *c = op.sources == 3 ? warp.lanes<double>(op.r[3]) : b;
  alignas(64) double out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = F::fast(a[i], b[i], c[i]);
  constexpr bool kFma = std::is_same_v<F, Fma>;
  for (int i = 0; i < kLanes; ++i)
    out[i] = kFma ? withNan(out[i], b[i], c[i], a[i])
                  : withNan(out[i], b[i], a[i], a[i]);
  store(warp.lanes<double>(op.r[0]), out, mask);
}

/// Operations of f16 and bf16, one or two elements per register. Sums and
/// products in F32 are still exact after the second rounding (24 >= 2 * 11 +
/// 2); fma uses binary64.
template <class F, bool IsBfloat, bool IsPair>
static void half(Warp &warp, const Op &op, Mask mask) {
  constexpr int kCount = IsPair ? 2 * kLanes : kLanes;
  using R = std::conditional_t<IsPair, uint32_t, uint16_t>;
  alignas(64) float x[kCount], y[kCount], z[kCount];
  alignas(64) uint16_t out[kCount];
  bool ftz = op.kind & kFtz;
  widen<IsBfloat, kCount>(warp.lanes<uint16_t>(op.r[1]), x, ftz);
  widen<IsBfloat, kCount>(warp.lanes<uint16_t>(op.r[2]), y, ftz);
  // Results below the smallest normal are flushed before they are rounded.
  auto flushed = [ftz](auto value) {
    return ftz && std::fabs(value) < 0x1p-14f ? std::copysign(0, value) : value;
  };
  if constexpr (std::is_same_v<F, Fma>) {
    widen<IsBfloat, kCount>(warp.lanes<uint16_t>(op.r[3]), z, ftz);
    for (int i = 0; i < kCount; ++i)
      out[i] = uint16_t(
          encodeFloat(flushed(F::exact(x[i], y[i], z[i], Rounding::Nearest)),
                      IsBfloat ? kBfloat : kHalf, Rounding::Nearest));
  } else {
    for (int i = 0; i < kCount; ++i)
      x[i] = float(flushed(F::fast(x[i], y[i], 0)));
    narrow<IsBfloat, kCount>(x, out);
  }
  if (op.kind & (kFtz | kSat | kRelu))
    finishHalf<IsBfloat>(out, kCount, ftz, op.kind & kSat, op.kind & kRelu);
  store(warp.lanes<R>(op.r[0]), reinterpret_cast<const R *>(out), mask);
}

template <class F> static Handler floatHandler(Decoder &decoder, PtxType type) {
  if (type.kind == PtxType::Float && type.bits == 32)
    return single<F>;
  if (type.kind == PtxType::Float && type.bits == 64)
    return doubles<F>;
  if (type.kind == PtxType::Float && type.bits == 16)
    return type.pair ? half<F, false, true> : half<F, false, false>;
  if (type.kind == PtxType::Bfloat)
    return type.pair ? half<F, true, true> : half<F, true, false>;
  decoder.fail(
      fmt::format("'{}' is not supported", decoder.instruction().text()));
}

static OpClass classOf(PtxType type) {
  return type.bits == 64   ? OpClass::Double
         : type.bits == 16 ? OpClass::Half
                           : OpClass::Float;
}

static PtxType lastType(Decoder &decoder) {
  return decoder.instruction().modifiers.empty()
             ? PtxType()
             : ptxType(decoder.instruction().modifiers.back());
}

template <class F> static void decodeFloat(Decoder &decoder, int sources) {
  int rounding = decoder.chooseOr(0, {"rn", "rz", "rm", "rp"});
  uint8_t kind = uint8_t(rounding);
  kind |= decoder.accept("ftz") ? kFtz : 0;
  kind |= decoder.accept("sat") ? kSat : 0;
  kind |= decoder.accept("relu") ? kRelu : 0;
  PtxType type = decoder.type();
  Handler handler = floatHandler<F>(decoder, type);
  bool isSingle = type.kind == PtxType::Float && type.bits == 32;
  if ((rounding && !isSingle) || (isSingle && kind & kRelu) ||
      (type.bits == 64 && kind & ~7))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  Op &op = sources == 2 ? decoder.simple(handler, classOf(type), type.bytes(),
                                         {type, type})
                        : decoder.simple(handler, classOf(type), type.bytes(),
                                         {type, type, type});
  op.kind = kind;
}

void decodeAdd(Decoder &decoder) {
  bool subtracts = decoder.instruction().opcode == "sub";
  if (lastType(decoder).isInteger())
    return decodeIntegerAdd(decoder, subtracts, decoder.accept("sat"));
  subtracts ? decodeFloat<Sub>(decoder, 2) : decodeFloat<Add>(decoder, 2);
}

void decodeMul(Decoder &decoder) {
  lastType(decoder).isInteger() ? decodeIntegerMul(decoder)
                                : decodeFloat<Mul>(decoder, 2);
}

void decodeMad(Decoder &decoder) {
  bool carries = decoder.instruction().opcode == "madc";
  carries || lastType(decoder).isInteger() ? decodeIntegerMad(decoder, carries)
                                           : decodeFloat<Fma>(decoder, 3);
}

void decodeFma(Decoder &decoder) { decodeFloat<Fma>(decoder, 3); }

// -- min, max. -0 is less than +0; a NaN gives the other operand, or with .NaN
// a NaN.

template <class T, bool IsMax> static T pickOne(T a, T b) {
  if (a == b)
    return std::signbit(a) != IsMax ? a : b;
  return (a < b) != IsMax ? a : b;
}

template <class T, bool IsMax>
static T extreme(T a, T b, bool propagates, bool xorSign) {
  bool negative = std::signbit(a) != std::signbit(b);
  if (xorSign)
    a = std::fabs(a), b = std::fabs(b);
  T out;
  if (a != a || b != b) // Of two NaNs, the second is returned as a quiet NaN.
    out = a != a && b != b ? b + b
          : propagates     ? std::numeric_limits<T>::quiet_NaN()
          : a != a         ? b
                           : a;
  else
    out = pickOne<T, IsMax>(a, b);
  return xorSign ? std::copysign(out, negative ? T(-1) : T(1)) : out;
}

template <class T, bool IsMax>
static void floatMinMax(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.lanes<T>(op.r[1]), *b = warp.lanes<T>(op.r[2]);
  T out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    T x = a[i], y = b[i];
    if constexpr (sizeof(T) == 4)
      if (op.kind & kFtz)
        x = flush(x), y = flush(y);
    out[i] = extreme<T, IsMax>(x, y, op.kind & kNaN, op.kind & kXorSign);
    if constexpr (sizeof(T) == 4)
      out[i] = canonical(out[i]);
  }
  store(warp.lanes<T>(op.r[0]), out, mask);
}

template <bool IsMax, bool IsBfloat, bool IsPair>
static void halfMinMax(Warp &warp, const Op &op, Mask mask) {
  constexpr int kCount = IsPair ? 2 * kLanes : kLanes;
  using R = std::conditional_t<IsPair, uint32_t, uint16_t>;
  alignas(64) float x[kCount], y[kCount];
  alignas(64) uint16_t out[kCount];
  widen<IsBfloat, kCount>(warp.lanes<uint16_t>(op.r[1]), x, op.kind & kFtz);
  widen<IsBfloat, kCount>(warp.lanes<uint16_t>(op.r[2]), y, op.kind & kFtz);
  for (int i = 0; i < kCount; ++i)
    x[i] =
        extreme<float, IsMax>(x[i], y[i], op.kind & kNaN, op.kind & kXorSign);
  narrow<IsBfloat, kCount>(x, out);
  store(warp.lanes<R>(op.r[0]), reinterpret_cast<const R *>(out), mask);
}

template <bool IsMax>
static Handler minMaxHandler(Decoder &decoder, PtxType type) {
  if (type.kind == PtxType::Float && type.bits == 32)
    return floatMinMax<float, IsMax>;
  if (type.kind == PtxType::Float && type.bits == 64)
    return floatMinMax<double, IsMax>;
  if (type.kind == PtxType::Float && type.bits == 16)
    return type.pair ? halfMinMax<IsMax, false, true>
                     : halfMinMax<IsMax, false, false>;
  if (type.kind == PtxType::Bfloat)
    return type.pair ? halfMinMax<IsMax, true, true>
                     : halfMinMax<IsMax, true, false>;
  decoder.fail(
      fmt::format("'{}' is not supported", decoder.instruction().text()));
}

void decodeMinMax(Decoder &decoder) {
  bool isMax = decoder.instruction().opcode == "max";
  if (lastType(decoder).isInteger())
    return decodeIntegerMinMax(decoder, isMax);
  uint8_t kind = 0;
  kind |= decoder.accept("ftz") ? kFtz : 0;
  kind |= decoder.accept("NaN") ? kNaN : 0;
  if (decoder.accept("xorsign")) {
    decoder.choose({"abs"});
    kind |= kXorSign;
  }
  PtxType type = decoder.type();
  Handler handler = isMax ? minMaxHandler<true>(decoder, type)
                          : minMaxHandler<false>(decoder, type);
  decoder.simple(handler, classOf(type), type.bytes(), {type, type}).kind =
      kind;
}

// -- abs, neg. A NaN becomes canonical; in binary64 it only becomes quiet.

/// Changes the sign of elements of type E, whose infinity is op.imm; T is the
/// register's type.
template <class T, class E>
static void signBit(Warp &warp, const Op &op, Mask mask) {
  constexpr int kCount = kLanes * sizeof(T) / sizeof(E);
  constexpr E kSign = E(E(1) << (sizeof(E) * 8 - 1));
  const E *a = warp.lanes<E>(op.r[1]);
  E infinity = E(op.imm);
  bool isNeg = op.kind & 1;
  alignas(64) E out[kCount];
  for (int i = 0; i < kCount; ++i) {
    out[i] = isNeg ? E(a[i] ^ kSign) : E(a[i] & ~kSign);
    if (E(a[i] & ~kSign) > infinity)
      out[i] = sizeof(E) == 8 ? E(a[i] | uint64_t(1) << 51) : E(~kSign);
  }
  if constexpr (sizeof(E) == 4)
    if (op.kind & kFtz)
      for (E &x : out)
        x = asBits(flush(asFloat(x)));
  store(warp.lanes<T>(op.r[0]), reinterpret_cast<const T *>(out), mask);
}

void decodeAbsNeg(Decoder &decoder) {
  bool isNeg = decoder.instruction().opcode == "neg";
  if (lastType(decoder).isInteger())
    return decodeIntegerAbsNeg(decoder, !isNeg);
  bool ftz = decoder.accept("ftz");
  PtxType type = decoder.type();
  if (!type.isFloat() || (ftz && type.bytes() != 4) || (ftz && type.pair))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  int bytes = type.bytes();
  Handler handler = bytes == 2   ? signBit<uint16_t, uint16_t>
                    : type.pair  ? signBit<uint32_t, uint16_t>
                    : bytes == 4 ? signBit<uint32_t, uint32_t>
                                 : signBit<uint64_t, uint64_t>;
  Op &op = decoder.simple(handler, classOf(type), bytes, {type});
  op.kind = uint8_t((isNeg ? 1 : 0) | (ftz ? kFtz : 0));
  op.imm = type.kind == PtxType::Bfloat ? 0x7F80
           : type.bits == 16            ? 0x7C00
           : type.bits == 32            ? 0x7F800000
                                        : 0x7FF0000000000000;
}

// -- div.

template <class T>
static constexpr auto kDivide = [](T a, T b) { return a / b; };

/// kind: 8 flushes; 1 may err by 2 ulp (.full); with 2 the result for divisors
/// above 2^126 is 0, or NaN for an infinite dividend (.approx).
static void divide(Warp &warp, const Op &op, Mask mask) {
  const float *a = warp.lanes<float>(op.r[1]), *b = warp.lanes<float>(op.r[2]);
  float out[kLanes];
  ApproxError error = warp.launch->options->approxError;
  for (int i = 0; i < kLanes; ++i) {
    float x = op.kind & kFtz ? flush(a[i]) : a[i],
          y = op.kind & kFtz ? flush(b[i]) : b[i];
    float q = x / y;
    if (op.kind & 2 && std::isfinite(y) && std::fabs(y) > 0x1p126f)
      q = std::isinf(x) ? asFloat(kNan) : q * 0.0f;
    if (op.kind & 3 && error != ApproxError::Nominal && std::isfinite(q) && q) {
      float away = error == ApproxError::High
                       ? std::numeric_limits<float>::infinity()
                       : -std::numeric_limits<float>::infinity();
      q = std::nextafter(std::nextafter(q, away), away);
    }
    out[i] = canonical(op.kind & kFtz ? flush(q) : q);
  }
  store(warp.lanes<float>(op.r[0]), out, mask);
}

void decodeDiv(Decoder &decoder) {
  if (lastType(decoder).isInteger())
    return decodeIntegerDiv(decoder);
  int how = decoder.choose({"rn", "full", "approx"});
  bool ftz = decoder.accept("ftz");
  PtxType type = decoder.type();
  if (type.kind != PtxType::Float || type.bits < 32 ||
      (type.bits == 64 && (how || ftz)))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  Handler handler = type.bits == 32
                        ? divide
                        : binary<kDivide<double>, double, double, double>;
  decoder.simple(handler, OpClass::Special, type.bytes(), {type, type}).kind =
      uint8_t(how | (ftz ? kFtz : 0));
}

} // namespace softgpu
