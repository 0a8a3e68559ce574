//===- PlacementReasons.h - Explanations of a placement ---------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_PLACEMENT_PLACEMENTREASONS_H
#define MOE_PASSES_MOE_PLACEMENT_PLACEMENTREASONS_H

#include "passes/moe/placement/PlacementSearch.h"

#include <map>
#include <string>
#include <tuple>

namespace mlir::moe {

/// Explains, with numbers, why the groups of a choice are on their devices.
class PlacementReasons {
public:
  PlacementReasons(const PlacementProblem &problem,
                   const moec::TargetDesc &target, const StepPrediction &times,
                   const PlacementSearch &search,
                   const PlacementSearch::Choice &choice)
      : problem(problem), target(target), times(times), search(search),
        choice(choice) {}

  /// Returns a sentence for a group that placement decided about.
  std::string of(int group);

  /// Returns, for each other device by number, why the group is not on it.
  std::map<int, std::string> against(int group);

private:
  std::string seconds(int group, int device) const;
  int otherDevice(int group) const;
  int64_t left(int device) const;
  std::string alternativeText(int unit, int other);
  std::string compare(int unit, int other) const;

  const PlacementProblem &problem;
  const moec::TargetDesc &target;
  const StepPrediction &times;
  const PlacementSearch &search;
  const PlacementSearch::Choice &choice;
  std::map<std::tuple<int, int, int, int64_t>, std::string> verdicts;
};

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_PLACEMENTREASONS_H
