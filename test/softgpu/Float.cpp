//===- Float.cpp - Special functions, copysign, testp ---------------------===//
//
// Approximations are computed in binary64 and rounded, or shifted to either end
// of the error that PTX documents, so that a kernel's tolerance can be tested
// at both ends.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Decoder.h"
#include "test/softgpu/HalfLanes.h"
#include "test/softgpu/Lanes.h"

#include <string_view>

namespace softgpu {

static constexpr uint8_t kFtz = 8, kExact = 16;

enum Function { Rcp, Sqrt, Rsqrt, Ex2, Lg2, Sin, Cos, Tanh };

static double evaluate(Function function, double x) {
  switch (function) {
  case Rcp:
    return 1 / x;
  case Sqrt:
    return std::sqrt(x);
  case Rsqrt:
    return 1 / std::sqrt(x);
  case Ex2:
    return std::exp2(x);
  case Lg2:
    return std::log2(x);
  case Sin:
    return std::sin(x);
  case Cos:
    return std::cos(x);
  case Tanh:
    return std::tanh(x);
  }
  return 0;
}

/// The documented error of f32, relative or absolute.
struct Bound {
  double relative, absolute;
};
static constexpr Bound kBounds[] = {
    {0x1p-23, 0},       // rcp: 1 ulp
    {0x1p-23, 0},       // sqrt
    {0x1.13p-23, 0},    // rsqrt: 2^-22.9
    {0x1p-22, 0},       // ex2
    {0x1p-22, 0x1p-22}, // lg2: absolute near 1
    {0, 0x1.6ap-21},    // sin: 2^-20.5 up to two turns, see below
    {0, 0x1.6ap-21},    // cos
    {0x1p-11, 0},       // tanh
};

/// `wider` and `smallest` are limits of the result's format, if that is not
/// f32.
static double approximate(Function function, double x, ApproxError error,
                          double wider = 0, double smallest = 0) {
  double value = evaluate(function, x);
  if (error == ApproxError::Nominal || !std::isfinite(value) || value == 0)
    return value;
  Bound bound = kBounds[function];
  double reach = std::fabs(value) * std::max(bound.relative, wider);
  if (bound.absolute && (function != Lg2 || (x > 0.5 && x < 2)))
    reach = std::max(bound.absolute, reach);
  if ((function == Sin || function == Cos) && std::fabs(x) > 2 * M_PI)
    reach = 0x1.3bp-15; // 2^-14.7 up to 100 pi; beyond, PTX guarantees nothing.
  if (wider > 0) // Half a unit of the smallest number, rounded to a whole unit.
    reach = std::max(reach, smallest);
  return error == ApproxError::High ? value + reach : value - reach;
}

/// kind: function, kFtz, kExact.
static void specialSingle(Warp &warp, const Op &op, Mask mask) {
  const float *a = warp.lanes<float>(op.r[1]);
  Function function = Function(op.kind & 7);
  ApproxError error = op.kind & kExact ? ApproxError::Nominal
                                       : warp.launch->options->approxError;
  float out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    float x = op.kind & kFtz ? flush(a[i]) : a[i];
    float y = mask >> i & 1 ? float(approximate(function, x, error)) : 0.0f;
    out[i] = canonical(op.kind & kFtz ? flush(y) : y);
  }
  store(warp.lanes<float>(op.r[0]), out, mask);
}

static void specialDouble(Warp &warp, const Op &op, Mask mask) {
  const double *a = warp.lanes<double>(op.r[1]);
  double out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = evaluate(Function(op.kind & 7), a[i]);
  store(warp.lanes<double>(op.r[0]), out, mask);
}

template <bool IsBfloat, bool IsPair>
static void specialHalf(Warp &warp, const Op &op, Mask mask) {
  constexpr int kCount = IsPair ? 2 * kLanes : kLanes;
  using R = std::conditional_t<IsPair, uint32_t, uint16_t>;
  float x[kCount];
  uint16_t out[kCount];
  widen<IsBfloat, kCount>(warp.lanes<uint16_t>(op.r[1]), x, op.kind & kFtz);
  for (int i = 0; i < kCount; ++i) {
    double y = approximate(
        Function(op.kind & 7), x[i], warp.launch->options->approxError,
        IsBfloat ? 0x1p-7 : 0x1.12p-10, IsBfloat ? 0x1p-133 : 0x1p-24);
    out[i] =
        uint16_t(encodeFloat(y, IsBfloat ? kBfloat : kHalf, Rounding::Nearest));
  }
  finishHalf<IsBfloat>(out, kCount, op.kind & kFtz, false, false);
  store(warp.lanes<R>(op.r[0]), reinterpret_cast<const R *>(out), mask);
}

void decodeSpecial(Decoder &decoder) {
  static constexpr std::string_view kNames[] = {"rcp", "sqrt", "rsqrt", "ex2",
                                                "lg2", "sin",  "cos",   "tanh"};
  int function = 0;
  while (kNames[function] != decoder.instruction().opcode)
    ++function;
  bool isExact = decoder.choose({"approx", "rn"});
  bool ftz = decoder.accept("ftz");
  PtxType type = decoder.type();
  bool isHalf = (type.kind == PtxType::Float && type.bits == 16) ||
                type.kind == PtxType::Bfloat;
  bool isDouble = type.kind == PtxType::Float && type.bits == 64;
  bool isSingle = type.kind == PtxType::Float && type.bits == 32;
  if ((isExact && function != Rcp && function != Sqrt) ||
      (isDouble && (!isExact || ftz)) ||
      (isHalf && function != Ex2 && function != Tanh) ||
      !(isHalf || isDouble || isSingle))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  Handler handler =
      isSingle   ? specialSingle
      : isDouble ? specialDouble
      : type.kind == PtxType::Bfloat
          ? (type.pair ? specialHalf<true, true> : specialHalf<true, false>)
          : (type.pair ? specialHalf<false, true> : specialHalf<false, false>);
  decoder.simple(handler, OpClass::Special, type.bytes(), {type}).kind =
      uint8_t(function | (ftz ? kFtz : 0) | (isExact ? kExact : 0));
}

/// The sign of a with the magnitude of b.
template <class T>
static constexpr auto kCopysign = [](T a, T b) {
  constexpr T kSign = T(1) << (sizeof(T) * 8 - 1);
  return T((a & kSign) | (b & ~kSign));
};

void decodeCopysign(Decoder &decoder) {
  PtxType type = decoder.type();
  if (type.kind != PtxType::Float || type.bits < 32)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  using U = uint32_t;
  using V = uint64_t;
  decoder.simple(type.bits == 32 ? binary<kCopysign<U>, U, U, U>
                                 : binary<kCopysign<V>, V, V, V>,
                 OpClass::Float, type.bytes(), {type, type});
}

template <class T> static void testp(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.lanes<T>(op.r[1]);
  Mask out = 0;
  for (int i = 0; i < kLanes; ++i) {
    int kind = std::fpclassify(a[i]);
    bool is = op.kind == 0   ? kind != FP_NAN && kind != FP_INFINITE
              : op.kind == 1 ? kind == FP_INFINITE
              : op.kind == 2 ? kind != FP_NAN
              : op.kind == 3 ? kind == FP_NAN
              : op.kind == 4 ? kind == FP_NORMAL || kind == FP_ZERO
                             : kind == FP_SUBNORMAL;
    out |= Mask(is) << i;
  }
  storeMask(warp.predicate(op.r[0]), out, mask);
}

void decodeTestp(Decoder &decoder) {
  int kind = decoder.choose(
      {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  PtxType type = decoder.type();
  if (type.kind != PtxType::Float || type.bits < 32)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  decoder
      .simple(type.bits == 32 ? testp<float> : testp<double>,
              OpClass::Predicate, 0, {type})
      .kind = uint8_t(kind);
}

} // namespace softgpu
