//===- KernelRate.h - Measured speed of one kernel --------------*- C++ -*-===//
//
// Calibration measures these rates (runtime/device/cpu/KernelRates.h), machine
// descriptions store them, and the cost model predicts with them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_KERNELRATE_H
#define MOE_KERNELS_KERNELRATE_H

#include <string>
#include <vector>

namespace moert {

// clang-format off
/// Units of work per second of one kernel, on all cores together, for a few
/// values of `at`. The kernel decides what a unit is and what `at` counts:
///
///   kernel            unit                           at
///   gemm (MOE_GEMM)   byte of weights as in files    activation rows
///   absorb_query      element of W_UK                tokens
///   attention         operation; a product of a      rows in the cache
///                     query and a cached row has 2
///   router            operation                      tokens
///   delta_rule        operation                      tokens of a sequence
///   index_scores,     operation                      rows that a token sees
///   sparse_attention,
///   block_scores,
///   block_attention
///   other kernels     byte of activations or cache   tokens; with a state,
///                     read or written                tokens of a sequence
///
/// The variant is whatever else decides the speed. For attention it is the
/// cache's type, then "one" or "many" tokens; on a GPU also "one bytes", bytes
/// of cache rows per second, and "one call", calls per second without their
/// rows: a call takes its own time and the longer of operations and bytes. For MlaAttention it is the work:
/// "pairs" of queries and cached rows, or decompression of cached "rows" (with
/// a gemm that reads W_UK) or to "floats" (without one). For a gemm of a GPU,
/// "call" has calls per second without the time of their weights: what latency
/// takes, however small a matrix is; "experts" has the rate of many matrices in
/// one launch, at the rows of each. For recurrent layers it is what they are
/// besides gated delta nets: decays of "channels" (KDA), or "sums" (Mamba 2); a
/// convolution's inputs are in three "parts", or it is "plain", without SiLU.
// clang-format on
struct KernelRate {
  std::string kernel, variant;
  /// Values of the variable that rates depend on, ascending.
  std::vector<double> at;
  std::vector<double> memory; ///< Rates with weights or cache rows from memory.
  /// Rates with weights in the last-level cache; may be empty.
  std::vector<double> cache;

  bool operator==(const KernelRate &) const = default;
};

/// Seconds of a step that are spent outside the instructions' own work.
struct StepOverheads {
  /// Seconds to wake the thread pool, and for the barrier at the end.
  double step = 0;
  double instruction = 0; ///< Seconds from one instruction to the next.
  /// Seconds of a barrier that all threads reach at the same time.
  double barrier = 0;
};

} // namespace moert

#endif // MOE_KERNELS_KERNELRATE_H
