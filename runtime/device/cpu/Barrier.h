//===- Barrier.h - Barrier for the workers of a thread pool -----*- C++ -*-===//
//
// A sense-reversing barrier: the last worker to arrive advances the generation,
// which the others watch. They spin for a bounded time, because most waits
// within a token take microseconds, and then sleep on a futex, so that a pool
// with more threads than free cores still makes progress.
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

  /// Sets the number of workers that will arrive from now on. No worker may be
  /// about to arrive, but some may not yet have returned from the last barrier.
  void setTeam(int32_t team) { team_ = team; }

  /// Returns when all `team` workers have arrived; their earlier writes are
  /// then visible to all. The last one to arrive calls `atLastArrival` while
  /// the others wait.
  template <class F> void arriveAndWait(F atLastArrival) {
    uint32_t generation = generation_.value();
    // The team is read before arriving: after the last arrival it may be
    // changed.
    int32_t team = team_;
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != team) {
      generation_.waitWhile(generation);
      return;
    }
    atLastArrival();
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
