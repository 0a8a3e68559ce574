//===- Calibrate.h - Measures the peak rates of this CPU --------*- C++ -*-===//
//
// The cost model plans with these limits, and reports give fractions of them.
// Decode reads every active weight once, so read bandwidth bounds it; multiply
// rates bound prefill.
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
  double spread = 0; ///< Fraction of the best rate that was not sustained.
  /// Average number of the pool's threads that could have run but had no CPU.
  double queued = 0;

  /// Returns whether the best rate is what the machine can do. A busy process
  /// on one of its cores halves the sustained rate if runs are shorter than the
  /// scheduler's time slices. Longer runs are all equally slow, but then half a
  /// thread waits for a CPU. On shared machines that seem idle, rates spread by
  /// a fifth.
  bool isQuiet() const { return spread <= 0.3 && queued <= 0.1; }
  /// Returns text such as "rates spread by 45 %, and 0.5 threads had no CPU".
  std::string text() const;
};
Disturbance worse(const Disturbance &a, const Disturbance &b);

/// Bytes or operations per second, from many short runs.
struct Rate {
  /// Rate of the fastest run, which is what the machine can do: other programs
  /// can only slow a run down.
  double best = 0;
  /// Rate over all runs, which includes slowdown by other programs.
  double sustained = 0;
  double queued = 0; ///< Same meaning as in Disturbance.

  Disturbance disturbance() const {
    return {best > 0 ? 1 - sustained / best : 0, queued};
  }
};

/// Best rates, summed over all threads of the pool.
struct CpuLimits {
  int threads = 0;
  double readBytesPerSecond = 0;
  /// A multiply and an add count as two operations.
  double int8OpsPerSecond = 0;
  double floatOpsPerSecond = 0;
  double bf16OpsPerSecond = 0;  ///< 0 without BF16 dot products.
  Disturbance disturbance = {}; ///< The worst disturbance of all measurements.
};

using moek::bestHostIsa;

struct CalibrationOptions {
  /// Each measurement ends once it has taken so long, waits included, and has
  /// done three runs.
  double seconds = 0.3;
  moek::Isa isa = bestHostIsa();
  /// Bytes that all threads together read in a run. 0: four times the
  /// last-level cache, at least 64 MiB per thread, at most an eighth of the
  /// memory.
  uint64_t readBytes = 0;
  /// Iterations of a peak loop: about a millisecond.
  int64_t loopIterations = 200'000;
};

/// A thread pool with memory that each thread has touched first, so that its
/// part lies on its own memory node.
class Calibrator {
public:
  /// Fails with DoesNotFit if threads or memory are not available.
  static StatusOr<Calibrator> create(int threads,
                                     const CalibrationOptions &options = {});

  Rate readBytesPerSecond();
  /// The rate is 0 if the CPU has no such instruction.
  Rate opsPerSecond(moek::Peak kind);
  /// Measures all limits.
  CpuLimits measure();

private:
  Calibrator() = default;
  /// Measures a rate; `work(worker)` returns the bytes or operations it did.
  template <class Work> Rate rateOf(const Work &work);

  CalibrationOptions options_;
  std::unique_ptr<WorkerPool> pool_;
  HostMemory memory_;
  uint64_t share_ = 0; ///< Bytes of memory_ that each worker uses.
};

/// Measures the read bandwidth of 1, 2 ... `threads` threads. `progress` is
/// called before each measurement with the number of threads.
StatusOr<std::vector<Rate>>
readBandwidthByThreads(int threads, const CalibrationOptions &options = {},
                       const std::function<void(int)> &progress = {});

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_CALIBRATE_H
