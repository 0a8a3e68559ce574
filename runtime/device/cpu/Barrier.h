//===- Barrier.h - Where all workers meet -----------------------*- C++ -*-===//
//
// A sense-reversing barrier: the last worker of a team to arrive turns the
// generation, the others watch it. They spin for a bounded time, because
// most waits inside a token take microseconds, and then sleep on a futex, so
// that a team larger than the free cores still makes progress.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_BARRIER_H
#define MOE_RUNTIME_DEVICE_CPU_BARRIER_H

#include "runtime/device/Event.h"

#include <cstdint>

namespace moert {

class Barrier {
public:
  explicit Barrier(int32_t team) : team_(team) {}

  /// How many will arrive from now on. For whoever starts the team: nobody is
  /// about to arrive, though some may not have left yet.
  void setTeam(int32_t team) { team_ = team; }

  /// Returns when all `team` workers have arrived; what they wrote before is
  /// then visible to all. The last one to arrive calls `atMeeting` while the
  /// others wait.
  template <class F> void arriveAndWait(F atMeeting) {
    uint32_t generation = generation_.value();
    // Read before arriving: once all have, the next team may be another.
    int32_t team = team_;
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != team) {
      generation_.waitWhile(generation);
      return;
    }
    atMeeting();
    arrived_.store(0, std::memory_order_relaxed);
    generation_.advance();
  }
  void arriveAndWait() {
    arriveAndWait([] {});
  }

private:
  int32_t team_;
  alignas(64) std::atomic<int32_t> arrived_ = 0;
  alignas(64) Event generation_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_BARRIER_H
