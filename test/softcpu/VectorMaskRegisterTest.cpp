#include "test/softcpu/VectorEffectTest.h"

namespace moek::test {

namespace {
template <class T>
void spread(const Effect &e, int to, int mask, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i)
    e.set<T>(to, i, e.masked(mask, i) ? T(-1) : T(0));
  e.clear(to, bytes);
}

template <class T> uint64_t signs(const Effect &e, int from, size_t bytes) {
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes / sizeof(T); ++i)
    bits |= uint64_t(e.get<T>(from, i) < 0) << i;
  return bits;
}

template <class T> void orTest(const Effect &e) {
  T either = T(e.r.mask[1] | e.r.mask[2]);
  e.flags(either == 0, false, either == T(-1));
}

/// The first source is the last operand in assembler syntax.
template <class T> void andTest(const Effect &e) {
  T first = T(e.r.mask[2]), second = T(e.r.mask[1]);
  e.flags(T(second & first) == 0, false, T(second & ~first) == 0);
}

template <class T> T shifted(uint64_t value, unsigned by, bool left) {
  if (by >= 8 * sizeof(T))
    return 0;
  return left ? T(T(value) << by) : T(T(value) >> by);
}
} // namespace

// clang-format off
#define SHIFTS(X, letter, type, by)                                            \
  X("kshiftl" letter " $" #by ", %k1, %k3", e.r.mask[3] = shifted<type>(e.r.mask[1], by, true)) \
  X("kshiftr" letter " $" #by ", %k1, %k3", e.r.mask[3] = shifted<type>(e.r.mask[1], by, false))
#define WIDTH(X, letter, type, signed_, reg)                                   \
  X("kand" letter " %k1, %k2, %k3", e.r.mask[3] = type(e.r.mask[2] & e.r.mask[1])) \
  X("kandn" letter " %k1, %k2, %k3", e.r.mask[3] = type(~e.r.mask[2] & e.r.mask[1])) \
  X("kor" letter " %k1, %k2, %k2", e.r.mask[2] = type(e.r.mask[2] | e.r.mask[1])) \
  X("kxor" letter " %k1, %k2, %k3", e.r.mask[3] = type(e.r.mask[2] ^ e.r.mask[1])) \
  X("kxnor" letter " %k1, %k2, %k0", e.r.mask[0] = type(~(e.r.mask[2] ^ e.r.mask[1]))) \
  X("kadd" letter " %k1, %k2, %k3", e.r.mask[3] = type(e.r.mask[2] + e.r.mask[1])) \
  X("knot" letter " %k1, %k1", e.r.mask[1] = type(~e.r.mask[1]))               \
  X("kortest" letter " %k1, %k2", orTest<type>(e))                             \
  X("ktest" letter " %k1, %k2", andTest<type>(e))                              \
  X("kmov" letter " %k1, %k6", e.r.mask[6] = type(e.r.mask[1]))                \
  X("kmov" letter " (%rax, %rcx, 8), %k6", e.r.mask[6] = elementAt<type>(e.memory.bytes + 8 * e.r.general[1], 0)) \
  X("kmov" letter " %k1, 9(%rax, %rcx)", std::memcpy(e.memory.bytes + 9 + e.r.general[1], &e.r.mask[1], sizeof(type))) \
  X("kmov" letter " %" reg "bx, %k6", e.r.mask[6] = type(e.r.general[3]))  \
  X("kmov" letter " %k1, %" reg "dx", e.r.general[2] = type(e.r.mask[1]))  \
  X("vpmovm2" letter " %k1, %zmm9", spread<signed_>(e, 9, 1, 64))              \
  X("vpmovm2" letter " %k1, %ymm19", spread<signed_>(e, 19, 1, 32))            \
  X("vpmov" letter "2m %zmm9, %k3", e.r.mask[3] = signs<signed_>(e, 9, 64))    \
  X("vpmov" letter "2m %xmm19, %k3", e.r.mask[3] = signs<signed_>(e, 19, 16))  \
  SHIFTS(X, letter, type, 0)                                                   \
  SHIFTS(X, letter, type, 5)                                                   \
  SHIFTS(X, letter, type, 8)                                                   \
  SHIFTS(X, letter, type, 31)                                                  \
  SHIFTS(X, letter, type, 200)

#define MASKS(X)                                                               \
  WIDTH(X, "b", uint8_t, int8_t, "e")                                          \
  WIDTH(X, "w", uint16_t, int16_t, "e")                                        \
  WIDTH(X, "d", uint32_t, int32_t, "e")                                        \
  WIDTH(X, "q", uint64_t, int64_t, "r")                                        \
  X("kunpckbw %k1, %k2, %k3", e.r.mask[3] = uint8_t(e.r.mask[2]) << 8 | uint8_t(e.r.mask[1])) \
  X("kunpckwd %k1, %k2, %k3", e.r.mask[3] = uint64_t(uint16_t(e.r.mask[2])) << 16 | uint16_t(e.r.mask[1])) \
  X("kunpckdq %k1, %k2, %k3", e.r.mask[3] = uint64_t(uint32_t(e.r.mask[2])) << 32 | uint32_t(e.r.mask[1]))
// clang-format on

MOE_EFFECT_CASES(MaskRegisters, MASKS);

} // namespace moek::test
