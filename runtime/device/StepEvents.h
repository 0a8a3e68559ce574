//===- StepEvents.h - What queues of one step wait for ----------*- C++ -*-===//
//
// The events of a phase: each is signalled once in every step, by the last
// worker that ends the instruction it belongs to, and waited for by others,
// first spinning, then on a futex.
//
// A step that is given up signals them all, so that nobody waits for ever; who
// waited asks stopped() what it was.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_STEPEVENTS_H
#define MOE_RUNTIME_DEVICE_STEPEVENTS_H

#include "runtime/device/cpu/Event.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace moert {

class StepEvents {
public:
  explicit StepEvents(uint32_t count)
      : count_(count), events_(new Signal[count]) {}

  uint32_t count() const { return count_; }

  /// Before any queue begins a step, when all have ended the one before.
  void beginStep() {
    ++step_;
    if (!stopped_.exchange(false, std::memory_order_relaxed))
      return;
    for (uint32_t i = 0; i < count_; ++i)
      events_[i].arrived.store(0, std::memory_order_relaxed);
  }

  /// Of one of `team` workers, which has ended an instruction; the last one to
  /// come signals its event.
  void arrive(uint32_t event, int32_t team) {
    Signal &signal = events_[event];
    if (signal.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != team)
      return;
    signal.arrived.store(0, std::memory_order_relaxed);
    set(signal);
  }

  /// Returns when the event is there, or the step was given up; what the
  /// signalling workers wrote before is then visible.
  void wait(uint32_t event) { events_[event].step.waitWhile(step_ - 1); }

  /// Gives the step up.
  void stop() {
    stopped_.store(true, std::memory_order_release);
    for (uint32_t i = 0; i < count_; ++i)
      set(events_[i]);
  }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

private:
  /// On cache lines of its own.
  struct alignas(64) Signal {
    std::atomic<int32_t> arrived = 0;
    std::atomic<uint32_t> last = 0; ///< The step that it was signalled in.
    Event step;                     ///< Advances once a step.
  };

  void set(Signal &signal) {
    if (signal.last.exchange(step_, std::memory_order_acq_rel) != step_)
      signal.step.advance();
  }

  const uint32_t count_;
  std::unique_ptr<Signal[]> events_;
  uint32_t step_ = 0; ///< Changes between steps only.
  std::atomic<bool> stopped_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_STEPEVENTS_H
