//===- ScalarConversion.cpp - Conversions of a single element -------------===//

#include "test/softcpu/VectorConversion.h"

namespace moek::test {

namespace {
template <class From, class To>
void convertScalar(const VectorInstruction &in, Registers &regs) {
  Lanes<From> a(right<sizeof(From)>(in, regs));
  Lanes<To> r;
  r[0] = To(a[0]);
  putScalar<sizeof(To)>(in, regs, r.wide(), left(in, regs));
}

template <class Integer, class To>
void putInteger(const VectorInstruction &in, Registers &regs, uint64_t bits) {
  Lanes<To> r;
  r[0] = To(Integer(bits));
  putScalar<sizeof(To)>(in, regs, r.wide(), left(in, regs));
}

/// Converts an integer of 4 or 8 bytes.
template <class Integer32, class Integer64, class To>
void fromInteger(const VectorInstruction &in, Registers &regs, uint64_t bits,
                 size_t bytes) {
  if (bytes == 8)
    putInteger<Integer64, To>(in, regs, bits);
  else
    putInteger<Integer32, To>(in, regs, bits);
}

template <class Integer32, class Integer64, class To>
void fromGeneral(const VectorInstruction &in, Registers &regs) {
  fromInteger<Integer32, Integer64, To>(in, regs, regs.general[in.right],
                                        in.generalBytes);
}

template <class Integer32, class Integer64, class To>
void fromMemory(const VectorInstruction &in, Registers &regs) {
  uint64_t bits = 0;
  std::memcpy(&bits, in.address.of(regs), in.memoryBytes);
  fromInteger<Integer32, Integer64, To>(in, regs, bits, in.memoryBytes);
}

template <class From, class Integer32, class Integer64, bool Truncates>
void toGeneral(const VectorInstruction &in, Registers &regs) {
  From a = Lanes<From>(right<sizeof(From)>(in, regs))[0];
  if (in.generalBytes == 8)
    regs.general[in.to] = uint64_t(toInteger<From, Integer64, Truncates>(a));
  else
    regs.general[in.to] = uint32_t(toInteger<From, Integer32, Truncates>(a));
}

#define MOE_ROW(name, form, ...)                                               \
  { ZYDIS_MNEMONIC_##name, Form::form, __VA_ARGS__ }
#define MOE_FROM_INTEGERS(name, integer32, integer64, to)                      \
  MOE_ROW(name, FromGeneral, fromGeneral<integer32, integer64, to>),           \
      MOE_ROW(name, Vector, fromMemory<integer32, integer64, to>)
#define MOE_TO_INTEGERS(name, from, integer32, integer64)                      \
  MOE_ROW(VCVT##name, ToGeneral,                                               \
          toGeneral<from, integer32, integer64, false>),                       \
      MOE_ROW(VCVTT##name, ToGeneral,                                          \
              toGeneral<from, integer32, integer64, true>)

const VectorRow kRows[] = {
    MOE_ROW(VCVTSS2SD, Vector, convertScalar<float, double>),
    MOE_ROW(VCVTSD2SS, Vector, convertScalar<double, float>),
    MOE_FROM_INTEGERS(VCVTSI2SS, int32_t, int64_t, float),
    MOE_FROM_INTEGERS(VCVTSI2SD, int32_t, int64_t, double),
    MOE_FROM_INTEGERS(VCVTUSI2SS, uint32_t, uint64_t, float),
    MOE_FROM_INTEGERS(VCVTUSI2SD, uint32_t, uint64_t, double),
    MOE_TO_INTEGERS(SS2SI, float, int32_t, int64_t),
    MOE_TO_INTEGERS(SD2SI, double, int32_t, int64_t),
    MOE_TO_INTEGERS(SS2USI, float, uint32_t, uint64_t),
    MOE_TO_INTEGERS(SD2USI, double, uint32_t, uint64_t),
};
} // namespace

std::span<const VectorRow> scalarConversionRows() { return kRows; }

} // namespace moek::test
