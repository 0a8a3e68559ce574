//===- KernelRates.h - Measures the speed of shipped kernels ----*- C++ -*-===//
//
// The cost model plans with what kernels achieve, not with peak rates. Here the
// kernels run on all cores, called as in plans, for a few sizes each.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_KERNELRATES_H
#define MOE_RUNTIME_DEVICE_CPU_KERNELRATES_H

#include "kernels/KernelRate.h"
#include "runtime/base/Status.h"
#include "runtime/device/cpu/Calibrate.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct KernelRates {
  std::vector<KernelRate> kernels;
  StepOverheads overheads;
  Disturbance disturbance = {};
};

struct KernelRateOptions {
  /// Minimum duration for each size of each kernel; a single call may take
  /// longer.
  double seconds = 0.004;
  /// Duration of a round after which each remaining size gets only one call: if
  /// other programs keep all cores busy, every barrier waits for them.
  double mostSeconds = 20;
  /// Measure fewer sizes, for a compilation that waits for the result.
  bool brief = false;
  /// Measure only kernels whose names contain this; empty: all kernels.
  std::string only = {};
  /// Whether plans map their weights in large pages.
  bool largePages = false;
  /// Bytes of weights that do not fit caches; 0 as
  /// CalibrationOptions::readBytes.
  uint64_t memoryBytes = 0;
};

/// Measures, in one round, all kernels that a device with this CPU's best
/// instruction set would use. `progress` receives their names.
StatusOr<KernelRates>
measureKernels(int threads, const KernelRateOptions &options = {},
               const std::function<void(std::string_view)> &progress = {});

/// Keeps the better rate at each point, because other programs can only slow a
/// kernel down. `into` may be empty.
void keepBest(KernelRates &into, const KernelRates &other);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_KERNELRATES_H
