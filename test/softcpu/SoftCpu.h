//===- SoftCpu.h - A software CPU with AVX-512 and AMX ----------*- C++ -*-===//
//
// Runs a function of this program as a CPU with AVX-512 and AMX would,
// instruction by instruction: the machine code that ships. Instructions that
// this CPU supports run natively (NativeRun); those with an EVEX prefix, a mask
// register or a tile are executed in software. The function has its own stack.
// Functions outside of this program (memcpy, ...) are called natively.
//
// Needs AVX2, FMA and F16C, and writable and executable memory.
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
  /// Whether software CPUs can run on this machine.
  static bool isAvailable();

  /// Calls the function at `entry` in this thread, with integers and pointers
  /// as arguments. It must not throw. Returns its rax.
  static uint64_t call(uint64_t entry, std::span<const uint64_t> args);

  template <class... Args>
  static void call(void (*function)(Args...), Args... args) {
    const uint64_t words[] = {word<Args>(args)...};
    call(reinterpret_cast<uint64_t>(function), words);
  }

  /// Returns how many instructions the calls of this thread have executed so
  /// far, without those in functions of other libraries.
  static uint64_t executed();
  /// Returns the number of those that work on vectors and that the CPU did not
  /// execute itself: with an EVEX prefix, on mask registers, or of AVX-VNNI.
  static uint64_t executedInSoftware();

  /// Makes calls of `alias` in software go to `target`.
  static void redirect(uint64_t alias, uint64_t target);

private:
  /// Returns an argument as the calling convention passes it.
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
