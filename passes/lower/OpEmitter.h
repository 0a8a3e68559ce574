//===- OpEmitter.h - Emits the instructions of one op -----------*- C++ -*-===//

#ifndef MOE_PASSES_LOWER_OPEMITTER_H
#define MOE_PASSES_LOWER_OPEMITTER_H

#include "passes/lower/PhaseEmitter.h"

namespace mlir::moe {

/// Realises an op's description (LowerableOpInterface::getInstructions):
/// creates its buffers and emits its instructions with the kernels that were
/// selected.
class OpEmitter {
public:
  OpEmitter(Operation *op, const Instructions &instructions,
            PhaseEmitter &emitter)
      : op_(op), instructions_(instructions), emitter_(emitter) {}

  /// Emits `selected`, the op's instructions with their kernels. Emits an error
  /// on the op if one of its operands does not exist, or if it would overwrite
  /// a value that is read later.
  LogicalResult emit(ArrayRef<SelectedInstruction> selected);

private:
  /// Sets the storage of results that need no new buffer: caches, and values
  /// that the op overwrites. Checks that the devices of buffers exist.
  LogicalResult placeResults();
  /// Whether the instruction is a shared one that was emitted already.
  bool isMade(const SelectedInstruction &selected);
  LogicalResult emitOne(const SelectedInstruction &selected,
                        const WorkTerms &terms);
  /// Copies the expert lists of a router's choice that a Copy copies.
  void copyExpertLists(const SelectedInstruction &selected,
                       const WorkTerms &terms);

  /// Returns the plan's entry for `operand` in the form that the instruction
  /// reads; null if the operand is absent.
  FailureOr<Value> find(const Operand &operand, bool isWeight,
                        const SelectedInstruction &selected);
  /// Returns the entry in its plain form, for all operands but weights.
  FailureOr<Value> findPlain(const Operand &operand);
  /// The 8-bit form of an operand; null until its Quantize is emitted.
  Value &quantized(const Operand &operand);
  /// Returns a buffer of instructions_.buffers(). Creates it after those that
  /// were declared before it.
  Value buffer(unsigned index);

  Operation *op_;
  const Instructions &instructions_;
  PhaseEmitter &emitter_;
  SmallVector<Value> buffers_;
  /// The 8-bit forms of temporaries, by index.
  llvm::SmallDenseMap<unsigned, Value> quantized_;
};

} // namespace mlir::moe

#endif // MOE_PASSES_LOWER_OPEMITTER_H
