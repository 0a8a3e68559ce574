//===- PlanTables.h - The tables of a plan under construction ---*- C++ -*-===//
//
// Used by lower-to-plan. Every entry is made when it is first needed and
// shared by all phases, so that a plan holds nothing that no instruction uses.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_LOWER_PLANTABLES_H
#define MOE_PASSES_LOWER_PLANTABLES_H

#include "compiler/Machine/Targets/Target.h"
#include "dialects/moe/WeightTable.h"
#include "dialects/plan/Plan.h"
#include "kernels/Registry.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/IR/Builders.h"

namespace mlir::moe {

class PlanTables {
public:
  /// Entries go to the end of `program`.
  PlanTables(plan::ProgramOp program, const moec::TargetDesc &target,
             ArrayAttr files, int64_t kvRows, int64_t stateRows);

  /// Returns the device of this name; emits an error on `op` if the target has
  /// none.
  FailureOr<Value> device(Operation *op, StringRef name);
  /// Returns the device's queue for instructions of `op` in steps of up to
  /// `maxTokens`.
  Value queue(Value device, moek::OpCode op, int64_t maxTokens);
  /// Notes an instruction set that kernels need. The device's entry states the
  /// best one that was noted.
  void noteKernel(Value device, moek::Isa isa);

  /// Returns the entry for the weight that a moe.weight_ref refers to. Fails if
  /// packing would have to compute it from computed weights.
  FailureOr<Value> weight(Value weight,
                          moek::Layout layout = moek::Layout::Gguf);
  Value ropeFrequencies(RopeAttr rope);
  /// Returns the entry for floats under a name that identifies them.
  Value constant(StringRef name, ArrayRef<Real> values);
  /// Returns the cache that `op` appends to. Emits an error on `op` if another
  /// phase has this cache on another device or with other rows.
  FailureOr<Value> kv(CacheOpInterface op, Value device);

  /// Returns the state that `op` keeps, with the same errors as kv().
  FailureOr<Value> state(StateOpInterface op, Value device);

  /// Brings the program's ops into the order of plan.fbs.
  void sort();

  const moec::TargetDesc &target() const { return target_; }
  OpBuilder &builder() { return builder_; }

private:
  FailureOr<Value> file(Operation *op, int64_t index);
  FailureOr<Value> entry(WeightOp weight,
                         moek::Layout layout = moek::Layout::Gguf);
  FailureOr<Value> addStored(WeightOp weight, const StoredBytes &bytes);
  FailureOr<Value> addDerived(WeightOp weight);
  FailureOr<Value> addPacked(WeightOp weight, moek::Layout layout);

  plan::ProgramOp program_;
  WeightTable weights_;
  const moec::TargetDesc &target_;
  ArrayAttr files_;
  int64_t kvRows_, stateRows_;
  OpBuilder builder_;

  llvm::DenseMap<Attribute, Value> devices_;
  llvm::DenseMap<std::pair<Value, plan::QueueKind>, Value> queues_;
  llvm::DenseMap<Value, moek::Isa> isas_;
  llvm::DenseMap<int64_t, Value> fileEntries_;
  /// Weight entries by symbol and layout.
  llvm::DenseMap<std::pair<StringAttr, moek::Layout>, Value> entries_;
  llvm::DenseMap<Attribute, Value> frequencies_;
  /// Indexed by layer and part.
  llvm::DenseMap<std::pair<int64_t, int64_t>, plan::KvOp> caches_, states_;
  llvm::StringMap<Value> constants_;
};

} // namespace mlir::moe

#endif // MOE_PASSES_LOWER_PLANTABLES_H
