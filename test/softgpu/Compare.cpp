//===- Compare.cpp - setp, set, selp, slct --------------------------------===//

#include "test/softgpu/Decoder.h"
#include "test/softgpu/HalfLanes.h"
#include "test/softgpu/Lanes.h"

namespace softgpu {

/// Op::kind: the comparison, combined from "less", "equal", "greater",
/// "unordered"...
static constexpr uint8_t kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8;
static constexpr struct {
  std::string_view name;
  uint8_t holds;
} kComparisons[] = {{"eq", kEqual},
                    {"ne", kLess | kGreater},
                    {"lt", kLess},
                    {"le", kLess | kEqual},
                    {"gt", kGreater},
                    {"ge", kGreater | kEqual},
                    {"lo", kLess},
                    {"ls", kLess | kEqual},
                    {"hi", kGreater},
                    {"hs", kGreater | kEqual},
                    {"equ", kEqual | kUnordered},
                    {"neu", kLess | kGreater | kUnordered},
                    {"ltu", kLess | kUnordered},
                    {"leu", kLess | kEqual | kUnordered},
                    {"gtu", kGreater | kUnordered},
                    {"geu", kGreater | kEqual | kUnordered},
                    {"num", kLess | kEqual | kGreater},
                    {"nan", kUnordered}};

// Bits for the combination of the result with a predicate c.
static constexpr uint8_t kBool = 0x70, kAndC = 0x10, kOrC = 0x20, kXorC = 0x30,
                         kNotC = 0x40, kFtz = 0x80;

/// Returns the lanes where a comparison holds.
template <class T> static Mask compare(const T *a, const T *b, uint8_t holds) {
  alignas(64) uint8_t bits[kLanes];
  bool swaps = false, negates = false;
  constexpr bool kFloat = std::is_floating_point_v<T>;
  uint8_t want = holds;
  if (!kFloat)
    want &= kLess | kEqual | kGreater;
  // For floats, the negation includes unordered.
  if (kFloat ? want & kUnordered : want == (kLess | kGreater)) {
    negates = true;
    want = uint8_t(~want & (kFloat ? 15 : 7));
  }
  if ((want & kGreater) && !(want & kLess)) {
    swaps = true;
    want = uint8_t((want & ~kGreater) | kLess);
  }
  if (swaps)
    std::swap(a, b);
  switch (want) {
  case 0:
    std::memset(bits, 0, sizeof(bits));
    break;
  case kLess:
    for (int i = 0; i < kLanes; ++i)
      bits[i] = a[i] < b[i];
    break;
  case kLess | kEqual:
    for (int i = 0; i < kLanes; ++i)
      bits[i] = a[i] <= b[i];
    break;
  case kEqual:
    for (int i = 0; i < kLanes; ++i)
      bits[i] = a[i] == b[i];
    break;
  case kLess | kGreater: // For floats: ordered and different.
    for (int i = 0; i < kLanes; ++i)
      bits[i] = (a[i] < b[i]) | (a[i] > b[i]);
    break;
  default: // The other comparisons depend on the order.
    for (int i = 0; i < kLanes; ++i)
      bits[i] = (a[i] == a[i]) & (b[i] == b[i]);
  }
  Mask mask = maskOf(bits);
  return negates ? ~mask : mask;
}

template <class T>
static Mask compareLanes(Warp &warp, const Op &op, const Place *s) {
  const T *a = warp.lanes<T>(s[0]), *b = warp.lanes<T>(s[1]);
  if constexpr (std::is_same_v<T, float>)
    if (op.kind & kFtz) {
      float x[kLanes], y[kLanes];
      for (int i = 0; i < kLanes; ++i)
        x[i] = flush(a[i]), y[i] = flush(b[i]);
      return compare(x, y, op.kind & 15);
    }
  return compare(a, b, op.kind & 15);
}

template <bool IsBfloat>
static Mask compareHalf(Warp &warp, const Op &op, const Place *s) {
  float x[kLanes], y[kLanes];
  widen<IsBfloat, kLanes>(warp.lanes<uint16_t>(s[0]), x, op.kind & kFtz);
  widen<IsBfloat, kLanes>(warp.lanes<uint16_t>(s[1]), y, op.kind & kFtz);
  return compare(x, y, op.kind & 15);
}

static Mask combine(const Op &op, Mask result, Mask c) {
  if (op.kind & kNotC)
    c = ~c;
  switch (op.kind & 0x30) {
  case kAndC:
    return result & c;
  case kOrC:
    return result | c;
  case kXorC:
    return result ^ c;
  default:
    return result;
  }
}

using Comparer = Mask (*)(Warp &, const Op &, const Place *);

/// r: p, [q], a, b, [c].
template <Comparer C> static void setp(Warp &warp, const Op &op, Mask mask) {
  const Place *s = &op.r[op.results];
  Mask result = C(warp, op, s);
  Mask c = op.sources == 3 ? warp.predicate(s[2]) : 0;
  Mask other = combine(op, ~result, c);
  storeMask(warp.predicate(op.r[0]), combine(op, result, c), mask);
  if (op.results == 2)
    storeMask(warp.predicate(op.r[1]), other, mask);
}

/// Comparison of pairs: p is the low half's result, q the high half's.
template <bool IsBfloat>
static void setpPair(Warp &warp, const Op &op, Mask mask) {
  const Place *s = &op.r[op.results];
  float x[2 * kLanes], y[2 * kLanes], half[2][2][kLanes];
  widen<IsBfloat, 2 * kLanes>(warp.lanes<uint16_t>(s[0]), x, op.kind & kFtz);
  widen<IsBfloat, 2 * kLanes>(warp.lanes<uint16_t>(s[1]), y, op.kind & kFtz);
  for (int i = 0; i < kLanes; ++i)
    for (int part = 0; part < 2; ++part) {
      half[part][0][i] = x[2 * i + part];
      half[part][1][i] = y[2 * i + part];
    }
  Mask c = op.sources == 3 ? warp.predicate(s[2]) : 0;
  for (int part = 0; part < op.results; ++part)
    storeMask(
        warp.predicate(op.r[part]),
        combine(op, compare(half[part][0], half[part][1], op.kind & 15), c),
        mask);
}

/// `kind` is as above; `imm` is the value that represents true.
template <Comparer C> static void set(Warp &warp, const Op &op, Mask mask) {
  const Place *s = &op.r[1];
  Mask result =
      combine(op, C(warp, op, s), op.sources == 3 ? warp.predicate(s[2]) : 0);
  uint32_t out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = result >> i & 1 ? uint32_t(op.imm) : 0;
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
}

/// Comparison of pairs, into a pair of 1.0 and 0.
template <bool IsBfloat>
static void setPair(Warp &warp, const Op &op, Mask mask) {
  float x[2 * kLanes], y[2 * kLanes];
  widen<IsBfloat, 2 * kLanes>(warp.lanes<uint16_t>(op.r[1]), x, op.kind & kFtz);
  widen<IsBfloat, 2 * kLanes>(warp.lanes<uint16_t>(op.r[2]), y, op.kind & kFtz);
  alignas(4) uint16_t out[2 * kLanes];
  for (int from = 0; from < 2 * kLanes; from += kLanes) {
    Mask result = compare(x + from, y + from, op.kind & 15);
    for (int i = 0; i < kLanes; ++i)
      out[from + i] = result >> i & 1 ? uint16_t(op.imm) : 0;
  }
  store(warp.lanes<uint32_t>(op.r[0]), reinterpret_cast<const uint32_t *>(out),
        mask);
}

struct Handlers {
  Handler setp, set;
};

template <Comparer C> static Handlers both() { return {setp<C>, set<C>}; }

static Handlers handlersOf(Decoder &decoder, PtxType type) {
  if (type.kind == PtxType::Float && type.bits == 32)
    return both<compareLanes<float>>();
  if (type.kind == PtxType::Float && type.bits == 64)
    return both<compareLanes<double>>();
  if (type.kind == PtxType::Float && type.bits == 16)
    return type.pair ? Handlers{setpPair<false>, setPair<false>}
                     : both<compareHalf<false>>();
  if (type.kind == PtxType::Bfloat)
    return type.pair ? Handlers{setpPair<true>, setPair<true>}
                     : both<compareHalf<true>>();
  if (type.isInteger() && !type.pair) {
    if (type.bits == 16)
      return type.isSigned() ? both<compareLanes<int16_t>>()
                             : both<compareLanes<uint16_t>>();
    if (type.bits == 32)
      return type.isSigned() ? both<compareLanes<int32_t>>()
                             : both<compareLanes<uint32_t>>();
    if (type.bits == 64)
      return type.isSigned() ? both<compareLanes<int64_t>>()
                             : both<compareLanes<uint64_t>>();
  }
  decoder.fail(
      fmt::format("'{}' is not supported", decoder.instruction().text()));
}

/// Reads the comparison and how it is combined with c.
static uint8_t takeComparison(Decoder &decoder) {
  uint8_t kind = 0;
  for (const auto &comparison : kComparisons)
    if (!kind && decoder.accept(comparison.name))
      kind = comparison.holds;
  if (!kind)
    decoder.choose(
        {"eq", "ne", "lt", "le", "gt",
         "ge"}); // Reports the unknown name, because there is none of these.
  kind |= uint8_t((decoder.chooseOr(-1, {"and", "or", "xor"}) + 1) << 4);
  return kind;
}

static void takeC(Decoder &decoder, Op &op, size_t index) {
  if (!(op.kind & 0x30))
    return;
  const PtxOperand &c = decoder.operand(index);
  op.kind |= c.negated ? kNotC : 0;
  decoder.source(index, 0);
}

void decodeSetp(Decoder &decoder) {
  uint8_t kind = takeComparison(decoder);
  kind |= decoder.accept("ftz") ? kFtz : 0;
  PtxType type = decoder.type();
  size_t sources = kind & 0x30 ? 3 : 2;
  decoder.needOperands(1 + sources, 2 + sources);
  size_t results = decoder.operandCount() - sources;
  Op &op = decoder.begin(handlersOf(decoder, type).setp, OpClass::Predicate);
  op.kind = kind;
  for (size_t i = 0; i < results; ++i)
    decoder.result(i, 0);
  decoder.source(results, type);
  decoder.source(results + 1, type);
  takeC(decoder, op, results + 2);
}

void decodeSet(Decoder &decoder) {
  uint8_t kind = takeComparison(decoder);
  kind |= decoder.accept("ftz") ? kFtz : 0;
  PtxType to = decoder.type(), type = decoder.type();
  bool isPair = type.pair && to == type;
  bool isWord = !type.pair && to.bits == 32 && !to.pair &&
                (to.isInteger() || to.kind == PtxType::Float);
  if (!isPair && !isWord)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  size_t sources = kind & 0x30 ? 3 : 2;
  decoder.needOperands(1 + sources, 1 + sources);
  Op &op = decoder.begin(handlersOf(decoder, type).set, OpClass::Predicate);
  op.kind = kind;
  op.imm = isPair ? (to.kind == PtxType::Bfloat ? 0x3F80 : 0x3C00)
           : to.kind == PtxType::Float ? 0x3F800000
                                       : 0xFFFFFFFF;
  decoder.result(size_t(0), 4);
  decoder.source(1, type);
  decoder.source(2, type);
  takeC(decoder, op, 3);
}

template <class T> static void selp(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.lanes<T>(op.r[1]), *b = warp.lanes<T>(op.r[2]);
  Mask c = warp.predicate(op.r[3]);
  alignas(64) T out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = c >> i & 1 ? a[i] : b[i];
  store(warp.lanes<T>(op.r[0]), out, mask);
}

void decodeSelp(Decoder &decoder) {
  PtxType type = decoder.type();
  int bytes = type.bytes();
  Handler handler = bytes == 2   ? selp<uint16_t>
                    : bytes == 4 ? selp<uint32_t>
                    : bytes == 8 ? selp<uint64_t>
                                 : nullptr;
  if (!handler)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  decoder
      .simple(handler, OpClass::Predicate, bytes,
              {type, type, Decoder::bits(0)})
      .isSelect = true;
}

/// a if c >= 0, else b. kind: 1 c is f32, 2 flushed.
template <class T> static void slct(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.lanes<T>(op.r[1]), *b = warp.lanes<T>(op.r[2]);
  const uint32_t *c = warp.lanes<uint32_t>(op.r[3]);
  T out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    float x = op.kind & 2 ? flush(asFloat(c[i])) : asFloat(c[i]);
    bool first = op.kind & 1 ? x >= 0 : int32_t(c[i]) >= 0;
    out[i] = first ? a[i] : b[i];
  }
  store(warp.lanes<T>(op.r[0]), out, mask);
}

void decodeSlct(Decoder &decoder) {
  bool ftz = decoder.accept("ftz");
  PtxType type = decoder.type();
  bool isFloat = decoder.choose({"s32", "f32"});
  int bytes = type.bytes();
  Handler handler = bytes == 2   ? slct<uint16_t>
                    : bytes == 4 ? slct<uint32_t>
                    : bytes == 8 ? slct<uint64_t>
                                 : nullptr;
  if (!handler)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  decoder
      .simple(handler, OpClass::Predicate, bytes,
              {type, type, Decoder::bits(4)})
      .kind = uint8_t((isFloat ? 1 : 0) | (ftz ? 2 : 0));
}

} // namespace softgpu
