//===- PlanHazards.h - Which instructions need a barrier --------*- C++ -*-===//
//
// All workers walk the instruction list together, each doing its share, and
// meet only at barriers. Two instructions of which one writes what the other
// reads or writes must have a barrier between them; but not in memory that each
// worker has for itself, where its own order is enough.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PLANHAZARDS_H
#define MOE_PASSES_PLANHAZARDS_H

#include "dialects/plan/Plan.h"
#include "llvm/ADT/MapVector.h"

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

/// The accesses since the last barrier.
class Epoch {
public:
  /// Sizes of buffers are those of a step of `tokens`.
  explicit Epoch(int64_t tokens) : tokens_(tokens) {}

  bool conflictsWith(ArrayRef<Access> accesses) const;
  void add(ArrayRef<Access> accesses);
  void clear() { writes_.clear(); }

private:
  llvm::MapVector<Value, bool> writes_; ///< Regions; whether written.
  int64_t tokens_;
};

/// Whether two regions share bytes. Buffers without an offset share none with
/// others.
bool overlap(Value a, Value b, int64_t tokens);

} // namespace mlir::plan

#endif // MOE_PASSES_PLANHAZARDS_H
