//===- Timeline.h - A timeline of a typical step ----------------*- C++ -*-===//
//
// Simulates the queues of a phase: instructions of a queue run one after the
// other, and each waits for its events. Each takes its share of the seconds
// that the compiler predicted for its op.
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
  size_t op = 0;      ///< Index into PhaseCost::ops.
  uint32_t queue = 0; ///< Index into Timeline::queues.
  bool copies = false;
  double start = 0, seconds = 0;
};

struct Timeline {
  /// Simulates the phase that `cost` describes; the timeline is empty for a
  /// phase that is not in the plan's program. The instructions of an op share
  /// its seconds equally. Other entries of a device, such as the start of a
  /// step, are spread over all its instructions.
  Timeline(const moert::fb::Plan &plan, const PhaseCost &cost);

  std::vector<TimelineQueue> queues; ///< In the order of the plan.
  std::vector<TimelineSpan> spans;   ///< In the order of the instructions.
  double seconds = 0;                ///< When the last queue ends.
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_TIMELINE_H
