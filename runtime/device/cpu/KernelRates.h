//===- KernelRates.h - What shipped kernels do per second -------*- C++ -*-===//
//
// The cost model plans with what kernels do, not with what the machine could:
// here the kernels themselves run, through the drivers that plans call, on all
// cores, for a few sizes each.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CPU_KERNELRATES_H
#define MOE_RUNTIME_DEVICE_CPU_KERNELRATES_H

#include "runtime/base/Status.h"
#include "runtime/device/cpu/Calibrate.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Units of work per second of one kernel on all cores together, at a few
/// sizes. What a unit is goes by the kernel:
///
///   gemm (MOE_GEMM)   a byte of weights as files have them; `at` rows of
///   activations absorb_query      an element of W_UK; `at` tokens attention an
///   operation, two per product of a query and a cached
///                     row; `at` rows in the cache
///   router            an operation; `at` tokens
///   delta_rule        an operation; `at` tokens of a sequence
///   index_scores, sparse_attention
///                     an operation; `at` rows that a token sees
///   other drivers     a byte of activations or cache read or written; `at`
///                     tokens, of what has states those of a sequence
///
/// A variant is what else decides the speed: of attention the cache's type,
/// then "one" or "many" tokens, and for MlaAttention what it does, "pairs" of
/// queries and rows or decompressing "rows", with W_UK read by a gemm, or
/// "floats", without.
struct KernelRate {
  std::string kernel, variant;
  std::vector<double> at;     ///< Ascending.
  std::vector<double> memory; ///< Weights or cache rows from memory.
  std::vector<double> cache;  ///< From the last-level cache; may be empty.

  bool operator==(const KernelRate &) const = default;
};

/// Seconds beside instructions' own work.
struct StepOverheads {
  double step = 0;        ///< Waking the team and meeting at the end.
  double instruction = 0; ///< Going to the next one.
  double meeting = 0;     ///< A barrier that all reach at the same time.
};

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
