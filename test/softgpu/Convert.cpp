//===- Convert.cpp - cvt between all types --------------------------------===//
//
// Common pairs of types have loops of their own. All others convert through
// binary64 or a 64-bit integer, which represent each source exactly (64-bit
// integers are rounded to odd), and round once.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Decoder.h"
#include "test/softgpu/HalfLanes.h"
#include "test/softgpu/Lanes.h"

#include <algorithm>
#include <optional>

namespace softgpu {

static constexpr uint32_t kTf32Nan = 0x7FFFE000;

// Op::kind: the rounding, and these flags.
static constexpr uint8_t kRounding = 7, kFtz = 8, kSat = 16, kRelu = 32,
                         kIntegral = 64;

/// Op::imm: the PtxTypes of result and source.
static int64_t packTypes(PtxType to, PtxType from) {
  return int64_t(to.kind) | int64_t(to.bits) << 8 | int64_t(from.kind) << 16 |
         int64_t(from.bits) << 24;
}
static PtxType toType(const Op &op) {
  return {PtxType::Kind(op.imm & 255), uint8_t(op.imm >> 8)};
}
static PtxType fromType(const Op &op) {
  return {PtxType::Kind(op.imm >> 16 & 255), uint8_t(op.imm >> 24)};
}

static FloatFormat formatOf(PtxType type) {
  switch (type.kind) {
  case PtxType::Bfloat:
    return kBfloat;
  case PtxType::Tf:
    return kTf32;
  case PtxType::E4m3:
    return kE4m3;
  case PtxType::E5m2:
    return kE5m2;
  default:
    return type.bits == 16 ? kHalf : kSingle;
  }
}

/// Loads each lane's low bits, zero-extended.
static void loadLanes(Warp &warp, Place place, int registerBytes,
                      uint64_t *out) {
  for (int i = 0; i < kLanes; ++i)
    out[i] = registerBytes == 1   ? warp.lanes<uint8_t>(place)[i]
             : registerBytes == 2 ? warp.lanes<uint16_t>(place)[i]
             : registerBytes == 4 ? warp.lanes<uint32_t>(place)[i]
                                  : warp.lanes<uint64_t>(place)[i];
}

static void storeLanes(Warp &warp, Place place, int registerBytes,
                       const uint64_t *values, Mask mask) {
  auto put = [&]<class T>(T) {
    T out[kLanes];
    for (int i = 0; i < kLanes; ++i)
      out[i] = T(values[i]);
    store(warp.lanes<T>(place), out, mask);
  };
  registerBytes == 1   ? put(uint8_t())
  : registerBytes == 2 ? put(uint16_t())
  : registerBytes == 4 ? put(uint32_t())
                       : put(uint64_t());
}

/// Converts a NaN of `from` to `to`. It becomes canonical, except that sign and
/// upper payload bits stay if binary64 is one of the types, and from bf16 to
/// f32.
static uint64_t nanOf(uint64_t bits, PtxType from, PtxType to) {
  FloatFormat f = formatOf(from), t = formatOf(to);
  bool isWide = from.bits == 64 || to.bits == 64;
  if (!isWide && !(from.kind == PtxType::Bfloat && to.bits == 32))
    return encodeFloat(std::numeric_limits<double>::quiet_NaN(), t,
                       Rounding::Nearest);
  int fromMantissa = from.bits == 64 ? 52 : f.mantissaBits;
  int toMantissa = to.bits == 64 ? 52 : t.mantissaBits;
  int shift = fromMantissa - toMantissa;
  uint64_t payload = bits & ((uint64_t(1) << fromMantissa) - 1);
  payload = shift > 0 ? payload >> shift : payload << -shift;
  payload |= isWide ? uint64_t(1) << (toMantissa - 1) : 0;
  uint64_t ones = (uint64_t(1) << (to.bits - 1 - toMantissa)) - 1;
  return (bits >> (from.bits - 1) & 1) << (to.bits - 1) | ones << toMantissa |
         payload;
}

static uint64_t extend(uint64_t value, PtxType type) {
  int shift = 64 - type.bits;
  return type.isSigned() ? uint64_t(int64_t(value << shift) >> shift)
                         : value << shift >> shift;
}

static double valueOf(uint64_t bits, PtxType type) {
  if (type.kind == PtxType::Float && type.bits == 64)
    return std::bit_cast<double>(bits);
  if (type.kind == PtxType::Float && type.bits == 32)
    return asFloat(uint32_t(bits));
  return decodeFloat(uint32_t(bits & ((uint64_t(1) << type.bits) - 1)),
                     formatOf(type));
}

static double roundIntegral(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::nearbyint(value);
  }
}

static uint64_t floatToInteger(double value, PtxType from, PtxType to,
                               Rounding rounding) {
  // NaN becomes 0, but 1 << 63 if either type has 64 bits.
  if (std::isnan(value))
    return from.bits == 64 || to.bits == 64 ? uint64_t(1) << (to.bits - 1) : 0;
  value = roundIntegral(value, rounding);
  double top = std::ldexp(1.0, to.bits - (to.isSigned() ? 1 : 0));
  uint64_t most = ~uint64_t(0) >> (64 - to.bits + (to.isSigned() ? 1 : 0));
  if (value >= top)
    return most;
  if (to.isSigned())
    return value < -top ? ~most : uint64_t(int64_t(value));
  return value <= 0 ? 0 : uint64_t(value);
}

static uint64_t integerToInteger(uint64_t value, PtxType from, PtxType to,
                                 bool saturates) {
  if (!saturates)
    return value;
  if (from.isSigned()) {
    int64_t x = int64_t(value);
    if (!to.isSigned())
      return x < 0 ? 0
                   : std::min<uint64_t>(uint64_t(x),
                                        ~uint64_t(0) >> (64 - to.bits));
    int64_t most = int64_t(~uint64_t(0) >> (65 - to.bits));
    return uint64_t(std::clamp(x, -most - 1, most));
  }
  return std::min(value,
                  ~uint64_t(0) >> (64 - to.bits + (to.isSigned() ? 1 : 0)));
}

/// Converts to binary64 with the given rounding.
static double integerToDouble(uint64_t value, bool isSigned,
                              Rounding rounding) {
  bool negative = isSigned && int64_t(value) < 0;
  uint64_t magnitude = negative ? -value : value;
  double nearest = double(magnitude);
  // 2^64 is one more than the largest value.
  bool isAbove = nearest >= 0x1p64 || uint64_t(nearest) > magnitude;
  bool isBelow = !isAbove && uint64_t(nearest) < magnitude;
  if (isAbove && (rounding == Rounding::Zero ||
                  rounding == (negative ? Rounding::Up : Rounding::Down)))
    nearest = std::nextafter(nearest, 0.0);
  if (isBelow && rounding == (negative ? Rounding::Down : Rounding::Up))
    nearest = std::nextafter(nearest, INFINITY);
  return negative ? -nearest : nearest;
}

static double integerValue(uint64_t value, bool isSigned) {
  bool negative = isSigned && int64_t(value) < 0;
  uint64_t magnitude = negative ? -value : value;
  double sum =
      addToOdd(double(magnitude >> 32) * 0x1p32, double(uint32_t(magnitude)));
  return negative ? -sum : sum;
}

static uint64_t toFloat(double value, PtxType to, const Op &op) {
  Rounding rounding = Rounding(op.kind & kRounding);
  if (op.kind & kIntegral && !std::isnan(value))
    value = std::copysign(roundIntegral(value, rounding), value);
  if (op.kind & kRelu && !std::isnan(value))
    value = value > 0 ? value : 0;
  if (op.kind & kSat && to.kind == PtxType::Float)
    value = value > 0 ? std::min(value, 1.0) : 0.0;
  if (to.kind == PtxType::Float && to.bits == 64)
    return std::bit_cast<uint64_t>(value);
  bool isSmall = to.kind == PtxType::E4m3 || to.kind == PtxType::E5m2;
  uint32_t bits =
      encodeFloat(value, formatOf(to), rounding, isSmall && op.kind & kSat);
  if (to.kind == PtxType::Tf)
    bits <<= 13;
  if (op.kind & kFtz && to.bits == 32)
    bits = asBits(flush(asFloat(bits)));
  return bits;
}

/// .rna truncates a NaN as it truncates numbers; other roundings make it
/// canonical.
static uint64_t tf32Nan(uint64_t bits, Rounding rounding) {
  return rounding == Rounding::NearestAway ? bits & 0xFFFFE000 : kTf32Nan;
}

/// Converts any type to any other.
static void convert(Warp &warp, const Op &op, Mask mask) {
  PtxType to = toType(op), from = fromType(op);
  uint64_t lanes[kLanes];
  loadLanes(warp, op.r[1], op.bytes, lanes);
  Rounding rounding = Rounding(op.kind & kRounding);
  for (uint64_t &lane : lanes) {
    bool isSingle = from.isFloat() && from.bits == 32;
    if (from.isInteger()) {
      lane = extend(lane, from);
      if (to.isInteger()) {
        lane = extend(integerToInteger(lane, from, to, op.kind & kSat), to);
        continue;
      }
      double value = integerValue(lane, from.isSigned());
      // Rounding to odd in binary64 cannot be followed by a rounding to
      // binary64.
      lane = to.bits == 64 ? std::bit_cast<uint64_t>(integerToDouble(
                                 lane, from.isSigned(), rounding))
                           : toFloat(value, to, op);
      continue;
    }
    double value = valueOf(lane, from);
    // Silicon does not flush when converting to f16 (sm_90).
    if (isSingle && op.kind & kFtz && !(to.isFloat() && to.bits == 16))
      value = flush(float(value));
    if (std::isnan(value) && to.isFloat() && !(op.kind & kSat)) {
      // With .ftz, the NaN passes through f32.
      if (op.kind & kFtz && from.bits == 32)
        lane = kNan;
      lane = to.kind == PtxType::Tf ? tf32Nan(lane, rounding)
                                    : nanOf(lane, from, to);
      continue;
    }
    lane = to.isInteger()
               ? extend(floatToInteger(value, from, to, rounding), to)
               : toFloat(value, to, op);
  }
  storeLanes(warp, op.r[0], op.registerBytes, lanes, mask);
}

/// Packs two f32 into one register: the first source is the upper half.
static void pack(Warp &warp, const Op &op, Mask mask) {
  PtxType to = toType(op);
  const float *high = warp.lanes<float>(op.r[1]),
              *low = warp.lanes<float>(op.r[2]);
  uint64_t out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = toFloat(low[i], to, op) | toFloat(high[i], to, op) << to.bits;
  storeLanes(warp, op.r[0], op.registerBytes, out, mask);
}

/// Converts to f16x2 and bf16x2 with rounding to nearest, which kernels use
/// often.
template <bool IsBfloat>
static void packHalves(Warp &warp, const Op &op, Mask mask) {
  const float *high = warp.lanes<float>(op.r[1]),
              *low = warp.lanes<float>(op.r[2]);
  alignas(4) uint16_t h[kLanes], l[kLanes];
  alignas(64) uint32_t out[kLanes];
  narrow<IsBfloat, kLanes>(high, h);
  narrow<IsBfloat, kLanes>(low, l);
  for (int i = 0; i < kLanes; ++i)
    out[i] = uint32_t(h[i]) << 16 | l[i];
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
}

/// Unpacks two 8-bit elements into f16x2.
static void unpackBytes(Warp &warp, const Op &op, Mask mask) {
  const uint16_t *from = warp.lanes<uint16_t>(op.r[1]);
  uint32_t out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    out[i] = 0;
    for (int part = 0; part < 2; ++part)
      out[i] |=
          uint32_t(toFloat(valueOf(from[i] >> 8 * part & 255, fromType(op)),
                           {PtxType::Float, 16}, op))
          << 16 * part;
  }
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
}

template <class D, class S>
static constexpr auto kPlain = [](S a) { return D(a); };
static constexpr auto kHalfToFloat = [](uint16_t a) {
  return canonical(floatOfHalf(a));
};
static constexpr auto kBfloatToFloat = [](uint16_t a) {
  return uint32_t(a) << 16; // Keeps NaNs unchanged.
};
static void floatToHalf(Warp &warp, const Op &op, Mask mask) {
  alignas(64) uint16_t out[kLanes];
  narrow<false, kLanes>(warp.lanes<float>(op.r[1]), out);
  store(warp.lanes<uint16_t>(op.r[0]), out, mask);
}
static void floatToBfloat(Warp &warp, const Op &op, Mask mask) {
  alignas(64) uint16_t out[kLanes];
  narrow<true, kLanes>(warp.lanes<float>(op.r[1]), out);
  store(warp.lanes<uint16_t>(op.r[0]), out, mask);
}

/// Returns a loop for a common pair of types, with registers as wide as the
/// types.
static Handler fastHandler(PtxType to, PtxType from, uint8_t kind) {
  bool nearest = (kind & kRounding) == 0 && !(kind & ~kRounding);
  auto is = [](PtxType type, PtxType::Kind kind, int bits) {
    return type.kind == kind && type.bits == bits;
  };
  if (nearest && is(to, PtxType::Float, 32)) {
    if (is(from, PtxType::Signed, 32))
      return unary<kPlain<float, int32_t>, float, int32_t>;
    if (is(from, PtxType::Float, 16))
      return unary<kHalfToFloat, float, uint16_t>;
    if (is(from, PtxType::Bfloat, 16))
      return unary<kBfloatToFloat, uint32_t, uint16_t>;
  }
  if (nearest && is(from, PtxType::Float, 32)) {
    if (is(to, PtxType::Float, 16))
      return floatToHalf;
    if (is(to, PtxType::Bfloat, 16))
      return floatToBfloat;
  }
  if (kind & kSat || !to.isInteger() || !from.isInteger())
    return nullptr;
  if (to.bits == 64 && from.bits == 32)
    return from.isSigned()
               ? unary<kPlain<int64_t, int32_t>, int64_t, int32_t>
               : unary<kPlain<uint64_t, uint32_t>, uint64_t, uint32_t>;
  if (to.bits == 32 && from.bits == 64)
    return unary<kPlain<uint32_t, uint64_t>, uint32_t, uint64_t>;
  if (to.bits == 32 && from.bits == 16)
    return from.isSigned()
               ? unary<kPlain<int32_t, int16_t>, int32_t, int16_t>
               : unary<kPlain<uint32_t, uint16_t>, uint32_t, uint16_t>;
  if (to.bits == 16 && from.bits == 32)
    return unary<kPlain<uint16_t, uint32_t>, uint16_t, uint32_t>;
  return nullptr;
}

static void decodePack(Decoder &decoder, PtxType to, uint8_t kind) {
  Handler handler = pack;
  if (kind == 0 && to.kind == PtxType::Float)
    handler = packHalves<false>;
  if (kind == 0 && to.kind == PtxType::Bfloat)
    handler = packHalves<true>;
  PtxType single{PtxType::Float, 32};
  Op &op =
      decoder.simple(handler, OpClass::Convert, to.bytes(), {single, single});
  op.kind = kind;
  op.imm = packTypes(to, single);
  op.registerBytes = uint8_t(to.bytes());
}

void decodeCvt(Decoder &decoder) {
  static constexpr Rounding kRoundings[] = {
      Rounding::Nearest, Rounding::Zero,    Rounding::Down,
      Rounding::Up,      Rounding::Nearest, Rounding::Zero,
      Rounding::Down,    Rounding::Up,      Rounding::NearestAway};
  int mode = decoder.chooseOr(
      -1, {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"});
  uint8_t kind = mode < 0 ? 0 : uint8_t(kRoundings[mode]);
  kind |= mode >= 4 && mode < 8 ? kIntegral : 0;
  kind |= decoder.accept("ftz") ? kFtz : 0;
  kind |= decoder.accept("satfinite") ? kSat : 0;
  kind |= decoder.accept("relu") ? kRelu : 0;
  kind |= decoder.accept("sat") ? kSat : 0;
  PtxType to = decoder.type(), from = decoder.type();
  if (to.kind == PtxType::Pred || from.kind == PtxType::Pred)
    decoder.fail("cvt does not take a predicate");
  if ((to.kind == PtxType::Bfloat && from.bits == 8) ||
      (from.kind == PtxType::Bfloat && to.bits == 8))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  // Saturation matters only where a value may be out of range.
  bool holdsAll = to.isInteger() && from.isInteger() &&
                  (to.isSigned() || !from.isSigned()) &&
                  to.bits - to.isSigned() >= from.bits - from.isSigned();
  if (kind & kSat && holdsAll)
    decoder.fail(
        fmt::format("'{}' never saturates", decoder.instruction().text()));
  // If bits are lost, the rounding must be specified.
  bool narrows =
      to.isFloat() && (from.isInteger() || to.bits < from.bits ||
                       (to.bits == from.bits && to.kind != from.kind));
  if (mode < 0 && (narrows || (to.isInteger() && from.isFloat())))
    decoder.fail(
        fmt::format("'{}' needs a rounding", decoder.instruction().text()));
  if (to.pair && from == PtxType{PtxType::Float, 32})
    return decodePack(decoder, to, kind);
  if (from.pair && to == PtxType{PtxType::Float, 16, true}) {
    Op &op =
        decoder.simple(unpackBytes, OpClass::Convert, 4, {Decoder::bits(2)});
    op.kind = kind;
    op.imm = packTypes(to, from);
    return;
  }
  if (to.pair || from.pair)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  decoder.needOperands(2, 2);
  if (to.isInteger() && from.isFloat())
    kind &= uint8_t(~kIntegral);
  // Registers may be wider than their types.
  int toBytes = decoder.registerBytes(decoder.operand(0));
  int fromBytes = decoder.registerBytes(decoder.operand(1));
  fromBytes = fromBytes ? fromBytes : std::max(from.bytes(), 1);
  if (toBytes < to.bytes() || fromBytes < from.bytes() ||
      (to.isFloat() && toBytes != to.bytes()) ||
      (from.isFloat() && fromBytes != from.bytes()))
    decoder.fail(fmt::format("'{}' with registers of {} and {} bits",
                             decoder.instruction().text(), toBytes * 8,
                             fromBytes * 8));
  Handler fast = toBytes == to.bytes() && fromBytes == from.bytes()
                     ? fastHandler(to, from, kind)
                     : nullptr;
  Op &op = decoder.begin(fast ? fast : convert, OpClass::Convert);
  op.kind = kind;
  op.imm = packTypes(to, from);
  op.registerBytes = uint8_t(toBytes);
  op.bytes = uint8_t(fromBytes);
  decoder.result(size_t(0), toBytes);
  PtxType source = from;
  source.bits = uint8_t(fromBytes * 8);
  decoder.source(1, source);
}

} // namespace softgpu
