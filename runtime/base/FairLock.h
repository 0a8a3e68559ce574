//===- FairLock.h - A lock that threads get in turn -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_FAIRLOCK_H
#define MOE_RUNTIME_BASE_FAIRLOCK_H

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace moert {

/// A lock that threads get in the order in which they asked. A thread that
/// frees a std::mutex and takes it again at once keeps it from all others,
/// which this does not allow. For std::lock_guard.
class FairLock {
public:
  void lock() {
    std::unique_lock lock(mutex_);
    const uint64_t mine = next_++;
    turn_.wait(lock, [&] { return serving_ == mine; });
  }
  void unlock() {
    {
      std::lock_guard lock(mutex_);
      ++serving_;
    }
    turn_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_ = 0, serving_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_FAIRLOCK_H
