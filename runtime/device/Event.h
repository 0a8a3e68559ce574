//===- Event.h - A counter that threads wait on -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_EVENT_H
#define MOE_RUNTIME_DEVICE_EVENT_H

#include <atomic>
#include <cstdint>

namespace moert {

/// What a spinning thread does between two looks.
void pauseBriefly();
/// Pauses that a wait begins with. One takes 40 cycles (Zen) to 140 (Skylake),
/// so that the spin lasts 50 to 100 microseconds: longer than the gap between
/// two instructions of a token, shorter than a scheduler's time slice.
inline constexpr int kPauses = 2000;

/// A counter whose changes threads wait for: first spinning, then on a futex.
class Event {
public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// Increments the counter and wakes all waiters. Costs no system call when
  /// none of them sleeps.
  void advance();

  /// Returns once the counter differs from `seen`; what the advancing thread
  /// wrote before is then visible.
  void waitWhile(uint32_t seen);

private:
  std::atomic<uint32_t> value_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_EVENT_H
