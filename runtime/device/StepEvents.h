//===- StepEvents.h - Events between the queues of a step -------*- C++ -*-===//
//
// The events of a phase. In every step, each event is signalled once, by the
// last worker that finishes the event's instruction. Other queues wait for it,
// first by spinning, then on a futex.
//
// Abandoning a step signals all events, so that no queue waits for ever; a
// waiter calls stopped() to find out.
//
// A GPU takes part without a host thread: it executes a captured graph, which
// can communicate only through memory. Each event therefore has a flag, a word
// that is 0 before the event and nonzero after it. The flags of all events lie
// in one block of memory, the board, whose address a GPU can be given:
//
//   queue of a CPU       arrive() and wait() use a counter and a futex;
//                        arrive() also sets the flag
//   queue of a GPU       a graph node, or the last block of a launch, sets the
//                        flag to 1; a graph node, or a launch of one block,
//                        waits until the flag is not 0
//   CPU waits for a GPU  no thread advances the counter: wait() polls the flag,
//                        first by spinning, then between short sleeps; a
//                        wait without end abandons the step (patience)
//   between steps        the host sets all flags to 0, so the graph may contain
//                        constants only
//   abandoned step       all flags are set, and the board says that the step
//                        has no tokens: a GPU reads this after its wait and
//                        finds nothing to do in the rest of the graph
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_STEPEVENTS_H
#define MOE_RUNTIME_DEVICE_STEPEVENTS_H

#include "runtime/device/Event.h"

#include <atomic>
#include <chrono>
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

  /// The board: memory that a GPU reads and writes, in whole pages.
  static constexpr size_t kPage = 4096;
  struct Head {
    /// Must be the first members, as in cuda::Step.
    std::atomic<int32_t> tokens = 0, sequences = 0;
    /// Set by a launch that waited for longer than the patience.
    std::atomic<uint32_t> late = 0;
  };
  /// Offset of Head::late in the board.
  static constexpr size_t kLateOffset = 8;
  Head &head() { return *reinterpret_cast<Head *>(board_); }
  std::byte *board() { return board_; }
  size_t boardBytes() const { return boardBytes_; }
  /// Offset of an event's flag in the board.
  static constexpr size_t flagOffset(uint32_t event) {
    return kLine * (1 + size_t(event));
  }

  /// Declares that from now on only the flag of the event is set, by a GPU or
  /// by the host, and arrive() is not called for it.
  void setSignalledByFlag(uint32_t event) { byFlag_[event] = true; }

  /// Prepares a step with this number of tokens and sequences. All queues must
  /// have ended the previous step, and none may have begun this one.
  void beginStep(int32_t tokens = 0, int32_t sequences = 0);

  /// Called by each of `team` workers when it has finished an instruction. The
  /// last call signals the event.
  void arrive(uint32_t event, int32_t team) {
    Signal &signal = events_[event];
    if (signal.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != team)
      return;
    signal.arrived.store(0, std::memory_order_relaxed);
    set(event);
  }

  /// Returns when the event was signalled or the step was abandoned. Writes
  /// that the signalling workers made before are then visible.
  void wait(uint32_t event) {
    if (byFlag_[event])
      waitForFlag(event);
    else
      events_[event].step.waitWhile(step_ - 1);
  }

  /// Abandons the step.
  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  /// The longest wait for a GPU, and of a GPU for others, within a step. Longer
  /// than any device takes for its part: who waits for longer waits for what
  /// will not come, and abandons the step.
  std::chrono::nanoseconds patience() const { return patience_; }
  /// Called before the first step.
  void setPatience(std::chrono::nanoseconds patience) { patience_ = patience; }
  /// Abandons the step because somebody waited for longer than that.
  void giveUp() {
    head().late.store(1, std::memory_order_relaxed);
    stop();
  }
  /// Returns whether it was abandoned for this reason.
  bool isLate() { return head().late.load(std::memory_order_acquire) != 0; }

private:
  static constexpr size_t kLine = 64;
  using Flag = std::atomic<uint32_t>;

  /// Each signal has cache lines of its own.
  struct alignas(kLine) Signal {
    std::atomic<int32_t> arrived = 0;
    /// The last step in which it was signalled.
    std::atomic<uint32_t> last = 0;
    Event step; ///< Advances once per step.
    /// Nanoseconds that a thread waited for the flag in an earlier step.
    std::atomic<int64_t> waited = 0;
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
  /// One for each flag; changed only before the first step.
  std::vector<bool> byFlag_;
  std::chrono::nanoseconds patience_ = std::chrono::minutes(2);
  size_t boardBytes_;
  std::byte *board_;  ///< The head, and a cache line for each flag.
  uint32_t step_ = 0; ///< Changed only between steps.
  std::atomic<bool> stopped_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_STEPEVENTS_H
