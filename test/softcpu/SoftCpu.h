//===- SoftCpu.h - AVX-512 and AMX without a CPU that has them --*- C++ -*-===//
//
// Runs a function of this program as a CPU with AVX-512 and AMX would: the
// machine code that ships, instruction by instruction. What this CPU executes
// itself it does (NativeRun); what has an EVEX prefix, a mask register or a
// tile is executed in software. The function has a stack of its own. Functions
// outside this program (memcpy, ...) are called as they are.
//
// Needs AVX2, FMA and F16C, and memory that is written and run.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTCPU_SOFTCPU_H
#define MOE_TEST_SOFTCPU_SOFTCPU_H

#include <cstdint>
#include <span>
#include <type_traits>

namespace moek::test {

class SoftCpu {
public:
  /// Whether software CPUs run on this machine.
  static bool isAvailable();

  /// Calls the function at `entry` in this thread with integers and pointers
  /// for arguments. It must not throw. Returns what it leaves in rax.
  static uint64_t call(uint64_t entry, std::span<const uint64_t> args);

  template <class... Args>
  static void call(void (*function)(Args...), Args... args) {
    const uint64_t words[] = {word<Args>(args)...};
    call(reinterpret_cast<uint64_t>(function), words);
  }

  /// How many instructions this thread's calls have executed so far. Functions
  /// of other libraries do not count.
  static uint64_t executed();

  /// Makes calls of `alias` in software calls of `target`.
  static void redirect(uint64_t alias, uint64_t target);

private:
  /// An argument as the calling convention passes it.
  template <class T> static uint64_t word(std::remove_reference_t<T> &value) {
    if constexpr (std::is_reference_v<T>)
      return reinterpret_cast<uint64_t>(&value);
    else if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<uint64_t>(value);
    else
      return uint64_t(int64_t(value));
  }
};

} // namespace moek::test

#endif // MOE_TEST_SOFTCPU_SOFTCPU_H
