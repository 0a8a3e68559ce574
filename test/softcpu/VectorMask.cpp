//===- VectorMask.cpp - Mask registers and comparisons --------------------===//

#include "test/softcpu/VectorOperations.h"

#include <type_traits>

namespace moek::test {

namespace {
//===----------------------------------------------------------------------===//
// Operations on mask registers of `Bits` bits
//===----------------------------------------------------------------------===//

template <size_t Bits, auto op>
void mask2(const VectorInstruction &in, Registers &regs) {
  regs.mask[in.to] =
      op(regs.mask[in.left], regs.mask[in.right]) & lowBits(Bits);
}

template <size_t Bits>
void maskNot(const VectorInstruction &in, Registers &regs) {
  regs.mask[in.to] = ~regs.mask[in.right] & lowBits(Bits);
}

template <size_t Bits, bool Left>
void maskShift(const VectorInstruction &in, Registers &regs) {
  uint64_t value = regs.mask[in.right] & lowBits(Bits);
  if (in.immediate >= Bits)
    value = 0;
  else
    value = Left ? value << in.immediate : value >> in.immediate;
  regs.mask[in.to] = value & lowBits(Bits);
}

/// `Bits` is the width of the result.
template <size_t Bits>
void maskUnpack(const VectorInstruction &in, Registers &regs) {
  constexpr size_t kHalf = Bits / 2;
  regs.mask[in.to] = (regs.mask[in.left] & lowBits(kHalf)) << kHalf |
                     (regs.mask[in.right] & lowBits(kHalf));
}

void setFlags(Registers &regs, bool zero, bool carry) {
  constexpr uint64_t kCarry = 1, kZero = 0x40;
  constexpr uint64_t kAll = kCarry | 4 | 0x10 | kZero | 0x80 | 0x800;
  regs.flags = (regs.flags & ~kAll) | (zero ? kZero : 0) | (carry ? kCarry : 0);
}

template <size_t Bits>
void maskOrTest(const VectorInstruction &in, Registers &regs) {
  uint64_t either = (regs.mask[in.to] | regs.mask[in.right]) & lowBits(Bits);
  setFlags(regs, either == 0, either == lowBits(Bits));
}

template <size_t Bits>
void maskTest(const VectorInstruction &in, Registers &regs) {
  uint64_t a = regs.mask[in.to], b = regs.mask[in.right];
  setFlags(regs, (b & a & lowBits(Bits)) == 0, (b & ~a & lowBits(Bits)) == 0);
}

//===----------------------------------------------------------------------===//
// Moves from and to mask registers
//===----------------------------------------------------------------------===//

template <size_t Bits>
void maskMove(const VectorInstruction &in, Registers &regs) {
  uint64_t value = 0;
  if (in.source == VectorInstruction::Source::Register)
    value = regs.mask[in.right];
  else
    std::memcpy(&value, in.address.of(regs), Bits / 8);
  regs.mask[in.to] = value & lowBits(Bits);
}

template <size_t Bits>
void maskFromGeneral(const VectorInstruction &in, Registers &regs) {
  regs.mask[in.to] = regs.general[in.right] & lowBits(Bits);
}

template <size_t Bits>
void maskToGeneral(const VectorInstruction &in, Registers &regs) {
  regs.general[in.to] = regs.mask[in.right] & lowBits(Bits);
}

template <size_t Bits>
void maskStore(const VectorInstruction &in, Registers &regs) {
  std::memcpy(in.address.of(regs), &regs.mask[in.right], Bits / 8);
}

template <class T> void spread(const VectorInstruction &in, Registers &regs) {
  Lanes<T> r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = T(-(regs.mask[in.right] >> i & 1));
  put<sizeof(T)>(in, regs, r.wide());
}

template <class T, size_t Bits>
void broadcastMask(const VectorInstruction &in, Registers &regs) {
  Lanes<T> r;
  for (size_t i = 0; i < r.kCount; ++i)
    r[i] = T(regs.mask[in.right] & lowBits(Bits));
  put<sizeof(T)>(in, regs, r.wide());
}

/// Sets a bit for each element for which `op` is true; the mask clears others.
template <class T, class Op>
inline void putBits(const VectorInstruction &in, Registers &regs, Op op) {
  uint64_t bits = 0;
  for (size_t i = 0; i < Lanes<T>::kCount; ++i)
    bits |= uint64_t(op(i)) << i;
  regs.mask[in.to] =
      bits & lowBits(in.bytes / sizeof(T)) & activeElements(in, regs);
}

template <class T> void signs(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(right<sizeof(T)>(in, regs));
  putBits<T>(in, regs, [&](size_t i) { return a[i] < 0; });
}

template <class T, bool Set>
void testBits(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(left(in, regs)), b(right<sizeof(T)>(in, regs));
  putBits<T>(in, regs, [&](size_t i) { return ((a[i] & b[i]) != 0) == Set; });
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

// A predicate is the set of relations for which it is true.
enum Relation : uint8_t { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

template <class T> inline uint8_t relation(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return uint8_t((a < b) * kLess | (a == b) * kEqual | (a > b) * kGreater |
                   __builtin_isunordered(a, b) * kUnordered);
  else
    return uint8_t((a < b) * kLess | (a == b) * kEqual | (a > b) * kGreater);
}

template <class T>
uint64_t compared(const VectorInstruction &in, const Registers &regs,
                  uint8_t relations) {
  Lanes<T> a(left(in, regs)), b(right<sizeof(T)>(in, regs));
  Lanes<uint8_t> holds;
  for (size_t i = 0; i < a.kCount; ++i)
    holds[i] = uint8_t((relation(a[i], b[i]) & relations) != 0);
  uint64_t bits = 0;
  for (size_t i = 0; i < a.kCount; ++i)
    bits |= uint64_t(holds[i]) << i;
  return bits & activeElements(in, regs);
}

template <class T, uint8_t Relations>
void compare(const VectorInstruction &in, Registers &regs) {
  regs.mask[in.to] =
      compared<T>(in, regs, Relations) & lowBits(in.bytes / sizeof(T));
}

template <class T>
void compareBy(const VectorInstruction &in, Registers &regs) {
  constexpr uint8_t kPredicates[] = {
      kEqual,           kLess,
      kLess | kEqual,   0,
      kLess | kGreater, kEqual | kGreater,
      kGreater,         kLess | kEqual | kGreater,
  };
  regs.mask[in.to] = compared<T>(in, regs, kPredicates[in.immediate & 7]) &
                     lowBits(in.bytes / sizeof(T));
}

/// Indexed by the immediate. Predicates from 16 on differ only in what they
/// signal.
constexpr uint8_t kFloatPredicates[] = {
    kEqual,                                 // EQ_OQ
    kLess,                                  // LT_OS
    kLess | kEqual,                         // LE_OS
    kUnordered,                             // UNORD_Q
    kLess | kGreater | kUnordered,          // NEQ_UQ
    kEqual | kGreater | kUnordered,         // NLT_US
    kGreater | kUnordered,                  // NLE_US
    kLess | kEqual | kGreater,              // ORD_Q
    kEqual | kUnordered,                    // EQ_UQ
    kLess | kUnordered,                     // NGE_US
    kLess | kEqual | kUnordered,            // NGT_US
    0,                                      // FALSE_OQ
    kLess | kGreater,                       // NEQ_OQ
    kEqual | kGreater,                      // GE_OS
    kGreater,                               // GT_OS
    kLess | kEqual | kGreater | kUnordered, // TRUE_UQ
};

template <class T, bool Scalar>
void compareFloats(const VectorInstruction &in, Registers &regs) {
  uint64_t bits = compared<T>(in, regs, kFloatPredicates[in.immediate & 15]);
  regs.mask[in.to] = bits & lowBits(Scalar ? 1 : in.bytes / sizeof(T));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MOE_ROW(name, form, ...)                                               \
  { ZYDIS_MNEMONIC_##name, Form::form, __VA_ARGS__ }
#define MOE_MASK2(name, bits, expression)                                      \
  MOE_ROW(name, Vector,                                                        \
          mask2<bits, [](uint64_t a, uint64_t b) { return expression; }>)
#define MOE_MASKS(letter, bits)                                                \
  MOE_MASK2(KAND##letter, bits, a &b), MOE_MASK2(KANDN##letter, bits, ~a &b),  \
      MOE_MASK2(KOR##letter, bits, a | b),                                     \
      MOE_MASK2(KXOR##letter, bits, a ^ b),                                    \
      MOE_MASK2(KXNOR##letter, bits, ~(a ^ b)),                                \
      MOE_MASK2(KADD##letter, bits, a + b),                                    \
      MOE_ROW(KNOT##letter, Vector, maskNot<bits>),                            \
      MOE_ROW(KSHIFTL##letter, Immediate, maskShift<bits, true>),              \
      MOE_ROW(KSHIFTR##letter, Immediate, maskShift<bits, false>),             \
      MOE_ROW(KORTEST##letter, Vector, maskOrTest<bits>),                      \
      MOE_ROW(KTEST##letter, Vector, maskTest<bits>),                          \
      MOE_ROW(KMOV##letter, Vector, maskMove<bits>),                           \
      MOE_ROW(KMOV##letter, FromGeneral, maskFromGeneral<bits>),               \
      MOE_ROW(KMOV##letter, ToGeneral, maskToGeneral<bits>),                   \
      MOE_ROW(KMOV##letter, Store, maskStore<bits>)

#define MOE_INTEGERS(letter, signed_, unsigned_)                               \
  MOE_ROW(VPCMP##letter, Vector, compareBy<signed_>),                          \
      MOE_ROW(VPCMPU##letter, Vector, compareBy<unsigned_>),                   \
      MOE_ROW(VPCMPEQ##letter, Vector, compare<signed_, kEqual>),              \
      MOE_ROW(VPCMPGT##letter, Vector, compare<signed_, kGreater>),            \
      MOE_ROW(VPTESTM##letter, Vector, testBits<signed_, true>),               \
      MOE_ROW(VPTESTNM##letter, Vector, testBits<signed_, false>),             \
      MOE_ROW(VPMOVM2##letter, Vector, spread<signed_>),                       \
      MOE_ROW(VPMOV##letter##2M, Vector, signs<signed_>)

const VectorRow kRows[] = {
    MOE_MASKS(B, 8),
    MOE_MASKS(W, 16),
    MOE_MASKS(D, 32),
    MOE_MASKS(Q, 64),
    MOE_ROW(KUNPCKBW, Vector, maskUnpack<16>),
    MOE_ROW(KUNPCKWD, Vector, maskUnpack<32>),
    MOE_ROW(KUNPCKDQ, Vector, maskUnpack<64>),

    MOE_INTEGERS(B, int8_t, uint8_t),
    MOE_INTEGERS(W, int16_t, uint16_t),
    MOE_INTEGERS(D, int32_t, uint32_t),
    MOE_INTEGERS(Q, int64_t, uint64_t),

    MOE_ROW(VCMPPS, Vector, compareFloats<float, false>),
    MOE_ROW(VCMPPD, Vector, compareFloats<double, false>),
    MOE_ROW(VCMPSS, Vector, compareFloats<float, true>),
    MOE_ROW(VCMPSD, Vector, compareFloats<double, true>),
};
} // namespace

std::span<const VectorRow> maskRows() { return kRows; }

} // namespace moek::test
