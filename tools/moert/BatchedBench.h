//===- BatchedBench.h - moert bench --parallel ------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_BATCHEDBENCH_H
#define MOE_TOOLS_MOERT_BATCHEDBENCH_H

#include "tools/moert/BenchReport.h"
#include "tools/moert/Shared.h"

namespace moert {

struct BatchedTest {
  int32_t prompt, gen; ///< Tokens of each sequence: prompt and generated.
  int32_t repetitions;
  bool noWarmup;
};

/// Result for a number of sequences. Each has a prompt and then generated
/// tokens, with one token of every sequence per step.
struct BatchedResult {
  BatchedTest test;
  int32_t sequences, threads;
  std::vector<double> promptSeconds, genSeconds; ///< One for each repetition.
  /// Bytes of weights that a decode step is expected to read if tokens choose
  /// experts evenly.
  double bytesPerStep = 0;
  /// Measured read bandwidth; empty: not measured.
  std::vector<Rate> limits = {};
};

/// Fails with DoesNotFit if the plan's cache is too small for this number of
/// sequences.
StatusOr<BatchedResult> runBatched(Engine &engine, const BatchedTest &test,
                                   int32_t sequences, Calibrator *calibrator,
                                   const std::atomic<bool> *cancel,
                                   ProgressLine &progress);

/// Returns the results in `format`: "md", "json" or "csv".
std::string batchedReport(const BenchSubject &subject,
                          const std::vector<BatchedResult> &results,
                          const std::string &format);

} // namespace moert

#endif // MOE_TOOLS_MOERT_BATCHEDBENCH_H
