//===- VectorElement.cpp - Instructions on single elements ----------------===//

#include "test/softcpu/VectorOperations.h"

namespace moek::test {

namespace {
void putLowest16(const VectorInstruction &in, Registers &regs, const Wide &r) {
  putPart<8>(in, regs, r, 16);
}

//===----------------------------------------------------------------------===//
// vmovd, vmovq: set the lowest element, and zeros above it
//===----------------------------------------------------------------------===//

template <size_t Element>
void moveLowest(const VectorInstruction &in, Registers &regs) {
  putPart<Element>(in, regs, right<Element>(in, regs), Element);
}

template <size_t Element>
void fromGeneral(const VectorInstruction &in, Registers &regs) {
  Lanes<uint64_t> r;
  r[0] = regs.general[in.right];
  putPart<Element>(in, regs, r.wide(), Element);
}

template <size_t Element>
void toGeneral(const VectorInstruction &in, Registers &regs) {
  Lanes<Unsigned<Element>> a(load(&regs.vector[in.right]));
  regs.general[in.to] = a[0];
}

template <size_t Element>
void storeLowest(const VectorInstruction &in, Registers &regs) {
  putMemory<Element>(in, regs, load(&regs.vector[in.right]), Element);
}

//===----------------------------------------------------------------------===//
// vmovss, vmovsd: from memory as above; between registers the other elements
// come from the first source
//===----------------------------------------------------------------------===//

template <size_t Element>
void moveScalar(const VectorInstruction &in, Registers &regs) {
  bool inMemory = in.source != VectorInstruction::Source::Register;
  Wide rest = inMemory ? Wide{} : left(in, regs);
  putScalar<Element>(in, regs, right<Element>(in, regs), rest);
}

//===----------------------------------------------------------------------===//
// Halves of 16 bytes: half `To` of the destination is half `From` of the last
// source, the other half is from the first source
//===----------------------------------------------------------------------===//

template <int To, int From>
void moveHalf(const VectorInstruction &in, Registers &regs) {
  Lanes<uint64_t> r(left(in, regs)), b(right<8>(in, regs));
  bool inMemory = in.source != VectorInstruction::Source::Register;
  r[To] = b[inMemory ? 0 : From];
  putLowest16(in, regs, r.wide());
}

template <int From>
void storeHalf(const VectorInstruction &in, Registers &regs) {
  Lanes<uint64_t> a(load(&regs.vector[in.right]));
  std::memcpy(in.address.of(regs), &a[From], 8);
}

//===----------------------------------------------------------------------===//
// Elements selected by an immediate
//===----------------------------------------------------------------------===//

template <class T> size_t chosen(const VectorInstruction &in) {
  return in.immediate % (16 / sizeof(T));
}

template <class T>
void insertValue(const VectorInstruction &in, Registers &regs, T value) {
  Lanes<T> r(left(in, regs));
  r[chosen<T>(in)] = value;
  putLowest16(in, regs, r.wide());
}

template <class T>
void insertGeneral(const VectorInstruction &in, Registers &regs) {
  insertValue<T>(in, regs, T(regs.general[in.right]));
}

template <class T>
void insertMemory(const VectorInstruction &in, Registers &regs) {
  T value;
  std::memcpy(&value, in.address.of(regs), sizeof(T));
  insertValue<T>(in, regs, value);
}

template <class T>
void extractToGeneral(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(load(&regs.vector[in.right]));
  regs.general[in.to] = a[chosen<T>(in)];
}

template <class T>
void extractToMemory(const VectorInstruction &in, Registers &regs) {
  Lanes<T> a(load(&regs.vector[in.right]));
  std::memcpy(in.address.of(regs), &a[chosen<T>(in)], sizeof(T));
}

/// The immediate has the source element, destination element and zeroed
/// elements.
void insertFloat(const VectorInstruction &in, Registers &regs) {
  Lanes<uint32_t> r(left(in, regs)), b(right<4>(in, regs));
  bool inMemory = in.source != VectorInstruction::Source::Register;
  r[in.immediate >> 4 & 3] = b[inMemory ? 0 : in.immediate >> 6];
  for (int i = 0; i < 4; ++i)
    if (in.immediate >> i & 1)
      r[i] = 0;
  putLowest16(in, regs, r.wide());
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

#define MOE_ROW(name, form, ...)                                               \
  { ZYDIS_MNEMONIC_##name, Form::form, __VA_ARGS__ }
#define MOE_LOWEST(name, element)                                              \
  MOE_ROW(name, Vector, moveLowest<element>),                                  \
      MOE_ROW(name, FromGeneral, fromGeneral<element>),                        \
      MOE_ROW(name, ToGeneral, toGeneral<element>),                            \
      MOE_ROW(name, Store, storeLowest<element>)
#define MOE_NUMBERED(letter, type)                                             \
  MOE_ROW(VPINSR##letter, FromGeneral, insertGeneral<type>),                   \
      MOE_ROW(VPINSR##letter, Vector, insertMemory<type>),                     \
      MOE_ROW(VPEXTR##letter, ToGeneral, extractToGeneral<type>),              \
      MOE_ROW(VPEXTR##letter, Store, extractToMemory<type>)

const VectorRow kRows[] = {
    MOE_LOWEST(VMOVD, 4),
    MOE_LOWEST(VMOVQ, 8),
    MOE_ROW(VMOVSS, Vector, moveScalar<4>),
    MOE_ROW(VMOVSS, Store, storeLowest<4>),
    MOE_ROW(VMOVSD, Vector, moveScalar<8>),
    MOE_ROW(VMOVSD, Store, storeLowest<8>),
    MOE_ROW(VMOVLPS, Vector, moveHalf<0, 0>),
    MOE_ROW(VMOVLPD, Vector, moveHalf<0, 0>),
    MOE_ROW(VMOVHPS, Vector, moveHalf<1, 0>),
    MOE_ROW(VMOVHPD, Vector, moveHalf<1, 0>),
    MOE_ROW(VMOVHLPS, Vector, moveHalf<0, 1>),
    MOE_ROW(VMOVLHPS, Vector, moveHalf<1, 0>),
    MOE_ROW(VMOVLPS, Store, storeHalf<0>),
    MOE_ROW(VMOVLPD, Store, storeHalf<0>),
    MOE_ROW(VMOVHPS, Store, storeHalf<1>),
    MOE_ROW(VMOVHPD, Store, storeHalf<1>),
    MOE_NUMBERED(B, uint8_t),
    MOE_NUMBERED(W, uint16_t),
    MOE_NUMBERED(D, uint32_t),
    MOE_NUMBERED(Q, uint64_t),
    MOE_ROW(VEXTRACTPS, ToGeneral, extractToGeneral<uint32_t>),
    MOE_ROW(VEXTRACTPS, Store, extractToMemory<uint32_t>),
    MOE_ROW(VINSERTPS, Vector, insertFloat),
};
} // namespace

std::span<const VectorRow> elementRows() { return kRows; }

} // namespace moek::test
