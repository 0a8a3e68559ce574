//===- KernelRate.h - Measured speeds of one kernel -------------*- C++ -*-===//
//
// Calibration measures these (runtime/device/cpu/KernelRates.h), descriptions of
// machines carry them, and the cost model predicts with them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_KERNELRATE_H
#define MOE_KERNELS_KERNELRATE_H

#include <string>
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

} // namespace moert

#endif // MOE_KERNELS_KERNELRATE_H
