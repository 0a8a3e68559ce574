//===- StepEvents.h - What queues of one step wait for ----------*- C++ -*-===//
//
// The events of a phase: each is signalled once in every step, by the last
// worker that ends the instruction it belongs to, and waited for by others,
// first spinning, then on a futex.
//
// A step that is given up signals them all, so that nobody waits for ever; who
// waited asks stopped() what it was.
//
// A GPU takes part without a thread of the host: what it executes is fixed once
// (a captured graph), and only memory tells it and is told by it. For that each
// event has a flag, a word that is 0 before the event and not 0 after it, and
// all have one page (Board) that a GPU may be given an address of:
//
//   queue of a CPU       arrive()/wait(): counter, futex, and the flag is set
//   queue of a GPU       a node, or the block of a launch that ends last,
//                        writes 1 to the flag; a node, or a launch of one
//                        block, waits until it is not 0
//   CPU waits for a GPU  nobody advances the counter: wait() looks at the flag,
//                        spinning, then between short sleeps
//   host, between steps  sets all flags to 0; constants in a graph suffice then
//   given up             all flags are set, and the board's step has no tokens:
//                        a GPU that has waited reads it behind its wait and
//                        finds nothing to do in what is left
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_STEPEVENTS_H
#define MOE_RUNTIME_DEVICE_STEPEVENTS_H

#include "runtime/device/Event.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace moert {

class StepEvents {
public:
  explicit StepEvents(uint32_t count);
  ~StepEvents();
  StepEvents(const StepEvents &) = delete;
  StepEvents &operator=(const StepEvents &) = delete;

  uint32_t count() const { return count_; }

  /// What a GPU reads and writes, in whole pages of its own.
  static constexpr size_t kPage = 4096;
  /// Of moek::cuda::Step the first words.
  struct Head {
    std::atomic<int32_t> tokens = 0, sequences = 0;
  };
  Head &head() { return *reinterpret_cast<Head *>(board_); }
  std::byte *board() { return board_; }
  size_t boardBytes() const { return boardBytes_; }
  /// Of an event's flag in the board.
  static constexpr size_t flagOffset(uint32_t event) {
    return kLine * (1 + size_t(event));
  }

  /// From now on nobody but a GPU signals the event, or the host does without
  /// arrive().
  void signalledByFlag(uint32_t event) { byFlag_[event] = true; }

  /// Before any queue begins a step of so many rows, when all have ended the
  /// one before.
  void beginStep(int32_t tokens = 0, int32_t sequences = 0);

  /// Of one of `team` workers, which has ended an instruction; the last one to
  /// come signals its event.
  void arrive(uint32_t event, int32_t team) {
    Signal &signal = events_[event];
    if (signal.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != team)
      return;
    signal.arrived.store(0, std::memory_order_relaxed);
    set(event);
  }

  /// Returns when the event is there, or the step was given up; what the
  /// signalling workers wrote before is then visible.
  void wait(uint32_t event) {
    if (byFlag_[event])
      waitForFlag(event);
    else
      events_[event].step.waitWhile(step_ - 1);
  }

  /// Gives the step up.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

private:
  static constexpr size_t kLine = 64;
  using Flag = std::atomic<uint32_t>;

  /// On cache lines of its own.
  struct alignas(kLine) Signal {
    std::atomic<int32_t> arrived = 0;
    std::atomic<uint32_t> last = 0; ///< The step that it was signalled in.
    Event step;                     ///< Advances once a step.
  };

  Flag &flag(uint32_t event) {
    return *reinterpret_cast<Flag *>(board_ + flagOffset(event));
  }
  void waitForFlag(uint32_t event);
  void set(uint32_t event) {
    flag(event).store(1, std::memory_order_release);
    Signal &signal = events_[event];
    if (signal.last.exchange(step_, std::memory_order_acq_rel) != step_)
      signal.step.advance();
  }

  const uint32_t count_;
  std::unique_ptr<Signal[]> events_;
  std::vector<bool> byFlag_; ///< Changes before the first step only.
  size_t boardBytes_;
  std::byte *board_;  ///< Head, and a line for each flag.
  uint32_t step_ = 0; ///< Changes between steps only.
  std::atomic<bool> stopped_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_STEPEVENTS_H
