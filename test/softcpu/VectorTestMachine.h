//===- VectorTestMachine.h - One instruction at a time ----------*- C++ -*-===//

#ifndef MOE_TEST_SOFTCPU_VECTORTESTMACHINE_H
#define MOE_TEST_SOFTCPU_VECTORTESTMACHINE_H

#include "test/softcpu/VectorInstruction.h"

#include <cstring>
#include <random>
#include <vector>

namespace moek::test {

/// An assembled instruction; they lie 16 bytes apart.
struct Code {
  uint8_t bytes[16];
};

/// Memory behind which an access faults.
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

/// Some of them numbers with few bits, some what is special as a number.
void randomise(std::mt19937 &random, void *bytes, size_t count);
Registers randomRegisters(std::mt19937 &random);

/// How many bytes the instruction is long; 0 if it is none.
size_t lengthOf(const Code &code);

/// `code` in software. Not known: a test failure, and `before`.
Registers execute(const Code &code, const Registers &before);

enum class Native { Avx2, Avx512 };
/// `code` on this CPU. It may use vectors, without Avx512 of 32 bytes, mask
/// registers, rax, rcx, rdx, rbx and the flags.
Registers executeNatively(const Code &code, const Registers &before,
                          Native native);

/// `code` in software and, if this CPU can, natively: the same registers, and
/// the same memory if any is given. `needsBf16`: beyond Isa::Avx512. See
/// expectSame for `nanBytes`.
Registers executeBoth(const Code &code, const Registers &before,
                      GuardedMemory *memory = nullptr, bool needsBf16 = false,
                      size_t nanBytes = 0);

/// Of a number of 4 or 8 bytes.
bool isNan(const void *number, size_t bytes);

/// What the running test has reported so far.
int failureCount();

/// Without the flags that are no arithmetic ones. In vectors of numbers of
/// `nanBytes` one NaN is as good as another; 0: of nothing.
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
