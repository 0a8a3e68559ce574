//===- PlanHazards.h - Which instructions wait for which --------*- C++ -*-===//
//
// A device's workers walk its queue together, each doing its share, and meet
// only at barriers; queues run by themselves, and meet only where one waits for
// an event that the other signals. Two instructions of which one writes bytes
// that the other reads or writes must be ordered by these, whoever runs them;
// but not in memory that each worker has for itself, where its own order is
// enough.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PLAN_PLANHAZARDS_H
#define MOE_PASSES_PLAN_PLANHAZARDS_H

#include "dialects/plan/Plan.h"

#include <vector>

namespace mlir::plan {

/// What an instruction does to a buffer or cache: reads or writes it. What is
/// updated in place is written.
struct Access {
  Value region;
  bool writes;
};

/// Of buffers and caches; weights and constants never change.
SmallVector<Access> accessesOf(InstOp inst);

/// Whether `region` is a buffer of which each worker has a copy.
bool isPerWorker(Value region);

/// `inst` made anew, as the number of results is fixed when an op is made: with
/// these waits, and an event or none; its own are dropped.
InstOp rebuild(InstOp inst, ValueRange waits, bool signals);

/// How many leading instructions of each queue have ended.
using Clock = SmallVector<int32_t, 4>;

/// What an instruction has to wait for.
struct Ordering {
  int32_t queue = 0;    ///< Number of its queue, by first use in the phase.
  int32_t position = 0; ///< In its queue, the first one being 1.
  bool barrier = false;
  /// Instructions of other queues, numbered as in the phase, none of which
  /// another one waits for already.
  SmallVector<int32_t, 2> waits;
  /// What is known to have ended when it begins, all of this kept.
  Clock known;
};

/// The least that orders what must be ordered, instruction by instruction.
/// Sizes of buffers are those of a step of the most tokens; buffers without an
/// offset share bytes with no other.
std::vector<Ordering> orderingsOf(PhaseOp phase);

} // namespace mlir::plan

#endif // MOE_PASSES_PLAN_PLANHAZARDS_H
