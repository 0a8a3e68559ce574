#include "runtime/device/Event.h"

#include <climits>
#include <ctime>
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
  while (!waitWhile(seen, std::chrono::hours(24)))
    ;
}

bool Event::waitWhile(uint32_t seen, std::chrono::nanoseconds longest) {
  for (int i = 0; i < kPauses; ++i) {
    if (value() != seen)
      return true;
    pauseBriefly();
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + longest;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // The futex call may return early, after a signal or a stale wake-up, so the
  // loop checks the value again.
  bool isChanged = false;
  for (std::chrono::nanoseconds left = longest; left.count() > 0;
       left = end - Clock::now()) {
    if ((isChanged = value_.load(std::memory_order_seq_cst) != seen))
      break;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec timeout = {seconds.count(), (left - seconds).count()};
    ::syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr,
              0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return isChanged || value() != seen;
}

} // namespace moert
