//===- VectorEffectTest.h - Tests of an instruction's effects ---*- C++ -*-===//
//
// For instructions that do not work element by element. A case is an
// instruction in assembler syntax, and C++ statements with the same effect.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_VECTOREFFECTTEST_H
#define MOE_TEST_SOFTCPU_VECTOREFFECTTEST_H

#include "test/softcpu/VectorTestMachine.h"

#include <gtest/gtest.h>

namespace moek::test {

/// The registers, and the last 64 bytes before inaccessible memory. rax points
/// to these bytes; rcx and rdx are less than 8. The elements in them from byte
/// 56 on have zeros in k5 (elements of 8 bytes), k6 (4 bytes) and k7 (1 byte);
/// k4 is 0.
struct Effect {
  Registers &r;
  Vector &memory;

  template <class T> T get(int vector, size_t i) const {
    return elementAt<T>(&r.vector[vector], i);
  }
  template <class T> void set(int vector, size_t i, T value) const {
    std::memcpy(r.vector[vector].bytes + i * sizeof(T), &value, sizeof(T));
  }
  template <class T> T loaded(size_t i) const {
    return elementAt<T>(&memory, i);
  }
  template <class T> void stored(size_t i, T value) const {
    std::memcpy(memory.bytes + i * sizeof(T), &value, sizeof(T));
  }
  bool masked(int mask, size_t i) const { return r.mask[mask] >> i & 1; }
  /// Zeroes a vector from byte `first` on.
  void clear(int vector, size_t first) const {
    std::memset(r.vector[vector].bytes + first, 0, 64 - first);
  }
  void flags(bool zero, bool parity, bool carry) const {
    r.flags &= ~uint64_t(0x8d5);
    r.flags |= uint64_t(zero) << 6 | uint64_t(parity) << 2 | uint64_t(carry);
  }
};

struct EffectCase {
  const char *text;
  void (*apply)(const Effect &effect);
};

/// Runs the case several times with random operands, until a failure.
void checkEffect(const EffectCase &test, const Code &code);

#define MOE_EFFECT_TEXT(text, ...) ".balign 16, 0x90\n" text "\n"
#define MOE_EFFECT_ROW(text, ...) {text, [](const Effect &e) { __VA_ARGS__; }},

// Defines a test of all cases. LIST(X) lists them as X("instruction",
// statements on Effect `e`).
#define MOE_EFFECT_CASES(suite, LIST)                                          \
  asm(".pushsection .rodata\n.balign 16\n" #suite                              \
      "Code:\n" LIST(MOE_EFFECT_TEXT) ".balign 16\n.popsection\n");            \
  extern "C" const moek::test::Code suite##Code[];                             \
  TEST(suite, ChangesTheSame) {                                                \
    const EffectCase cases[] = {LIST(MOE_EFFECT_ROW)};                         \
    for (size_t i = 0; i < std::size(cases); ++i)                              \
      checkEffect(cases[i], suite##Code[i]);                                   \
  }                                                                            \
  static_assert(true)

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_VECTOREFFECTTEST_H
