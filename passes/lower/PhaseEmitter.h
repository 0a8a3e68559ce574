//===- PhaseEmitter.h - Instructions of one phase ---------------*- C++ -*-===//
//
// Used by lower-to-plan: keeps which buffer holds which value, and emits the
// two instructions that ops share, Quantize and RopeTable, once.
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

  /// What follows belongs to `op`: its device, its label, its explanation.
  /// Emits an error on `op` if its device is unknown. The seconds of its
  /// explanation are those of the instructions that are then emitted.
  LogicalResult begin(Operation *op, ArrayRef<SelectedStep> steps);
  PhaseAttr phase() const { return attr_; }

  /// A new F32 buffer of the current device with one row per token.
  Value rows(const Twine &name, int64_t cols) {
    return buffer(name, plan::Encoding::F32, cols);
  }
  Value buffer(const Twine &name, plan::Encoding encoding, int64_t cols,
               int64_t rowsPerToken = 1, int64_t fixedRows = 0,
               Value device = {});
  /// The same shape as `like`.
  Value bufferLike(Value like, const Twine &name, plan::Encoding encoding,
                   Value device = {});
  /// The 8-bit form of `x`, in the encoding of its device.
  Value encodedLike(Value x);
  /// What the user calls the current op; buffers are named after it.
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

  /// The plan's entry of a weight; null for null. A failure is remembered and
  /// reported by end().
  Value weight(Value weight, moek::Layout layout = moek::Layout::Gguf);
  /// The entry in the layout that the gemm of `step` reads.
  Value weight(const SelectedStep &step, Value weight) {
    return this->weight(weight, step.layoutOf(weight));
  }
  /// The cache that `op` appends to.
  FailureOr<Value> kv(CacheOpInterface op) { return tables_.kv(op, device_); }

  /// The state that `op` keeps.
  FailureOr<Value> state(StateOpInterface op) {
    return tables_.state(op, device_);
  }

  /// Emits the Quantize of the function's `value`, unless it was already.
  void quantize(const SelectedStep &step, Value value);
  /// `value` in the encoding that `step` reads.
  Value activation(const SelectedStep &step, Value value) const;
  /// The table of `rope` on the current device; `step` makes it at first.
  Value ropeTable(const SelectedStep &step, RopeAttr rope);
  Value ropeTable(RopeAttr rope) const {
    return ropeTables_.lookup({rope, device_});
  }

  /// Operands, integers and floats in the order of OpTable.h; a null operand
  /// is absent.
  void inst(const SelectedStep &step, ArrayRef<Value> operands,
            ArrayRef<int64_t> ints = {}, ArrayRef<double> floats = {});

  /// Ends the phase.
  LogicalResult end(Value input, Value output);

  Value device() const { return device_; }
  StringRef deviceName() const {
    return device_.getDefiningOp<plan::DeviceOp>().getName();
  }
  PlanTables &tables() { return tables_; }

private:
  /// What `op` costs in a step of `phase`, without its seconds.
  plan::ExplainOp explain(Operation *op, ArrayRef<SelectedStep> steps,
                          StringRef phase, TypicalStep step);

  PlanTables &tables_;
  PhaseAttr attr_;
  plan::PhaseOp phase_;
  OpBuilder builder_;
  Location loc_;
  /// Adds the seconds of an instruction to the op's explanation.
  void addSeconds(const SelectedStep &step, ArrayRef<Value> operands);

  Value device_, explain_;
  /// Of the phase's typical step on the current device, and on each.
  moec::Situation situation_;
  llvm::DenseMap<StringAttr, moec::Situation> situations_;
  std::string label_;
  bool isLate_ = false; ///< The current op has kDeferredAttr.
  bool failed_ = false;

  llvm::DenseMap<Value, Value> values_;
  llvm::DenseMap<Value, Value> encoded_; ///< 8-bit form of a function's value.
  llvm::DenseMap<Value, Groups> groups_;
  llvm::DenseMap<std::pair<Attribute, Value>, Value> ropeTables_;
};

} // namespace mlir::moe

#endif // MOE_PASSES_LOWER_PHASEEMITTER_H
