//===- KernelRates.h - What shipped kernels do per second -------*- C++ -*-===//
//
// The cost model plans with what kernels do, not with what the machine could:
// here the kernels themselves run, through the drivers that plans call, on all
// cores, for a few sizes each.
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
  /// Of one size of one kernel, at least; a call may take longer.
  double seconds = 0.004;
  /// Of a round, after which each size that is left gets one call: beside
  /// programs that keep all cores busy every meeting waits for them.
  double mostSeconds = 20;
  /// Fewer sizes: what a compile that waits for it has time for.
  bool brief = false;
  /// The part of the kernels' names to measure; all without.
  std::string only = {};
  /// Whether plans map their weights in large pages.
  bool largePages = false;
  /// Bytes of weights "from memory"; 0 as CalibrationOptions::readBytes.
  uint64_t memoryBytes = 0;
};

/// One round over all kernels that a device of this CPU's best instruction set
/// would use. `progress` hears the names.
StatusOr<KernelRates>
measureKernels(int threads, const KernelRateOptions &options = {},
               const std::function<void(std::string_view)> &progress = {});

/// The better of both at each point: others only ever slow a kernel down.
/// `into` may be empty.
void keepBest(KernelRates &into, const KernelRates &other);

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_KERNELRATES_H
