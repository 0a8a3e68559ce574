//===- Bits.cpp - Logic, shifts and fields --------------------------------===//

#include "test/softgpu/Decoder.h"
#include "test/softgpu/Lanes.h"

#include <algorithm>
#include <bit>

namespace softgpu {

// -- and, or, xor, not, cnot, for predicates and registers.

template <class T>
static constexpr auto kAnd = [](T a, T b) { return T(a & b); };
template <class T>
static constexpr auto kOr = [](T a, T b) { return T(a | b); };
template <class T>
static constexpr auto kXor = [](T a, T b) { return T(a ^ b); };
template <class T> static constexpr auto kNot = [](T a) { return T(~a); };
template <class T> static constexpr auto kCnot = [](T a) { return T(a == 0); };

/// kind: 0 and, 1 or, 2 xor, 3 not.
static void predicateLogic(Warp &warp, const Op &op, Mask mask) {
  Mask a = warp.predicate(op.r[1]),
       b = op.kind == 3 ? 0 : warp.predicate(op.r[2]);
  Mask out = op.kind == 0   ? a & b
             : op.kind == 1 ? a | b
             : op.kind == 2 ? a ^ b
                            : ~a;
  storeMask(warp.predicate(op.r[0]), out, mask);
}

void decodeLogic(Decoder &decoder) {
  const std::string &name = decoder.instruction().opcode;
  int kind = name == "and"   ? 0
             : name == "or"  ? 1
             : name == "xor" ? 2
             : name == "not" ? 3
                             : 4;
  PtxType type = decoder.type();
  if (type.kind != PtxType::Bits && type.kind != PtxType::Pred)
    decoder.fail(
        fmt::format("'{}' is of .b types", decoder.instruction().text()));
  Handler handler = nullptr;
  auto pick = [&]<class T>(T) {
    handler = kind == 0   ? binary<kAnd<T>, T, T, T>
              : kind == 1 ? binary<kOr<T>, T, T, T>
              : kind == 2 ? binary<kXor<T>, T, T, T>
              : kind == 3 ? unary<kNot<T>, T, T>
                          : unary<kCnot<T>, T, T>;
  };
  bool isPredicate = type.kind == PtxType::Pred;
  if (isPredicate && kind < 4)
    handler = predicateLogic;
  else if (type.bits == 16)
    pick(uint16_t());
  else if (type.bits == 32)
    pick(uint32_t());
  else if (type.bits == 64)
    pick(uint64_t());
  else
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  OpClass opClass = isPredicate ? OpClass::Predicate : OpClass::Integer;
  Op &op = kind < 3
               ? decoder.simple(handler, opClass, type.bytes(), {type, type})
               : decoder.simple(handler, opClass, type.bytes(), {type});
  op.kind = uint8_t(kind);
}

// -- shl, shr: shift amounts are clamped to the width.

template <class T>
static constexpr auto kShl =
    [](T a, uint32_t b) { return b < sizeof(T) * 8 ? T(a << b) : T(0); };
template <class T>
static constexpr auto kShr = [](T a, uint32_t b) {
  constexpr uint32_t kTop = sizeof(T) * 8 - 1;
  if (std::is_signed_v<T>)
    return T(a >> (b < kTop ? b : kTop));
  return b <= kTop ? T(a >> (b & kTop)) : T(0);
};

void decodeShift(Decoder &decoder) {
  bool isLeft = decoder.instruction().opcode == "shl";
  PtxType type = decoder.type();
  Handler handler = nullptr;
  auto pick = [&]<class T>(T) {
    using U = std::make_unsigned_t<T>;
    handler = isLeft ? binary<kShl<U>, U, U, uint32_t>
                     : binary<kShr<T>, T, T, uint32_t>;
  };
  bool isSigned = type.isSigned();
  if (!type.isInteger() || type.pair)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  if (type.bits == 16)
    isSigned ? pick(int16_t()) : pick(uint16_t());
  else if (type.bits == 32)
    isSigned ? pick(int32_t()) : pick(uint32_t());
  else if (type.bits == 64)
    isSigned ? pick(int64_t()) : pick(uint64_t());
  else
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  decoder.simple(handler, OpClass::Integer, type.bytes(),
                 {type, Decoder::bits(4)});
}

template <bool Left, bool Clamps>
static uint32_t funnel(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t n = Clamps ? std::min(c, 32u) : c & 31;
  uint64_t both = uint64_t(b) << 32 | a;
  return Left ? uint32_t((both << n) >> 32) : uint32_t(both >> n);
}
template <bool Left, bool Clamps>
static constexpr auto kFunnel = [](uint32_t a, uint32_t b, uint32_t c) {
  return funnel<Left, Clamps>(a, b, c);
};

void decodeFunnel(Decoder &decoder) {
  bool isRight = decoder.choose({"l", "r"});
  bool wraps = decoder.choose({"clamp", "wrap"});
  decoder.choose({"b32"});
  using U = uint32_t;
  Handler handler = isRight
                        ? (wraps ? ternary<kFunnel<false, false>, U, U, U, U>
                                 : ternary<kFunnel<false, true>, U, U, U, U>)
                        : (wraps ? ternary<kFunnel<true, false>, U, U, U, U>
                                 : ternary<kFunnel<true, true>, U, U, U, U>);
  PtxType word = Decoder::bits(4);
  decoder.simple(handler, OpClass::Integer, 4, {word, word, word});
}

// -- lop3, prmt.

/// kind: the truth table; bit (a << 2 | b << 1 | c) of it is the result.
static void lop3(Warp &warp, const Op &op, Mask mask) {
  const uint32_t *a = warp.lanes<uint32_t>(op.r[1]),
                 *b = warp.lanes<uint32_t>(op.r[2]);
  const uint32_t *c = warp.lanes<uint32_t>(op.r[3]);
  uint32_t out[kLanes] = {};
  for (int term = 0; term < 8; ++term) {
    if (!(op.kind >> term & 1))
      continue;
    uint32_t na = term & 4 ? 0 : ~0u, nb = term & 2 ? 0 : ~0u,
             nc = term & 1 ? 0 : ~0u;
    for (int i = 0; i < kLanes; ++i)
      out[i] |= (a[i] ^ na) & (b[i] ^ nb) & (c[i] ^ nc);
  }
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
}

void decodeLop3(Decoder &decoder) {
  decoder.choose({"b32"});
  decoder.needOperands(5, 5);
  const PtxOperand &table = decoder.operand(4);
  if (table.kind != PtxOperand::Int || table.bits > 255)
    decoder.fail("lop3's table is a number below 256");
  Op &op = decoder.begin(lop3, OpClass::Integer);
  op.kind = uint8_t(table.bits);
  decoder.result(size_t(0), 4);
  for (size_t i = 1; i < 4; ++i)
    decoder.source(i, 4);
}

/// The selectors of prmt's modes, by the low two bits of c.
static constexpr uint16_t kModes[6][4] = {
    {0x3210, 0x4321, 0x5432, 0x6543}, // Mode f4e.
    {0x5670, 0x6701, 0x7012, 0x0123}, // Mode b4e.
    {0x0000, 0x1111, 0x2222, 0x3333}, // Mode rc8.
    {0x3210, 0x3211, 0x3222, 0x3333}, // Mode ecl.
    {0x0000, 0x1110, 0x2210, 0x3210}, // Mode ecr.
    {0x1010, 0x3232, 0x1010, 0x3232}, // Mode rc16.
};

/// kind: 0 default, else a mode.
static void prmt(Warp &warp, const Op &op, Mask mask) {
  const uint32_t *a = warp.lanes<uint32_t>(op.r[1]),
                 *b = warp.lanes<uint32_t>(op.r[2]);
  const uint32_t *c = warp.lanes<uint32_t>(op.r[3]);
  uint32_t out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    uint64_t both = uint64_t(b[i]) << 32 | a[i];
    uint32_t selector = op.kind ? kModes[op.kind - 1][c[i] & 3] : c[i];
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
      uint32_t choice = selector >> 4 * j & 15;
      uint32_t byte = uint32_t(both >> 8 * (choice & 7)) & 255;
      if (choice & 8) // Repeats the byte's sign eight times.
        byte = byte & 128 ? 255 : 0;
      word |= byte << 8 * j;
    }
    out[i] = word;
  }
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
}

void decodePrmt(Decoder &decoder) {
  decoder.choose({"b32"});
  int mode = decoder.chooseOr(-1, {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  PtxType word = Decoder::bits(4);
  decoder.simple(prmt, OpClass::Integer, 4, {word, word, word}).kind =
      uint8_t(mode + 1);
}

// -- popc, clz, brev, bfind, fns.

template <class T> static T reversed(T value) {
  T out = 0;
  for (size_t i = 0; i < sizeof(T) * 8; ++i)
    out |= T(value >> i & 1) << (sizeof(T) * 8 - 1 - i);
  return out;
}
template <class T>
static constexpr auto kPopc = [](T a) { return uint32_t(std::popcount(a)); };
template <class T>
static constexpr auto kClz = [](T a) { return uint32_t(std::countl_zero(a)); };
template <class T>
static constexpr auto kBrev = [](T a) { return reversed(a); };
/// Position of the highest bit that differs from the sign; all ones if there is
/// none.
template <class T, bool Shift>
static constexpr auto kBfind = [](T a) {
  using U = std::make_unsigned_t<T>;
  U bits = a < T(0) ? U(~U(a)) : U(a);
  if (!bits)
    return ~0u;
  uint32_t left = uint32_t(std::countl_zero(bits));
  return Shift ? left : uint32_t(sizeof(T) * 8 - 1) - left;
};

void decodeCount(Decoder &decoder) {
  const std::string &name = decoder.instruction().opcode;
  bool shift = name == "bfind" && decoder.accept("shiftamt");
  PtxType type = decoder.type();
  if (!type.isInteger() || type.bits < 32 ||
      (name != "bfind" && type.kind != PtxType::Bits))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  auto pick = [&]<class T>(T) -> Handler {
    using U = std::make_unsigned_t<T>;
    if (name == "popc")
      return unary<kPopc<U>, uint32_t, U>;
    if (name == "clz")
      return unary<kClz<U>, uint32_t, U>;
    if (name == "brev")
      return unary<kBrev<U>, U, U>;
    return shift ? unary<kBfind<T, true>, uint32_t, T>
                 : unary<kBfind<T, false>, uint32_t, T>;
  };
  Handler handler =
      type.bits == 32 ? (type.isSigned() ? pick(int32_t()) : pick(uint32_t()))
                      : (type.isSigned() ? pick(int64_t()) : pick(uint64_t()));
  decoder.simple(handler, OpClass::Integer, name == "brev" ? type.bytes() : 4,
                 {type});
}

/// Position of the n-th set bit of `word`, from `base` upward or downward.
static uint32_t nthSet(uint32_t word, uint32_t base, int32_t n) {
  if (!n)
    return base < 32 && word >> base & 1 ? base : ~0u;
  int64_t step = n > 0 ? 1 : -1, left = n > 0 ? n : -int64_t(n);
  for (int64_t at = base; at >= 0 && at < 32; at += step)
    if (word >> at & 1 && !--left)
      return uint32_t(at);
  return ~0u;
}

void decodeFns(Decoder &decoder) {
  decoder.choose({"b32"});
  PtxType word = Decoder::bits(4);
  decoder.simple(
      ternary<[](uint32_t a, uint32_t b, int32_t c) { return nthSet(a, b, c); },
              uint32_t, uint32_t, uint32_t, int32_t>,
      OpClass::Integer, 4, {word, word, word});
}

// -- bfe, bfi, bmsk, szext.

template <class T> static T extract(T a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = sizeof(T) * 8;
  position &= 255, length &= 255;
  if (!length)
    return 0;
  // Beyond the top, a signed field is filled with the sign: the top bit of the
  // field, or of a.
  uint32_t top = std::min(position + length - 1, kBits - 1);
  bool sign = std::is_signed_v<T> && U(a) >> top & 1;
  U out = position < kBits ? U(U(a) >> position) : U(0);
  uint32_t have = position < kBits ? std::min(length, kBits - position) : 0;
  U keep = have >= kBits ? ~U(0) : U((U(1) << have) - 1);
  return T((out & keep) | (sign ? U(~keep) : U(0)));
}
template <class T>
static constexpr auto kExtract =
    [](T a, uint32_t b, uint32_t c) { return extract(a, b, c); };

/// r = b, with the low bits of a inserted at [position, position + length).
template <class T>
static void insertField(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.lanes<T>(op.r[1]), *b = warp.lanes<T>(op.r[2]);
  const uint32_t *c = warp.lanes<uint32_t>(op.r[3]),
                 *d = warp.lanes<uint32_t>(op.r[4]);
  constexpr uint32_t kBits = sizeof(T) * 8;
  T out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    uint32_t position = c[i] & 255, length = d[i] & 255;
    T field = length >= kBits ? ~T(0) : T((T(1) << length) - 1);
    T keep = position < kBits ? T(field << position) : T(0);
    T value = position < kBits ? T(a[i] << position) : T(0);
    out[i] = (b[i] & ~keep) | (value & keep);
  }
  store(warp.lanes<T>(op.r[0]), out, mask);
}

void decodeBitField(Decoder &decoder) {
  bool inserts = decoder.instruction().opcode == "bfi";
  PtxType type = decoder.type(), word = Decoder::bits(4);
  if (!type.isInteger() || type.bits < 32 ||
      inserts != (type.kind == PtxType::Bits))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  if (inserts) {
    decoder.simple(type.bits == 32 ? insertField<uint32_t>
                                   : insertField<uint64_t>,
                   OpClass::Integer, type.bytes(), {type, type, word, word});
    return;
  }
  auto pick = [&]<class T>(T) -> Handler {
    return ternary<kExtract<T>, T, T, uint32_t, uint32_t>;
  };
  Handler handler =
      type.bits == 32 ? (type.isSigned() ? pick(int32_t()) : pick(uint32_t()))
                      : (type.isSigned() ? pick(int64_t()) : pick(uint64_t()));
  decoder.simple(handler, OpClass::Integer, type.bytes(), {type, word, word});
}

template <bool Clamps>
static uint32_t bitMask(uint32_t position, uint32_t length) {
  if (!Clamps)
    position &= 31, length &= 31;
  position = std::min(position, 32u), length = std::min(length, 32u);
  uint64_t field = ((uint64_t(1) << length) - 1) << position;
  return uint32_t(field);
}

void decodeBitMask(Decoder &decoder) {
  bool wraps = decoder.choose({"clamp", "wrap"});
  decoder.choose({"b32"});
  using U = uint32_t;
  PtxType word = Decoder::bits(4);
  decoder.simple(
      wraps ? binary<[](U a, U b) { return bitMask<false>(a, b); }, U, U, U>
            : binary<[](U a, U b) { return bitMask<true>(a, b); }, U, U, U>,
      OpClass::Integer, 4, {word, word});
}

template <bool Signed, bool Clamps>
static uint32_t signZeroExtend(uint32_t a, uint32_t n) {
  if (!Clamps)
    n &= 31;
  if (n >= 32)
    return a;
  if (!n)
    return 0;
  uint32_t keep = (1u << n) - 1;
  return (a & keep) | (Signed && a >> (n - 1) & 1 ? ~keep : 0);
}

void decodeSzext(Decoder &decoder) {
  bool wraps = decoder.choose({"clamp", "wrap"});
  bool isSigned = decoder.choose({"u32", "s32"});
  using U = uint32_t;
  Handler handler = isSigned
                        ? (wraps ? binary<[](U a, U b) {
                            return signZeroExtend<true, false>(a, b);
                          },
                                          U, U, U>
                                 : binary<[](U a, U b) {
                                     return signZeroExtend<true, true>(a, b);
                                   },
                                          U, U, U>)
                        : (wraps ? binary<[](U a, U b) {
                            return signZeroExtend<false, false>(a, b);
                          },
                                          U, U, U>
                                 : binary<[](U a, U b) {
                                     return signZeroExtend<false, true>(a, b);
                                   },
                                          U, U, U>);
  PtxType word = Decoder::bits(4);
  decoder.simple(handler, OpClass::Integer, 4, {word, word});
}

} // namespace softgpu
