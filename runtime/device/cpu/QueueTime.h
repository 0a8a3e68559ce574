//===- QueueTime.h - How long a thread waited for a CPU ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_QUEUETIME_H
#define MOE_RUNTIME_DEVICE_CPU_QUEUETIME_H

#include <atomic>

namespace moert {

/// The time that a thread could have run but other threads had its CPU, as the
/// scheduler counts it. Follows one thread; any thread may read it.
class QueueTime {
public:
  QueueTime() = default;
  ~QueueTime();
  QueueTime(const QueueTime &) = delete;
  QueueTime &operator=(const QueueTime &) = delete;

  /// Follows the calling thread from now on, if it did not already.
  void followThisThread();

  /// Seconds since that thread began; 0 while none is followed, and where the
  /// system does not tell. Some microseconds.
  double seconds() const;

private:
  /// The thread's file in /proc, which stays its own when others open theirs.
  std::atomic<int> file_ = -1;
  int thread_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_QUEUETIME_H
