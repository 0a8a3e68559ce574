//===- Schedule.h - The time of a step's tasks on several queues -*- C++
//-*-===//
//
// The only place that adds up the time of a step. Each queue works on its tasks
// in the order of the list. A task starts when the one before it in its queue
// and all tasks that it follows have ended. Queues work at the same time, also
// where their devices share a memory: what one reads then delays the other
// (moec::MemoryTraffic). That is computed from the memory's bandwidth; it was
// measured on no machine.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_SCHEDULE_SCHEDULE_H
#define MOE_PASSES_SCHEDULE_SCHEDULE_H

#include "compiler/Machine/Targets/Target.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace moec {

/// A piece of work, such as an instruction or a copy.
struct Task {
  int queue = 0;
  double seconds = 0; ///< Of the work, if no other queue works.
  /// Tasks before it in the list that must have ended, of any queue.
  llvm::SmallVector<int, 2> after = {};
  /// Whether the workers of the queue wait for each other before it.
  bool barrier = false;
  double bytes = 0; ///< Read from the memory of the queue's device.
};

/// What the tasks of a queue have in common.
struct TaskQueue {
  int device = -1;    ///< Of the target; -1: none, as for a link.
  double start = 0;   ///< Seconds to start a task.
  double barrier = 0; ///< Seconds of a barrier.

  /// A queue of a device that spends what its description says.
  static TaskQueue of(int device, const TargetDesc &target);
};

struct StepTimes {
  std::vector<double> ends; ///< By task.
  double end = 0;           ///< Of the last one.
  double sum = 0;           ///< If they ran one after the other.
};

/// Returns when the tasks end in a step that begins at 0, in seconds. Queues of
/// devices need the target.
StepTimes simulate(llvm::ArrayRef<Task> tasks, llvm::ArrayRef<TaskQueue> queues,
                   const TargetDesc &target = {});

} // namespace moec

#endif // MOE_PASSES_SCHEDULE_SCHEDULE_H
