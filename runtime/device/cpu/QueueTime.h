//===- QueueTime.h - How long a thread waited for a CPU ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_QUEUETIME_H
#define MOE_RUNTIME_DEVICE_CPU_QUEUETIME_H

#include <atomic>

namespace moert {

/// Measures how long a thread could have run while other threads had its CPU,
/// as counted by the scheduler. Follows one thread; any thread may read it.
class QueueTime {
public:
  QueueTime() = default;
  ~QueueTime();
  QueueTime(const QueueTime &) = delete;
  QueueTime &operator=(const QueueTime &) = delete;

  /// Follows the calling thread from now on, unless it already does.
  void followThisThread();

  /// Returns the waiting time in seconds since that thread began, or 0 if none
  /// is followed or the system does not report it. Takes a few microseconds.
  double seconds() const;

private:
  /// The thread's file in /proc, which may be read after other threads open
  /// theirs.
  std::atomic<int> file_ = -1;
  int thread_ = 0;
};

/// Tells how many CPUs of the machine have nothing to do.
class FreeCpus {
public:
  FreeCpus();
  ~FreeCpus();
  FreeCpus(const FreeCpus &) = delete;
  FreeCpus &operator=(const FreeCpus &) = delete;

  /// Returns the number of CPUs minus that of threads that run or could run at
  /// this moment; 0 if the system does not say. Takes a few microseconds.
  double count() const;

private:
  int file_; ///< Descriptor of /proc/loadavg, or -1.
  int cpus_;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_QUEUETIME_H
