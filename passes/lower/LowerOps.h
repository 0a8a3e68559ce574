//===- LowerOps.h - Lowerings of moe ops, by kind ---------------*- C++ -*-===//
//
// Which instructions an op becomes is told by its getPlanSteps(); a lowering
// gives each its operands and parameters, in the order of
// runtime/schema/OpTable.h.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_LOWER_LOWEROPS_H
#define MOE_PASSES_LOWER_LOWEROPS_H

#include "llvm/ADT/DenseMap.h"
#include "passes/lower/PhaseEmitter.h"

namespace mlir::moe {

using Steps = ArrayRef<SelectedStep>;

/// The lowerings by op.
class Lowerings {
public:
  /// `Op` is lowered by lower(Op, Steps, PhaseEmitter &).
  template <typename Op, LogicalResult (*Lower)(Op, Steps, PhaseEmitter &)>
  void add() {
    lowerings_[TypeID::get<Op>()] = [](Operation *op, Steps steps,
                                       PhaseEmitter &emitter) {
      return Lower(cast<Op>(op), steps, emitter);
    };
  }
  LogicalResult lower(Operation *op, Steps steps, PhaseEmitter &emitter) const;

private:
  using Function = LogicalResult (*)(Operation *, Steps, PhaseEmitter &);
  llvm::DenseMap<TypeID, Function> lowerings_;
};

void addRowLowerings(Lowerings &lowerings);
void addAttentionLowerings(Lowerings &lowerings);
void addExpertLowerings(Lowerings &lowerings);
void addDeltaNetLowerings(Lowerings &lowerings);
void addSparseLowerings(Lowerings &lowerings);
void addHyperLowerings(Lowerings &lowerings);

/// Columns of activations [T, columns] or of a weight [..., rows, columns].
inline int64_t columnsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back();
}
inline int64_t matricesOf(Value weight) {
  return cast<RankedTensorType>(weight.getType()).getDimSize(0);
}
inline int64_t rowsOf(Value weight) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
  return shape[shape.size() - 2];
}

/// The activation that an FFN makes between its two halves, silu(gate) * up.
struct InnerActivation {
  Value buffer;
  Value encoded; ///< In 8 bits, once quantize() was called.

  void quantize(const SelectedStep &step, PhaseEmitter &emitter) {
    encoded = emitter.encodedLike(buffer);
    emitter.inst(step, {buffer, encoded});
  }
  Value read(const SelectedStep &step) const {
    return moek::isA8(step.activation()) ? encoded : buffer;
  }
};

/// Where an instruction that may accumulate writes: the residual's buffer, or
/// a new one.
inline Value target(const SelectedStep &step, Value residual, int64_t cols,
                    PhaseEmitter &emitter) {
  return step.step.accumulate ? emitter.get(residual)
                              : emitter.rows(emitter.label(), cols);
}

/// An instruction that kernel selection and the lowering disagree on.
LogicalResult unexpectedStep(Operation *op, const SelectedStep &step);

} // namespace mlir::moe

#endif // MOE_PASSES_LOWER_LOWEROPS_H
