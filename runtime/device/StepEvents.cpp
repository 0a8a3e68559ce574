#include "runtime/device/StepEvents.h"

#include <chrono>
#include <new>
#include <thread>

namespace moert {

namespace {
/// Sleep between polls of a longer wait, as for a GPU's part of a prompt.
constexpr std::chrono::microseconds kSleep(20);
} // namespace

StepEvents::StepEvents(uint32_t count)
    : count_(count), events_(new Signal[count]), byFlag_(count),
      boardBytes_((flagOffset(count) + kPage - 1) / kPage * kPage),
      board_(static_cast<std::byte *>(
          ::operator new(boardBytes_, std::align_val_t(kPage)))) {
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
  for (uint32_t i = 0; i < count_; ++i)
    flag(i).store(0, std::memory_order_release);
  if (!stopped_.exchange(false, std::memory_order_relaxed))
    return;
  for (uint32_t i = 0; i < count_; ++i)
    events_[i].arrived.store(0, std::memory_order_relaxed);
}

void StepEvents::waitForFlag(uint32_t event) {
  for (int i = 0; flag(event).load(std::memory_order_acquire) == 0; ++i)
    if (i < kPauses)
      pauseBriefly();
    else
      std::this_thread::sleep_for(kSleep);
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
