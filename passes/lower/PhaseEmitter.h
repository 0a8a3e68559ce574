//===- PhaseEmitter.h - Instructions of one phase ---------------*- C++ -*-===//
//
// Used by lower-to-plan: knows which buffer holds which value, and what ops
// share: quantised activations, RoPE tables and expert lists.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_LOWER_PHASEEMITTER_H
#define MOE_PASSES_LOWER_PHASEEMITTER_H

#include "passes/lower/PlanTables.h"
#include "passes/moe/Support.h"
#include "passes/moe/kernels/OpSeconds.h"

namespace mlir::moe {

class PhaseEmitter {
public:
  /// Creates the plan.phase of `attr` at the end of the program.
  PhaseEmitter(PlanTables &tables, Location loc, PhaseAttr attr);

  /// Makes `op` the one that following instructions belong to: its device, its
  /// label, its explanation. Emits an error on `op` if its device is unknown.
  /// The seconds of its explanation are those of the instructions that are then
  /// emitted.
  LogicalResult begin(Operation *op, ArrayRef<SelectedInstruction> selected);

  /// Creates a buffer, on the current device if `device` is null.
  Value buffer(const Twine &name, plan::Encoding encoding, int64_t cols,
               int64_t rowsPerToken = 1, int64_t fixedRows = 0,
               Value device = {});
  /// Creates a buffer of the same shape as `like`.
  Value bufferLike(Value like, const Twine &name, plan::Encoding encoding,
                   Value device = {});
  /// Creates the buffer for the 8-bit form of `x`, in the encoding of its
  /// device.
  Value encodedLike(Value x);
  /// The label of the current op; buffers are named after it.
  StringRef label() const { return label_; }

  /// The buffer or cache that holds a value of the function.
  Value get(Value value) const { return values_.lookup(value); }
  void set(Value value, Value entry) { values_[value] = entry; }

  /// Expert groups of a router's ids.
  struct Groups {
    Value offsets, slots;
  };
  Groups groups(Value ids) const { return groups_.lookup(ids); }
  void setGroups(Value ids, Groups groups) { groups_[ids] = groups; }

  /// Returns the plan's entry of a weight; null for null. A failure is
  /// remembered and reported by end().
  Value weight(Value weight, moek::Layout layout);
  /// Returns the cache that `op` appends to.
  FailureOr<Value> kv(CacheOpInterface op) { return tables_.kv(op, device_); }

  /// Returns the state that `op` keeps.
  FailureOr<Value> state(StateOpInterface op) {
    return tables_.state(op, device_);
  }

  /// The 8-bit form of a value of the function; null until it is set.
  Value &encoded(Value value) { return encoded_[value]; }
  /// The table of `rope` on the current device; null until it is set.
  Value &ropeTable(RopeAttr rope) { return ropeTables_[{rope, device_}]; }

  /// Emits an instruction; operands are in the order of kernels/Ops.def, and a
  /// null one is absent.
  void inst(const SelectedInstruction &selected, const WorkTerms &terms,
            ArrayRef<Value> operands);

  /// Ends the phase; `inputs` are ids or hidden states, or both in this order.
  LogicalResult end(ArrayRef<Value> inputs, Value output);

  Value device() const { return device_; }
  PlanTables &tables() { return tables_; }

private:
  /// Creates the explanation of what `op` costs in a step of `phase`, without
  /// its seconds.
  plan::ExplainOp explain(Operation *op, ArrayRef<SelectedInstruction> selected,
                          StringRef phase, TypicalStep step);

  PlanTables &tables_;
  PhaseAttr attr_;
  plan::PhaseOp phase_;
  OpBuilder builder_;
  Location loc_;
  /// Adds the seconds of an instruction to the op's explanation.
  void addSeconds(const SelectedInstruction &selected,
                  ArrayRef<Value> operands);

  Value device_, explain_;
  /// The phase's typical step on the current device, and on every device.
  moec::Situation situation_;
  llvm::DenseMap<StringAttr, moec::Situation> situations_;
  std::string label_;
  bool isLate_ = false; ///< Whether the current op has kDeferredAttr.
  bool failed_ = false;

  llvm::DenseMap<Value, Value> values_;
  /// The 8-bit form of a value, if there is one.
  llvm::DenseMap<Value, Value> encoded_;
  llvm::DenseMap<Value, Groups> groups_;
  llvm::DenseMap<std::pair<Attribute, Value>, Value> ropeTables_;
};

} // namespace mlir::moe

#endif // MOE_PASSES_LOWER_PHASEEMITTER_H
