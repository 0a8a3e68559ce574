//===- Ordering.h - Order and synchronisation of instructions ---*- C++ -*-===//
//
// A device's workers process its queue together, each doing a part of every
// instruction, and only synchronise at barriers. Queues run independently and
// only synchronise where one waits for an event of another. If one instruction
// writes bytes that another one reads or writes, barriers and events must order
// the two. Memory that each worker has for itself is an exception: there the
// worker's own order is enough.
//
// Regions are buffers and caches by number. The passes on a plan ask for its
// instructions, and placement for those that a placement would have.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_SCHEDULE_ORDERING_H
#define MOE_PASSES_SCHEDULE_ORDERING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace moec {

/// A use of a region. An update in place counts as a write.
struct RegionUse {
  int region;
  bool writes;
};

/// An instruction, as far as its order depends on it.
struct Step {
  int queue = 0;
  bool onGpu = false;
  /// On a GPU, begins a level: a product, or a copy that takes one block a long
  /// time. Others are fused with preceding ones into one launch.
  bool isLarge = false;
  bool runsLast = false; ///< Follows what comes before it in its queue.
  /// So little work that each worker may do all of it.
  bool isSmall = false;
  llvm::ArrayRef<RegionUse> uses = {};
};

/// Regions that each worker has for itself: those that only small instructions
/// write, unless `shared`, or another result of such an instruction, is shared.
std::vector<bool> regionsPerWorker(llvm::ArrayRef<Step> steps,
                                   std::vector<bool> shared);

/// Returns the place of each instruction; sorted by place, stably, they are in
/// the order of their levels, so that independent ones are neighbours.
std::vector<int64_t> placesOf(llvm::ArrayRef<Step> steps, int queues,
                              const std::vector<bool> &perWorker);

/// By queue, the number of leading instructions that have ended.
using Clock = llvm::SmallVector<int32_t, 8>;

/// The synchronisation that an instruction needs.
struct Ordering {
  int32_t queue = 0;    ///< The instruction's queue.
  int32_t position = 0; ///< Position in its queue, starting at 1.
  bool barrier = false;
  /// Instructions of other queues to wait for, by number. None is already
  /// implied by another one.
  llvm::SmallVector<int32_t, 2> waits;
  /// What is known to have ended when the instruction begins, if all waits and
  /// barriers are kept.
  Clock known;
};

/// Returns the minimal synchronisation for each instruction. `sharing` has, for
/// each region, those that share bytes with it, itself included; empty if none
/// shares bytes with another.
std::vector<Ordering>
orderingsOf(llvm::ArrayRef<Step> steps, int queues,
            const std::vector<bool> &perWorker,
            llvm::ArrayRef<llvm::SmallVector<int32_t>> sharing = {});

} // namespace moec

#endif // MOE_PASSES_SCHEDULE_ORDERING_H
