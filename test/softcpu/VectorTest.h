//===- VectorTest.h - Compares instructions with pseudo-code ----*- C++ -*-===//
//
// A case is a line of a list: an instruction's name, the forms that it has, the
// shape of its operands, and an expression for one element of the destination,
// taken from the Software Developer's Manual. The assembler encodes each form:
// see MOE_VECTOR_CASES.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_VECTORTEST_H
#define MOE_TEST_SOFTCPU_VECTORTEST_H

#include "test/softcpu/VectorTestMachine.h"

#include <gtest/gtest.h>
#include <limits>
#include <type_traits>

namespace moek::test {

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

// Flags for the forms that an instruction has.
#define MASKED 1
#define YMM 2
#define XMM 4
#define ALL 7
#define TO16 8 // Memory operands may be broadcast to 16 elements of 64 bytes.
#define TO8 16 // Memory operands may be broadcast to 8 elements of 64 bytes.
#define VEX 32 // There is a VEX instruction of the same name.
#define REGISTER 64 // The last source is never in memory.
#define IMMEDIATE 128
#define TO_MASK 256
#define SCALAR 512  // The rest of 16 bytes ignores the mask.
#define BF16 1024   // The instruction is not part of Isa::Avx512.
#define MEMORY 2048 // The last source is always in memory.
#define BLEND 4096  // A zero mask bit selects the first source.
// The VEX instruction (AVX-VNNI) is executed by software, too.
#define VNNI 8192

/// Bytes of destination and last source for a vector length: `fixed` or a
/// fraction of the length.
struct Shape {
  size_t toFixed, toDivisor, fromFixed, fromDivisor;

  size_t to(size_t length) const {
    return toFixed ? toFixed : length / toDivisor;
  }
  size_t from(size_t length) const {
    return fromFixed ? fromFixed : length / fromDivisor;
  }
};

// Register letters of the destination and of the last source, by vector length.
#define MOE_LETTERS_SAME "z", "y", "x", "z", "y", "x"
#define MOE_LETTERS_HALF_FROM "z", "y", "x", "y", "x", "x"
#define MOE_LETTERS_QUARTER_FROM "z", "y", "x", "x", "x", "x"
#define MOE_LETTERS_EIGHTH_FROM "z", "y", "x", "x", "x", "x"
#define MOE_LETTERS_HALF_TO "y", "x", "x", "z", "y", "x"
#define MOE_LETTERS_QUARTER_TO "x", "x", "x", "z", "y", "x"
#define MOE_LETTERS_EIGHTH_TO "x", "x", "x", "z", "y", "x"
#define MOE_LETTERS_FROM_1 "z", "y", "x", "x", "x", "x"
#define MOE_LETTERS_FROM_2 "z", "y", "x", "x", "x", "x"
#define MOE_LETTERS_FROM_4 "z", "y", "x", "x", "x", "x"
#define MOE_LETTERS_FROM_8 "z", "y", "x", "x", "x", "x"
#define MOE_LETTERS_FROM_16 "z", "y", "x", "x", "x", "x"
#define MOE_LETTERS_FROM_32 "z", "y", "x", "y", "y", "y"
#define MOE_LETTERS_TO_16 "x", "x", "x", "z", "y", "x"
#define MOE_LETTERS_TO_32 "y", "y", "y", "z", "y", "x"
#define MOE_LETTERS_ONE_4 "x", "x", "x", "x", "x", "x"
#define MOE_LETTERS_ONE_8 "x", "x", "x", "x", "x", "x"

inline constexpr Shape SAME = {0, 1, 0, 1}, HALF_FROM = {0, 1, 0, 2},
                       QUARTER_FROM = {0, 1, 0, 4}, EIGHTH_FROM = {0, 1, 0, 8},
                       HALF_TO = {0, 2, 0, 1}, QUARTER_TO = {0, 4, 0, 1},
                       EIGHTH_TO = {0, 8, 0, 1}, FROM_1 = {0, 1, 1, 1},
                       FROM_2 = {0, 1, 2, 1}, FROM_4 = {0, 1, 4, 1},
                       FROM_8 = {0, 1, 8, 1}, FROM_16 = {0, 1, 16, 1},
                       FROM_32 = {0, 1, 32, 1}, TO_16 = {16, 1, 0, 1},
                       TO_32 = {32, 1, 0, 1}, ONE_4 = {16, 1, 4, 1},
                       ONE_8 = {16, 1, 8, 1};

/// The operands of an element's expression: the first source, the last or only
/// one, and the destination's previous value.
struct Operands {
  const void *a, *b, *old;
  size_t length; ///< Bytes of a vector.
  size_t count;  ///< Number of elements of the destination.
  unsigned immediate;
};

struct VectorCase {
  const char *name;
  unsigned flags;
  Shape shape;
  /// Bytes of a source element and of a result element.
  size_t fromBytes, toBytes;
  bool toFloat; ///< Whether any NaN equals any other.
  /// Computes element `i` of the destination.
  void (*element)(const Operands &, size_t i, void *to);
};

inline constexpr size_t kForms = 14;

/// Runs each of kForms forms several times with random operands, until a
/// failure.
void checkCase(const VectorCase &test, const Code *forms);

//===----------------------------------------------------------------------===//
// Code and table from a list of cases
//===----------------------------------------------------------------------===//

#define MOE_STRING2(...) #__VA_ARGS__
#define MOE_STRING(...) MOE_STRING2(__VA_ARGS__)

// Must match kFormTable of VectorTest.cpp.
#define MOE_SLOT(condition, ...)                                               \
  ".balign 16, 0x90\n.if " condition "\n" __VA_ARGS__ "\n.else\nnop\n.endif\n"
#define MOE_IF(flags, bits) "((" flags ") & " #bits ") == " #bits
#define MOE_IN_REGISTER(flags, bits)                                           \
  "((" flags ") & (2048 | " #bits ")) == " #bits
#define MOE_FORMS2(op, f, i, M, D, z, Z, Y, X, FZ, FY, FX)                     \
  MOE_SLOT(MOE_IN_REGISTER(f, 0),                                              \
           "{evex} " op i "%" FZ "mm3, " M(Z, 2) D(Z, 1))                      \
  MOE_SLOT(MOE_IN_REGISTER(f, 1),                                              \
           "{evex} " op i "%" FZ "mm3, " M(Z, 2) D(Z, 1) "{%k1}")              \
  MOE_SLOT(MOE_IN_REGISTER(f, 1),                                              \
           "{evex} " op i "%" FZ "mm19, " M(Z, 28) D(Z, 31) "{%k2}" z)         \
  MOE_SLOT(MOE_IN_REGISTER(f, 3),                                              \
           "{evex} " op i "%" FY "mm3, " M(Y, 2) D(Y, 1) "{%k3}")              \
  MOE_SLOT(MOE_IN_REGISTER(f, 5),                                              \
           "{evex} " op i "%" FX "mm3, " M(X, 2) D(X, 1) "{%k1}" z)            \
  MOE_SLOT(MOE_IN_REGISTER(f, 4),                                              \
           "{evex} " op i "%" FX "mm3, " M(X, 2) D(X, 1))                      \
  MOE_SLOT(MOE_IN_REGISTER(f, 1),                                              \
           "{evex} " op i "%" FZ "mm1, " M(Z, 1) D(Z, 1) "{%k1}")              \
  MOE_SLOT("((" f ") & 64) == 0", "{evex} " op i "(%rax), " M(Z, 2) D(Z, 1))   \
  MOE_SLOT("((" f ") & 65) == 1",                                              \
           "{evex} " op i "64(%rcx, %rdx, 4), " M(Z, 2) D(Z, 1) "{%k1}")       \
  MOE_SLOT("((" f ") & 69) == 5",                                              \
           "{evex} " op i "-3(%rbx), " M(X, 2) D(X, 1) "{%k2}" z)              \
  MOE_SLOT(MOE_IF(f, 9),                                                       \
           "{evex} " op i "4(%rax){1to16}, " M(Z, 2) D(Z, 1) "{%k1}")          \
  MOE_SLOT(MOE_IF(f, 17),                                                      \
           "{evex} " op i "8(%rax){1to8}, " M(Z, 2) D(Z, 1) "{%k1}")           \
  MOE_SLOT(MOE_IF(f, 34), "{vex} " op i "%" FY "mm3, " M(Y, 2) D(Y, 1))        \
  MOE_SLOT(MOE_IF(f, 36), "{vex} " op i "%" FX "mm3, " M(X, 2) D(X, 1))
#define MOE_FORMS1(...) MOE_FORMS2(__VA_ARGS__)
#define MOE_FORMS(op, f, i, M, D, z, shape)                                    \
  MOE_FORMS1(op, f, i, M, D, z, MOE_LETTERS_##shape)

#define MOE_REGISTER(letter, number) "%" letter "mm" #number
#define MOE_MIDDLE(letter, number) "%" letter "mm" #number ", "
#define MOE_NO_MIDDLE(letter, number)
#define MOE_K5(letter, number) "%k5"

// Forms with two sources or one; with an immediate; to a mask register.
#define MOE_ASM_THREE(op, f, shape)                                            \
  MOE_FORMS(op, f, " ", MOE_MIDDLE, MOE_REGISTER, "{z}", shape)
#define MOE_ASM_TWO(op, f, shape)                                              \
  MOE_FORMS(op, f, " ", MOE_NO_MIDDLE, MOE_REGISTER, "{z}", shape)
#define MOE_ASM_THREE_I(op, f, shape)                                          \
  MOE_FORMS(op, f, " $0x55, ", MOE_MIDDLE, MOE_REGISTER, "{z}", shape)
#define MOE_ASM_TWO_I(op, f, shape)                                            \
  MOE_FORMS(op, f, " $0x55, ", MOE_NO_MIDDLE, MOE_REGISTER, "{z}", shape)
#define MOE_ASM_MASK(op, f, shape)                                             \
  MOE_FORMS(op, f, " ", MOE_MIDDLE, MOE_K5, "", shape)
#define MOE_ASM_MASK_I(op, f, shape)                                           \
  MOE_FORMS(op, f, " $0x55, ", MOE_MIDDLE, MOE_K5, "", shape)
#define MOE_FLAGS_THREE 0
#define MOE_FLAGS_TWO 0
#define MOE_FLAGS_THREE_I IMMEDIATE
#define MOE_FLAGS_TWO_I IMMEDIATE
#define MOE_FLAGS_MASK TO_MASK
#define MOE_FLAGS_MASK_I (TO_MASK | IMMEDIATE)

#define MOE_CASE_TEXT(kind, name, flags, shape, from, to, ...)                 \
  MOE_ASM_##kind(name, MOE_STRING(flags), shape)
#define MOE_CASE_ROW(kind, name, flags, shape, from, to, ...)                  \
  {name,                                                                       \
   (flags) | MOE_FLAGS_##kind,                                                 \
   shape,                                                                      \
   sizeof(from),                                                               \
   sizeof(to),                                                                 \
   std::is_floating_point_v<to>,                                               \
   [](const Operands &operands, size_t i, void *result) {                      \
     [[maybe_unused]] const from *a = static_cast<const from *>(operands.a);   \
     [[maybe_unused]] const from *b = static_cast<const from *>(operands.b);   \
     [[maybe_unused]] const to *old = static_cast<const to *>(operands.old);   \
     [[maybe_unused]] const unsigned imm = operands.immediate;                 \
     [[maybe_unused]] const size_t n = operands.count;                         \
     [[maybe_unused]] const size_t length = operands.length;                   \
     to element = to(__VA_ARGS__);                                             \
     std::memcpy(result, &element, sizeof(to));                                \
   }},

// Defines a test of all cases. LIST(X) lists them as X(kind, "mnemonic", forms,
// shape, element type of the sources, of the destination, an expression for
// element i of n, which uses a, b, old, imm, length).
#define MOE_VECTOR_CASES(suite, LIST)                                          \
  asm(".pushsection .rodata\n.balign 16\n" #suite                              \
      "Forms:\n" LIST(MOE_CASE_TEXT) ".balign 16\n.popsection\n");             \
  extern "C" const moek::test::Code suite##Forms[];                            \
  TEST(suite, AsTheManualSays) {                                               \
    const VectorCase cases[] = {LIST(MOE_CASE_ROW)};                           \
    for (size_t i = 0; i < std::size(cases); ++i)                              \
      checkCase(cases[i], suite##Forms + i * kForms);                          \
  }                                                                            \
  static_assert(true)

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_VECTORTEST_H
