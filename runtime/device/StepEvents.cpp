#include "runtime/device/StepEvents.h"

#include <chrono>
#include <new>
#include <sys/prctl.h>
#include <thread>

namespace moert {

namespace {
using Clock = std::chrono::steady_clock;

/// Sleep between polls of a longer wait, as for a GPU's part of a prompt.
constexpr std::chrono::microseconds kSleep(20);
/// The longest that a thread polls without sleeping. A GPU's part of a layer of
/// a decoded token takes less.
constexpr std::chrono::microseconds kLongestSpin(500);
/// Pauses between two looks at the clock.
constexpr int kPausesPerLook = 64;

/// Lets this thread's sleeps end when they should while it lives. Linux
/// otherwise adds up to 50 us to each, to wake several threads at a time.
class PromptSleeps {
public:
  PromptSleeps() : before_(::prctl(PR_GET_TIMERSLACK)) {
    ::prctl(PR_SET_TIMERSLACK, kSlackNanoseconds);
  }
  ~PromptSleeps() {
    if (before_ > 0)
      ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(before_));
  }
  PromptSleeps(const PromptSleeps &) = delete;

private:
  static constexpr unsigned long kSlackNanoseconds = 1000;
  int before_;
};
} // namespace

StepEvents::StepEvents(uint32_t count)
    : count_(count), events_(new Signal[count]), byFlag_(count),
      boardBytes_((flagOffset(count) + kPage - 1) / kPage * kPage),
      board_(static_cast<std::byte *>(
          ::operator new(boardBytes_, std::align_val_t(kPage)))) {
  static_assert(offsetof(Head, late) == kLateOffset);
  new (board_) Head;
  for (uint32_t i = 0; i < count; ++i)
    new (board_ + flagOffset(i)) Flag(0);
}

StepEvents::~StepEvents() {
  ::operator delete(board_, std::align_val_t(kPage));
}

void StepEvents::beginStep(int32_t tokens, int32_t sequences) {
  ++step_;
  head().tokens.store(tokens, std::memory_order_relaxed);
  head().sequences.store(sequences, std::memory_order_relaxed);
  head().late.store(0, std::memory_order_relaxed);
  for (uint32_t i = 0; i < count_; ++i)
    flag(i).store(0, std::memory_order_release);
  if (!stopped_.exchange(false, std::memory_order_relaxed))
    return;
  for (uint32_t i = 0; i < count_; ++i)
    events_[i].arrived.store(0, std::memory_order_relaxed);
}

void StepEvents::waitForFlag(uint32_t event) {
  auto isSet = [&] { return flag(event).load(std::memory_order_acquire) != 0; };
  if (isSet())
    return;
  const Clock::time_point begin = Clock::now();
  // A decoded token's waits are short and much like those of the one before:
  // whoever sleeps wakes too late, and the slowest worker holds up the others.
  // A wait that was long the last time is not worth a core.
  std::atomic<int64_t> &last = events_[event].waited;
  const bool mayBeShort = last.load(std::memory_order_relaxed) <=
                          std::chrono::nanoseconds(kLongestSpin).count();
  const Clock::time_point sleeps =
      begin + (mayBeShort ? 2 * kLongestSpin : kSleep);
  bool isThere = false;
  while (!isThere && Clock::now() < sleeps)
    for (int i = 0; i < kPausesPerLook && !(isThere = isSet()); ++i)
      pauseBriefly();
  if (!isThere) {
    PromptSleeps prompt;
    while (!isSet()) {
      std::this_thread::sleep_for(kSleep);
      if (Clock::now() - begin > patience_)
        giveUp(); // giveUp() sets the flag.
    }
  }
  last.store((Clock::now() - begin).count(), std::memory_order_relaxed);
}

void StepEvents::stop() {
  stopped_.store(true, std::memory_order_release);
  // Written before the flags, so that a GPU that passes a flag sees no tokens.
  head().tokens.store(0, std::memory_order_release);
  head().sequences.store(0, std::memory_order_release);
  for (uint32_t i = 0; i < count_; ++i)
    set(i);
}

} // namespace moert
