//===- PlanHazards.h - Dependences between instructions ---------*- C++ -*-===//
//
// What passes/schedule/Ordering.h needs to know of a plan's instructions.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PLAN_PLANHAZARDS_H
#define MOE_PASSES_PLAN_PLANHAZARDS_H

#include "dialects/plan/Plan.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Allocator.h"
#include "passes/schedule/Ordering.h"

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

/// The instructions of a phase as steps. Queues and regions are numbered by
/// first use.
struct PhaseSteps {
  explicit PhaseSteps(PhaseOp phase);

  SmallVector<InstOp> insts;
  /// Indexed by instruction; none counts as small.
  std::vector<moec::Step> steps;
  llvm::MapVector<Value, int32_t> queues, regions;
  std::vector<bool> perWorker; ///< Indexed by region.
  /// Memory of the lists that `steps` refers to.
  llvm::BumpPtrAllocator memory;
};

using moec::Clock;
using moec::Ordering;

/// Returns the minimal synchronisation for each instruction. Sizes of buffers
/// are those of the longest step; buffers without an offset share bytes with no
/// other buffer.
std::vector<Ordering> orderingsOf(PhaseOp phase);

} // namespace mlir::plan

#endif // MOE_PASSES_PLAN_PLANHAZARDS_H
