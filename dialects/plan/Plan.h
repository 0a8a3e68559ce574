//===- Plan.h - The plan dialect --------------------------------*- C++ -*-===//

#ifndef MOE_DIALECTS_PLAN_PLAN_H
#define MOE_DIALECTS_PLAN_PLAN_H

#include "dialects/moe/Moe.h"
#include "kernels/Layout.h"
#include "kernels/Types.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "runtime/schema/OpTable.h"

#include <optional>

namespace mlir::plan {

/// Marks a plan.inst whose result is not needed soon. plan-order moves it after
/// the instructions that others wait for, and removes the attribute.
inline constexpr llvm::StringLiteral kRunLastAttr = "plan.late";

/// Returns the format with this name, or nothing if no format has it.
std::optional<moek::Format> formatFromName(llvm::StringRef name);

} // namespace mlir::plan

#include "dialects/plan/PlanDialect.h.inc"
#include "dialects/plan/PlanEnums.h.inc"

namespace mlir::plan {

/// Returns whether a device copies weights whenever it needs them.
inline bool isStreamed(ResidencyMode mode) {
  return mode == ResidencyMode::Streamed || mode == ResidencyMode::Pinned;
}

/// The shape of an entry of the weight table, stored or still to be packed:
/// `outer` matrices of `rows` x `cols`.
struct WeightShape {
  int64_t outer, rows, cols;
  moek::Format format;
  Layout layout;

  int64_t rowBytes() const {
    return moek::rowBytes(moek::Layout(layout), format, cols);
  }
  /// Returns the bytes of one matrix without the gaps between matrices. A
  /// layout of panels pads the last panel.
  int64_t matrixBytes() const;
  /// Returns the bytes of all matrices.
  int64_t bytes() const { return outer * matrixBytes(); }
};

} // namespace mlir::plan

#include "dialects/plan/PlanOpInterfaces.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"

namespace mlir::plan {

/// Returns the shape of `weight`, the result of an entry of the weight table.
inline WeightShape shapeOf(Value weight) {
  return cast<WeightEntryInterface>(weight.getDefiningOp()).getWeightShape();
}

} // namespace mlir::plan

#endif // MOE_DIALECTS_PLAN_PLAN_H
