//===- Timeline.h - When a typical step does what ---------------*- C++ -*-===//
//
// Walks a phase's instructions as queues do: those of a queue one after the
// other, and none before the events that it waits for. Each takes its part of
// the seconds that the compiler predicted for its op.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_EXPLAIN_TIMELINE_H
#define MOE_COMPILER_EXPLAIN_TIMELINE_H

#include "compiler/Explain/Summary.h"

namespace moec {

struct TimelineQueue {
  std::string_view device;
  bool copies = false; ///< A copy queue.
  double busy = 0;     ///< Seconds of its instructions.
};

struct TimelineSpan {
  size_t op = 0;      ///< Into PhaseCost::ops.
  uint32_t queue = 0; ///< Into Timeline::queues.
  bool copies = false;
  double start = 0, seconds = 0;
};

struct Timeline {
  /// Of the phase that `cost` is about; empty for one that is not in the plan's
  /// program. Where several instructions are an op, each has the same part of
  /// its seconds; what a device's explanation has beside its instructions, such
  /// as starting a step, is spread over all of them.
  Timeline(const moert::fb::Plan &plan, const PhaseCost &cost);

  std::vector<TimelineQueue> queues; ///< As in the plan.
  std::vector<TimelineSpan> spans;   ///< In the order of the instructions.
  double seconds = 0;                ///< When the last queue ends.
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_TIMELINE_H
