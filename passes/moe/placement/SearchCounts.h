//===- SearchCounts.h - What searches for a placement cost ------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_PLACEMENT_SEARCHCOUNTS_H
#define MOE_PASSES_MOE_PLACEMENT_SEARCHCOUNTS_H

#include "mlir/IR/Builders.h"
#include "passes/moe/placement/StepPrediction.h"

namespace mlir::moe {

/// Counts of a compilation, which passes add up in kSearchCountsAttr of the
/// module: searches, simulated steps, and placements whose memory was added up.
struct SearchCounts {
  int64_t searches = 0, simulations = 0, memoryChecks = 0;

  SearchCounts() = default;
  SearchCounts(int64_t searches, const PlacementProblem &problem,
               const StepPrediction &times)
      : searches(searches), simulations(times.simulations()),
        memoryChecks(problem.memoryChecks()) {}
  explicit SearchCounts(ModuleOp module) {
    if (auto known =
            module->getAttrOfType<DenseI64ArrayAttr>(kSearchCountsAttr);
        known && known.size() == 3)
      searches = known[0], simulations = known[1], memoryChecks = known[2];
  }

  /// Returns what was added since these were the counts of `before`.
  SearchCounts since(ModuleOp before) const {
    SearchCounts counts(*this), known(before);
    counts.searches -= known.searches;
    counts.simulations -= known.simulations;
    counts.memoryChecks -= known.memoryChecks;
    return counts;
  }
  /// Adds these counts to those of `module`.
  void addTo(ModuleOp module) const {
    SearchCounts sum(module);
    module->setAttr(kSearchCountsAttr,
                    Builder(module).getDenseI64ArrayAttr(
                        {sum.searches + searches, sum.simulations + simulations,
                         sum.memoryChecks + memoryChecks}));
  }
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_SEARCHCOUNTS_H
