//===- PlanStep.h - The instructions an op lowers to ------------*- C++ -*-===//
//
// The contract between kernel selection, which names a kernel for every
// instruction, and lower-to-plan, which emits them. An op's list comes from
// its LowerableOpInterface; nothing else knows how an op is decomposed.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_PLANSTEP_H
#define MOE_DIALECTS_MOE_PLANSTEP_H

#include "kernels/OpCode.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Operation.h"

namespace mlir::moe {

/// Which of an op's activations an instruction's gemms read.
enum class ActivationSource : uint8_t {
  Input, ///< The op's first operand.
  Inner, ///< Of gate and up, made by the op itself.
};

/// One instruction of an op.
struct PlanStep {
  moek::OpCode op;
  /// The weights its gemms read, in the order of the operands that
  /// runtime/schema/OpTable.h marks `gemm`.
  SmallVector<Value, 2> gemmWeights = {};
  ActivationSource activation = ActivationSource::Input;
  /// Adds to the buffer of the op's residual instead of writing a new one.
  bool accumulate = false;
  /// Its driver encodes the activations of its gemms: no Quantize before it.
  bool encodes = false;
};

/// Whether the `residual` of `op` may be overwritten by it: the residual is the
/// result of an op of the same block and no op after `op` reads it.
bool residualDiesIn(Operation *op, Value residual);

/// Whether the slots of a router's choice are grouped by expert once for those
/// who read it: all but slices of the experts, which group their own, and
/// moe.split_choices, which chooses some of it.
bool isGrouped(Value ids);

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_PLANSTEP_H
