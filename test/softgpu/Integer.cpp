//===- Integer.cpp - Integer arithmetic -----------------------------------===//

#include "test/softgpu/Integer.h"

#include "test/softgpu/Lanes.h"

#include <algorithm>
#include <limits>

namespace softgpu {

using I128 = __int128;

// -- add, sub, mul, mad: Arithmetic.cpp passes integer types to these.

template <class T>
static constexpr auto kAdd = [](T a, T b) { return T(a + b); };
template <class T>
static constexpr auto kSub = [](T a, T b) { return T(a - b); };
template <class T>
static constexpr auto kMulLo = [](T a, T b) {
  return T(std::make_unsigned_t<std::common_type_t<T, int>>(a) * b);
};
template <class T> static T high(T a, T b) {
  if constexpr (sizeof(T) == 8)
    return T(
        (std::is_signed_v<T> ? I128(a) * b : I128((unsigned __int128)a * b)) >>
        64);
  else
    return T(
        (std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>(a) * b) >>
        (sizeof(T) * 8));
}
template <class T>
static constexpr auto kMulHi = [](T a, T b) { return high(a, b); };
template <class T> struct Wide;
template <> struct Wide<uint16_t> { using Type = uint32_t; };
template <> struct Wide<int16_t> { using Type = int32_t; };
template <> struct Wide<uint32_t> { using Type = uint64_t; };
template <> struct Wide<int32_t> { using Type = int64_t; };
template <class T>
static constexpr auto kMulWide = [](T a, T b) {
  using W = typename Wide<T>::Type;
  return W(W(a) * W(b));
};
static int32_t clampSum(int64_t sum) {
  return int32_t(std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(),
                                     std::numeric_limits<int32_t>::max()));
}

/// Calls body with a value of the host type of `type`.
template <class F>
static Handler byType(Decoder &decoder, PtxType type, F body) {
  bool isSigned = type.isSigned();
  switch (type.pair ? 0 : type.bits) {
  case 16:
    return isSigned ? body(int16_t()) : body(uint16_t());
  case 32:
    return isSigned ? body(int32_t()) : body(uint32_t());
  case 64:
    return isSigned ? body(int64_t()) : body(uint64_t());
  default:
    decoder.fail(fmt::format("'{}' does not take this type",
                             decoder.instruction().text()));
  }
}

static uint32_t addHalves(uint32_t a, uint32_t b) {
  return ((a + b) & 0xFFFF) | ((a >> 16) + (b >> 16)) << 16;
}

/// Sums with a carry: the flag is a predicate register of the kernel.
template <class T, bool Subtracts>
static void carrySum(Warp &warp, const Op &op, Mask mask) {
  // kind: 1 reads the carry, 2 writes it. r: result, [flag out], a, b, [flag
  // in].
  bool writes = op.kind & 2, reads = op.kind & 1;
  const T *a = warp.lanes<T>(op.r[op.results]),
          *b = warp.lanes<T>(op.r[op.results + 1]);
  Mask in = reads ? warp.predicate(op.r[op.results + 2]) : 0;
  T out[kLanes];
  Mask carry = 0;
  for (int i = 0; i < kLanes; ++i) {
    unsigned __int128 x = a[i], y = b[i], c = in >> i & 1;
    // In subtraction the carry is a borrow.
    unsigned __int128 sum = Subtracts ? x - y - c : x + y + c;
    out[i] = T(sum);
    carry |= Mask(sum >> (sizeof(T) * 8) & 1) << i;
  }
  store(warp.lanes<T>(op.r[0]), out, mask);
  if (writes)
    storeMask(warp.predicate(op.r[1]), carry, mask);
}

static void emitCarry(Decoder &decoder, bool subtracts, bool reads) {
  bool writes = decoder.accept("cc");
  PtxType type = decoder.type();
  if (!type.isInteger() || type.bits < 32)
    decoder.fail(fmt::format("'{}' does not take a carry",
                             decoder.instruction().text()));
  Handler handler =
      type.bits == 32
          ? (subtracts ? carrySum<uint32_t, true> : carrySum<uint32_t, false>)
          : (subtracts ? carrySum<uint64_t, true> : carrySum<uint64_t, false>);
  Op &op = decoder.begin(handler, OpClass::Integer);
  op.kind = uint8_t((reads ? 1 : 0) | (writes ? 2 : 0));
  decoder.result(size_t(0), type.bytes());
  if (writes)
    decoder.resultPlace(decoder.carryFlag());
  decoder.source(1, type);
  decoder.source(2, type);
  if (reads)
    decoder.sourcePlace(decoder.carryFlag());
}

void decodeCarry(Decoder &decoder) {
  emitCarry(decoder, decoder.instruction().opcode == "subc", true);
}

void decodeIntegerAdd(Decoder &decoder, bool subtracts, bool saturates) {
  if (decoder.peek() == "cc")
    return emitCarry(decoder, subtracts, false);
  PtxType type = decoder.type();
  if (saturates && !(type == PtxType{PtxType::Signed, 32}))
    decoder.fail(fmt::format("'{}' takes .sat only for s32",
                             decoder.instruction().text()));
  if (type.pair && subtracts)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  Handler handler;
  if (type.pair)
    handler = binary<[](uint32_t a, uint32_t b) { return addHalves(a, b); },
                     uint32_t, uint32_t, uint32_t>;
  else if (saturates)
    handler = subtracts ? binary<[](int32_t a, int32_t b) {
      return clampSum(int64_t(a) - b);
    },
                                 int32_t, int32_t, int32_t>
                        : binary<[](int32_t a, int32_t b) {
                            return clampSum(int64_t(a) + b);
                          },
                                 int32_t, int32_t, int32_t>;
  else
    handler = byType(decoder, type, [&]<class T>(T) -> Handler {
      using U = std::make_unsigned_t<T>; // Unsigned arithmetic wraps.
      return subtracts ? binary<kSub<U>, U, U, U> : binary<kAdd<U>, U, U, U>;
    });
  decoder.simple(handler, OpClass::Integer, type.bytes(), {type, type});
}

void decodeIntegerMul(Decoder &decoder) {
  int half = decoder.choose({"lo", "hi", "wide"});
  PtxType type = decoder.type();
  Handler handler = byType(decoder, type, [&]<class T>(T) -> Handler {
    if (half == 0)
      return binary<kMulLo<T>, T, T, T>;
    if (half == 1)
      return binary<kMulHi<T>, T, T, T>;
    if constexpr (sizeof(T) < 8)
      return binary<kMulWide<T>, typename Wide<T>::Type, T, T>;
    decoder.fail("mul.wide of 64 bits");
  });
  decoder.simple(handler, OpClass::Integer, type.bytes() * (half == 2 ? 2 : 1),
                 {type, type});
}

template <class T, int Half, bool Saturates>
static constexpr auto kMad = [](T a, T b, auto c) {
  if constexpr (Saturates)
    return clampSum(int64_t(kMulHi<T>(a, b)) + c);
  else if constexpr (Half == 2)
    return typename Wide<T>::Type(
        std::make_unsigned_t<typename Wide<T>::Type>(kMulWide<T>(a, b)) + c);
  else
    return T(std::make_unsigned_t<T>(Half ? kMulHi<T>(a, b) : kMulLo<T>(a, b)) +
             std::make_unsigned_t<T>(c));
};

template <class T, int Half>
static void carryMad(Warp &warp, const Op &op, Mask mask) {
  bool writes = op.kind & 2, reads = op.kind & 1;
  const Place *s = &op.r[op.results];
  const T *a = warp.lanes<T>(s[0]), *b = warp.lanes<T>(s[1]),
          *c = warp.lanes<T>(s[2]);
  Mask in = reads ? warp.predicate(s[3]) : 0;
  T out[kLanes];
  Mask carry = 0;
  for (int i = 0; i < kLanes; ++i) {
    using U = std::make_unsigned_t<T>;
    U product = U(Half ? kMulHi<T>(a[i], b[i]) : kMulLo<T>(a[i], b[i]));
    unsigned __int128 sum =
        (unsigned __int128)product + U(c[i]) + (in >> i & 1);
    out[i] = T(sum);
    carry |= Mask(sum >> (sizeof(T) * 8) & 1) << i;
  }
  store(warp.lanes<T>(op.r[0]), out, mask);
  if (writes)
    storeMask(warp.predicate(op.r[1]), carry, mask);
}

void decodeIntegerMad(Decoder &decoder, bool readsCarry) {
  int half = decoder.choose({"lo", "hi", "wide"});
  bool saturates = decoder.accept("sat");
  bool writesCarry = decoder.accept("cc");
  PtxType type = decoder.type();
  if (saturates && (half != 1 || !(type == PtxType{PtxType::Signed, 32})))
    decoder.fail("mad takes .sat only with .hi.s32");
  decoder.needOperands(4, 4);
  if (readsCarry || writesCarry) {
    Handler handler = byType(decoder, type, [&]<class T>(T) -> Handler {
      if (half == 2 || sizeof(T) == 2)
        decoder.fail(fmt::format("'{}' does not take a carry",
                                 decoder.instruction().text()));
      return half ? carryMad<T, 1> : carryMad<T, 0>;
    });
    Op &op = decoder.begin(handler, OpClass::Integer);
    op.kind = uint8_t((readsCarry ? 1 : 0) | (writesCarry ? 2 : 0));
    decoder.result(size_t(0), type.bytes());
    if (writesCarry)
      decoder.resultPlace(decoder.carryFlag());
    for (size_t i = 1; i < 4; ++i)
      decoder.source(i, type);
    if (readsCarry)
      decoder.sourcePlace(decoder.carryFlag());
    return;
  }
  Handler handler = byType(decoder, type, [&]<class T>(T) -> Handler {
    if constexpr (std::is_same_v<T, int32_t>)
      if (saturates)
        return ternary<kMad<T, 1, true>, T, T, T, T>;
    if (half == 0)
      return ternary<kMad<T, 0, false>, T, T, T, T>;
    if (half == 1)
      return ternary<kMad<T, 1, false>, T, T, T, T>;
    if constexpr (sizeof(T) < 8) {
      using W = typename Wide<T>::Type;
      return ternary<kMad<T, 2, false>, W, T, T, W>;
    }
    decoder.fail("mad.wide of 64 bits");
  });
  PtxType sum = type;
  sum.bits = uint8_t(type.bits * (half == 2 ? 2 : 1));
  decoder.simple(handler, OpClass::Integer, sum.bytes(), {type, type, sum});
}

// -- mul24, mad24.

template <class T> static int64_t product24(T a, T b) {
  // Signed operands extend bit 23.
  auto low = [](T value) {
    return std::is_signed_v<T> ? int64_t(int32_t(uint32_t(value) << 8) >> 8)
                               : int64_t(uint32_t(value) & 0xFFFFFF);
  };
  return low(a) * low(b);
}

template <class T, bool High>
static void mul24(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.lanes<T>(op.r[1]), *b = warp.lanes<T>(op.r[2]);
  const T *c = op.sources == 3 ? warp.lanes<T>(op.r[3]) : nullptr;
  T out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    int64_t product = product24(a[i], b[i]);
    int64_t half = High ? int64_t(uint64_t(product) << 16) >> 32 : product;
    if (c)
      half = op.kind ? clampSum(int32_t(half) + int64_t(c[i])) : half + c[i];
    out[i] = T(half);
  }
  store(warp.lanes<T>(op.r[0]), out, mask);
}

void decodeMul24(Decoder &decoder) {
  bool adds = decoder.instruction().opcode == "mad24";
  bool high = decoder.choose({"lo", "hi"});
  bool saturates = adds && high && decoder.accept("sat");
  PtxType type = decoder.type();
  if (type.bits != 32 || !type.isInteger())
    decoder.fail("mul24 takes only u32 and s32");
  Handler handler =
      type.isSigned() ? (high ? mul24<int32_t, true> : mul24<int32_t, false>)
                      : (high ? mul24<uint32_t, true> : mul24<uint32_t, false>);
  Op &op =
      adds ? decoder.simple(handler, OpClass::Integer, 4, {type, type, type})
           : decoder.simple(handler, OpClass::Integer, 4, {type, type});
  op.kind = saturates;
}

// -- div, rem. PTX leaves division by zero undefined: here it gives all ones
// (as on sm_90). The most negative number divided by -1 wraps.

template <class T> static T quotient(T a, T b) {
  if (!b)
    return T(-1);
  if (std::is_signed_v<T> && b == T(-1))
    return T(-std::make_unsigned_t<std::common_type_t<T, int>>(a));
  return T(a / b);
}
template <class T>
static constexpr auto kDiv = [](T a, T b) { return quotient(a, b); };
template <class T>
static constexpr auto kRem = [](T a, T b) {
  if (!b)
    return T(-1);
  return std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b);
};

void decodeIntegerDiv(Decoder &decoder) {
  PtxType type = decoder.type();
  Handler handler = byType(decoder, type, [&]<class T>(T) -> Handler {
    return binary<kDiv<T>, T, T, T>;
  });
  decoder.simple(handler, OpClass::Integer, type.bytes(), {type, type});
}

void decodeRem(Decoder &decoder) {
  PtxType type = decoder.type();
  Handler handler = byType(decoder, type, [&]<class T>(T) -> Handler {
    return binary<kRem<T>, T, T, T>;
  });
  decoder.simple(handler, OpClass::Integer, type.bytes(), {type, type});
}

// -- min, max, abs, neg, sad.

template <class T>
static constexpr auto kMin = [](T a, T b) { return a < b ? a : b; };
template <class T>
static constexpr auto kMax = [](T a, T b) { return a > b ? a : b; };
template <class T>
static constexpr auto kMaxRelu = [](T a, T b) {
  T larger = a > b ? a : b;
  return larger > 0 ? larger : T(0);
};
template <class T>
static constexpr auto kMinRelu = [](T a, T b) {
  T smaller = a < b ? a : b;
  return smaller > 0 ? smaller : T(0);
};
template <class T, bool IsMax>
static uint32_t pairMinMax(uint32_t a, uint32_t b) {
  T al = T(a), ah = T(a >> 16), bl = T(b), bh = T(b >> 16);
  T low = (al < bl) != IsMax ? al : bl, high = (ah < bh) != IsMax ? ah : bh;
  return uint16_t(low) | uint32_t(uint16_t(high)) << 16;
}
template <class T, bool IsMax>
static constexpr auto kPairMinMax =
    [](uint32_t a, uint32_t b) { return pairMinMax<T, IsMax>(a, b); };

void decodeIntegerMinMax(Decoder &decoder, bool isMax) {
  bool relu = decoder.accept("relu");
  PtxType type = decoder.type();
  Handler handler;
  if (type.pair) {
    if (relu)
      decoder.fail("min, max of pairs with .relu are not supported");
    using U = uint32_t;
    handler = type.isSigned()
                  ? (isMax ? binary<kPairMinMax<int16_t, true>, U, U, U>
                           : binary<kPairMinMax<int16_t, false>, U, U, U>)
                  : (isMax ? binary<kPairMinMax<uint16_t, true>, U, U, U>
                           : binary<kPairMinMax<uint16_t, false>, U, U, U>);
  } else {
    handler = byType(decoder, type, [&]<class T>(T) -> Handler {
      if (relu)
        return isMax ? binary<kMaxRelu<T>, T, T, T>
                     : binary<kMinRelu<T>, T, T, T>;
      return isMax ? binary<kMax<T>, T, T, T> : binary<kMin<T>, T, T, T>;
    });
  }
  decoder.simple(handler, OpClass::Integer, type.bytes(), {type, type});
}

template <class T>
static constexpr auto kNeg =
    [](T a) { return T(-std::make_unsigned_t<std::common_type_t<T, int>>(a)); };
template <class T>
static constexpr auto kAbs = [](T a) { return a < 0 ? kNeg<T>(a) : a; };

void decodeIntegerAbsNeg(Decoder &decoder, bool isAbs) {
  PtxType type = decoder.type();
  if (!type.isSigned())
    decoder.fail(fmt::format("'{}' does not take an unsigned type",
                             decoder.instruction().text()));
  Handler handler = byType(decoder, type, [&]<class T>(T) -> Handler {
    return isAbs ? unary<kAbs<T>, T, T> : unary<kNeg<T>, T, T>;
  });
  decoder.simple(handler, OpClass::Integer, type.bytes(), {type});
}

template <class T>
static constexpr auto kSad = [](T a, T b, T c) {
  using U = std::make_unsigned_t<std::common_type_t<T, int>>;
  return T(U(c) + (a < b ? U(b) - U(a) : U(a) - U(b)));
};

void decodeSad(Decoder &decoder) {
  PtxType type = decoder.type();
  Handler handler = byType(decoder, type, [&]<class T>(T) -> Handler {
    return ternary<kSad<T>, T, T, T, T>;
  });
  decoder.simple(handler, OpClass::Integer, type.bytes(), {type, type, type});
}

// -- dp4a, dp2a.

template <class A, class B>
static uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i)
    c += uint32_t(int32_t(A(a >> 8 * i)) * int32_t(B(b >> 8 * i)));
  return c;
}
template <class A, class B>
static constexpr auto kDot4 =
    [](uint32_t a, uint32_t b, uint32_t c) { return dot4<A, B>(a, b, c); };

/// kind: 1 a is signed, 2 b is signed, 4 use the upper two bytes of b.
static void dot2(Warp &warp, const Op &op, Mask mask) {
  const uint32_t *a = warp.lanes<uint32_t>(op.r[1]),
                 *b = warp.lanes<uint32_t>(op.r[2]);
  const uint32_t *c = warp.lanes<uint32_t>(op.r[3]);
  uint32_t out[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    out[i] = c[i];
    for (int j = 0; j < 2; ++j) {
      uint32_t word = a[i] >> 16 * j,
               byte = b[i] >> (8 * j + (op.kind & 4 ? 16 : 0));
      int32_t x = op.kind & 1 ? int16_t(word) : uint16_t(word);
      int32_t y = op.kind & 2 ? int8_t(byte) : uint8_t(byte);
      out[i] += uint32_t(x * y);
    }
  }
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
}

void decodeDotProduct(Decoder &decoder) {
  bool isDot2 = decoder.instruction().opcode == "dp2a";
  bool upper = isDot2 && decoder.choose({"lo", "hi"});
  int a = decoder.choose({"u32", "s32"}), b = decoder.choose({"u32", "s32"});
  using U = uint32_t;
  Handler handler = a ? (b ? ternary<kDot4<int8_t, int8_t>, U, U, U, U>
                           : ternary<kDot4<int8_t, uint8_t>, U, U, U, U>)
                      : (b ? ternary<kDot4<uint8_t, int8_t>, U, U, U, U>
                           : ternary<kDot4<uint8_t, uint8_t>, U, U, U, U>);
  PtxType word = Decoder::bits(4);
  Op &op = decoder.simple(isDot2 ? dot2 : handler, OpClass::DotProduct, 4,
                          {word, word, word});
  op.kind = uint8_t(a | b << 1 | (upper ? 4 : 0));
}

} // namespace softgpu
