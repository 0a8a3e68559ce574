//===- PlanHazards.h - Dependences between instructions ---------*- C++ -*-===//
//
// A device's workers process its queue together, each doing a part of every
// instruction, and only synchronise at barriers. Queues run independently and
// only synchronise where one waits for an event of another. If one instruction
// writes bytes that another one reads or writes, barriers and events must order
// the two. Memory that each worker has for itself is an exception: there the
// worker's own order is enough.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PLAN_PLANHAZARDS_H
#define MOE_PASSES_PLAN_PLANHAZARDS_H

#include "dialects/plan/Plan.h"

#include <vector>

namespace mlir::plan {

/// An instruction's access to a buffer or cache. An update in place counts as a
/// write.
struct Access {
  Value region;
  bool writes;
};

/// Returns the accesses to buffers and caches. Weights and constants never
/// change.
SmallVector<Access> accessesOf(InstOp inst);

/// Returns whether `region` is a buffer of which each worker has a copy.
bool isPerWorker(Value region);

/// Replaces `inst` by a copy with the given waits, and with an event if
/// `signals`. A new op is needed because its number of results is fixed. Uses
/// of the old event are dropped.
InstOp rebuild(InstOp inst, ValueRange waits, bool signals);

/// By queue, the number of leading instructions that have ended.
using Clock = SmallVector<int32_t, 4>;

/// The synchronisation that an instruction needs.
struct Ordering {
  int32_t queue = 0;    ///< The instruction's queue, by first use in the phase.
  int32_t position = 0; ///< Position in its queue, starting at 1.
  bool barrier = false;
  /// Instructions of other queues to wait for, numbered as in the phase. None
  /// is already implied by another one.
  SmallVector<int32_t, 2> waits;
  /// What is known to have ended when the instruction begins, if all waits and
  /// barriers are kept.
  Clock known;
};

/// Returns the minimal synchronisation for each instruction. Sizes of buffers
/// are those of the longest step; buffers without an offset share bytes with no
/// other buffer.
std::vector<Ordering> orderingsOf(PhaseOp phase);

} // namespace mlir::plan

#endif // MOE_PASSES_PLAN_PLANHAZARDS_H
