//===- Calibrate.h - What this machine's CPU does at best -------*- C++ -*-===//
//
// Measured limits that the cost model plans with and that reports divide by:
// decode reads every active weight once and is bound by read bandwidth, prefill
// by multiply rates.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_CALIBRATE_H
#define MOE_RUNTIME_DEVICE_CPU_CALIBRATE_H

#include "kernels/Peak.h"
#include "runtime/device/HostMemory.h"
#include "runtime/device/cpu/WorkerPool.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace moert {

/// How much other programs disturbed a measurement.
struct Disturbance {
  double spread = 0; ///< The part of the best rate that was not sustained.
  /// Threads of the team that could have run but had no CPU, on average.
  double queued = 0;

  /// Whether the best rate is what the machine can do. A busy process on one of
  /// its cores halves what is sustained where runs are shorter than its slices
  /// of CPU time; longer runs are all as slow, but half a thread queues. Shared
  /// machines that call themselves idle spread by a fifth.
  bool isQuiet() const { return spread <= 0.3 && queued <= 0.1; }
  /// "rates spread by 45 %, and 0.5 threads had no CPU"
  std::string text() const;
};
Disturbance worse(const Disturbance &a, const Disturbance &b);

/// Bytes or operations per second, of many short runs.
struct Rate {
  /// Of the fastest run: what the machine can do. Others only ever slow one
  /// down.
  double best = 0;
  /// Of all runs together: what neighbours on a shared machine left just then.
  double sustained = 0;
  double queued = 0; ///< See Disturbance.

  Disturbance disturbance() const {
    return {best > 0 ? 1 - sustained / best : 0, queued};
  }
};

/// Best rates, sums over all threads of a team.
struct CpuLimits {
  int threads = 0;
  double readBytesPerSecond = 0;
  double int8OpsPerSecond = 0; ///< A multiply and an add are two.
  double floatOpsPerSecond = 0;
  double bf16OpsPerSecond = 0;  ///< 0 without BF16 dot products.
  Disturbance disturbance = {}; ///< The worst of all measurements.
};

struct CalibrationOptions {
  double seconds = 0.3; ///< How long each measurement is repeated.
  /// Bytes that the team reads in a run. 0: four times the last-level cache, at
  /// least 64 MiB a thread, at most an eighth of the memory.
  uint64_t readBytes = 0;
  int64_t loopIterations = 200'000; ///< Of a peak loop: about a millisecond.
};

/// The best instruction set of this CPU that the kernels know.
moek::Isa bestHostIsa();

/// A team of threads with memory that each of them has touched first, so that
/// it lies on the thread's own node.
class Calibrator {
public:
  /// Fails with DoesNotFit when threads or memory cannot be had.
  static StatusOr<Calibrator> create(int threads,
                                     const CalibrationOptions &options = {});

  Rate readBytesPerSecond();
  Rate opsPerSecond(moek::Peak kind);
  /// All of them.
  CpuLimits measure();

private:
  Calibrator() = default;
  /// `work(worker)` returns the bytes or operations it did.
  template <class Work> Rate rateOf(const Work &work);

  CalibrationOptions options_;
  moek::Isa isa_ = moek::Isa::Ref;
  std::unique_ptr<WorkerPool> pool_;
  HostMemory memory_;
  uint64_t share_ = 0; ///< Bytes of memory_ per worker.
};

/// Read bandwidth in bytes per second of 1 ... `threads` threads, in order.
/// `progress`, called before each, receives the number of threads.
StatusOr<std::vector<Rate>>
readBandwidthByThreads(int threads, const CalibrationOptions &options = {},
                       const std::function<void(int)> &progress = {});

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_CALIBRATE_H
