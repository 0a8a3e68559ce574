//===- PlacedStep.h - The tasks of a step for one placement -----*- C++ -*-===//
//
// Puts together the instructions that the passes after placement would emit for
// a placement: sums are fused as moe-fuse does, copies inserted as
// moe-insert-transfers does, and the instructions ordered and synchronised by
// the functions that the passes on the plan use (passes/schedule/Ordering.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_MOE_PLACEMENT_PLACEDSTEP_H
#define MOE_PASSES_MOE_PLACEMENT_PLACEDSTEP_H

#include "passes/moe/placement/StepGraph.h"
#include "passes/schedule/Schedule.h"

namespace mlir::moe {

struct PlacedStep {
  std::vector<moec::Task> tasks;
  std::vector<moec::TaskQueue> queues;
  std::vector<int> groups; ///< By task: the group of its op; -1 of a copy.
  double wakeSeconds = 0;  ///< To start the step on each device that works.
  int64_t copies = 0;      ///< Values that are copied between devices.
  double copySeconds = 0;

  /// Returns the seconds of the step.
  double seconds(const moec::TargetDesc &target) const {
    return wakeSeconds + moec::simulate(tasks, queues, target).end;
  }
};

/// Returns the tasks of a step. `splitOf` has a split, or null, for each group,
/// and `streamed`, if not empty, the GPU to which its experts are copied in the
/// step, or kAbsent.
PlacedStep placeStep(const StepGraph &graph, const moec::TargetDesc &target,
                     ArrayRef<int> assignment,
                     ArrayRef<const ExpertSplit *> splitOf,
                     ArrayRef<int> streamed = {});

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PLACEMENT_PLACEDSTEP_H
