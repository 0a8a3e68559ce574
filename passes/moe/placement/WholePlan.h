//===- WholePlan.h - Choices for the whole plan -----------------*- C++ -*-===//
//
// Around the search for the device of each part there are few choices that hold
// for all of the plan: the use of the host's memory nodes, whether long steps
// of a prompt stream experts, and how long these steps are. Each is tried with
// a search of its own.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_WHOLEPLAN_H
#define MOE_PASSES_MOE_PLACEMENT_WHOLEPLAN_H

#include "passes/moe/placement/PlacementSearch.h"
#include "passes/moe/placement/SearchCounts.h"

#include <memory>

namespace mlir::moe {

/// What the user lets placement decide.
struct PlacementOptions {
  Objective objective = Objective::Balanced;
  int64_t typicalPrompt = 0; ///< Tokens; 0: of several lengths.
  int64_t deferExperts = 0;
  bool mayPack = true;
  /// Tokens of the shortest step that streams experts; 0: none; -1: where that
  /// makes a request faster.
  int64_t streamExperts = 0;
  bool pinWeights = false; ///< Streamed experts do not go through a ring.
  int64_t ubatch = 0;      ///< Most tokens of a prompt's step; 0: any.
};

/// The fastest placement with some choices for the whole plan.
struct WholePlan {
  moec::TargetDesc target;
  PlacementProblem problem;
  StepPrediction times;
  PlacementSearch search;
  PlacementSearch::Choice choice;
  int64_t stepTokens; ///< The most of a prompt's step; 0 without prompts.

  WholePlan(ModuleOp module, const moec::TargetDesc &target,
            const PlacementOptions &options, Streaming streaming);
};

/// Returns the fastest plan over all choices for the whole plan, one of them
/// that of `targets`, which differ in the use of the host's memory nodes.
/// Leaves the plan's tokens of a step in the module's phases. `compared` gets
/// the seconds of a request for each use of nodes.
std::unique_ptr<WholePlan> chooseWholePlan(ModuleOp module,
                                           ArrayRef<moec::TargetDesc> targets,
                                           const PlacementOptions &options,
                                           SearchCounts &counts,
                                           std::string &compared);

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_WHOLEPLAN_H
