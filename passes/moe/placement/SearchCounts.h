//===- SearchCounts.h - What searches for a placement cost ------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_PLACEMENT_SEARCHCOUNTS_H
#define MOE_PASSES_MOE_PLACEMENT_SEARCHCOUNTS_H

#include "passes/moe/placement/StepPrediction.h"

namespace mlir::moe {

/// Counts of a compilation: searches, simulated steps, and placements whose
/// memory was added up.
struct SearchCounts {
  int64_t searches = 0, simulations = 0, memoryChecks = 0;

  SearchCounts() = default;
  SearchCounts(int64_t searches, const PlacementProblem &problem,
               const StepPrediction &times)
      : searches(searches), simulations(times.simulations()),
        memoryChecks(problem.memoryChecks()) {}

  SearchCounts &operator+=(const SearchCounts &other) {
    searches += other.searches;
    simulations += other.simulations;
    memoryChecks += other.memoryChecks;
    return *this;
  }
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_SEARCHCOUNTS_H
