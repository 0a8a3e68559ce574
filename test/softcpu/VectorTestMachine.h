//===- VectorTestMachine.h - Executes single instructions -------*- C++ -*-===//

#ifndef MOE_TEST_SOFTCPU_VECTORTESTMACHINE_H
#define MOE_TEST_SOFTCPU_VECTORTESTMACHINE_H

#include "test/softcpu/VectorInstruction.h"

#include <cstring>
#include <random>
#include <vector>

namespace moek::test {

/// An assembled instruction; instructions are 16 bytes apart.
struct Code {
  uint8_t bytes[16];
};

/// Memory followed by an inaccessible page.
class GuardedMemory {
public:
  static constexpr size_t kBytes = 4096;

  GuardedMemory();
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  std::byte *end() const { return begin_ + kBytes; }
  std::vector<std::byte> copy() const { return {begin_, begin_ + kBytes}; }
  void assign(const std::vector<std::byte> &bytes) {
    std::memcpy(begin_, bytes.data(), kBytes);
  }

private:
  std::byte *begin_;
};

/// Fills with random bytes, some numbers with few bits and some special values.
void randomise(std::mt19937 &random, void *bytes, size_t count);
Registers randomRegisters(std::mt19937 &random);

/// Returns the length of the instruction in bytes; 0 if it is none.
size_t lengthOf(const Code &code);

/// Executes `code` in software. If it is not supported, the test fails and
/// `before` is returned.
Registers execute(const Code &code, const Registers &before);

enum class Native { Avx2, Avx512 };
/// Executes `code` on this CPU. It may use vectors (32 bytes long if not
/// Avx512), mask registers, rax, rcx, rdx, rbx and the flags.
Registers executeNatively(const Code &code, const Registers &before,
                          Native native);

/// Instruction sets that are needed in addition to Isa::Avx512.
enum class Beyond { Nothing, Bf16, AvxVnni };
/// Executes `code` in software and, if this CPU can, natively, and expects the
/// same registers and, if given, the same memory. See expectSame for
/// `nanBytes`.
Registers executeBoth(const Code &code, const Registers &before,
                      GuardedMemory *memory = nullptr,
                      Beyond beyond = Beyond::Nothing, size_t nanBytes = 0);

/// Whether a number of 4 or 8 bytes is NaN.
bool isNan(const void *number, size_t bytes);

/// Returns how many failures the running test has reported.
int failureCount();

/// Compares registers, except for flags that are not arithmetic. In vectors of
/// numbers of `nanBytes` bytes, any NaN equals any other; 0: bytes must be
/// equal.
void expectSame(const Registers &actual, const Registers &expected,
                size_t nanBytes = 0);

template <class T> T elementAt(const void *from, size_t i) {
  T element;
  std::memcpy(&element, static_cast<const std::byte *>(from) + i * sizeof(T),
              sizeof(T));
  return element;
}

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_VECTORTESTMACHINE_H
