//===- Event.h - A counter that threads wait on -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_EVENT_H
#define MOE_RUNTIME_DEVICE_EVENT_H

#include <atomic>
#include <chrono>
#include <cstdint>

namespace moert {

/// Executes the CPU's pause instruction, for use in spin loops.
void pauseBriefly();
/// Number of pauses before a waiting thread sleeps. A pause takes 40 cycles
/// (Zen) to 140 (Skylake), so the spin lasts 50 to 100 microseconds: longer
/// than the gap between two instructions of a decoded token, shorter than a
/// scheduler time slice.
inline constexpr int kPauses = 2000;

/// A counter whose changes threads wait for, first by spinning, then on a
/// futex.
class Event {
public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// Increments the counter and wakes all waiters. No system call is made if
  /// none of them sleeps.
  void advance();

  /// Returns once the counter differs from `seen`. Writes by the advancing
  /// thread before advance() are then visible.
  void waitWhile(uint32_t seen);
  /// Waits in the same way, but returns false if the counter is still `seen`
  /// after `longest`.
  bool waitWhile(uint32_t seen, std::chrono::nanoseconds longest);

private:
  std::atomic<uint32_t> value_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_EVENT_H
