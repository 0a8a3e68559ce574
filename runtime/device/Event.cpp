#include "runtime/device/Event.h"

#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace moert {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
              "a futex is the atomic itself");

void pauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void Event::advance() {
  // Sequentially consistent with the sleeper's increment below: either this
  // load sees the sleeper, or the sleeper's futex call sees the new value.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0)
    ::syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
              0);
}

void Event::waitWhile(uint32_t seen) {
  for (int i = 0; i < kPauses; ++i) {
    if (value() != seen)
      return;
    pauseBriefly();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // A signal or a stale wake-up returns early; the loop asks again.
  while (value_.load(std::memory_order_seq_cst) == seen)
    ::syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr,
              0);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace moert
