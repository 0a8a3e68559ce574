//===- PlanReader.h - flatbuffer to plan dialect ----------------*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_PLANREADER_H
#define MOE_COMPILER_SERIALIZE_PLANREADER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/base/Status.h"

namespace moert::fb {
struct Plan;
struct Tokenizer;
} // namespace moert::fb

namespace moec {

/// A module with the plan.program that serialises to the same bytes, of a
/// ladder with one of each rung. `plan` is of a moert::Plan, which proved every
/// index and size in range; for one of its rungs alone, so is `tokenizer`.
/// Loads the plan dialect into `context`. Fails with InvalidFile for what the
/// dialect's verifiers reject beyond that.
moert::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
readPlan(mlir::MLIRContext &context, const moert::fb::Plan &plan,
         const moert::fb::Tokenizer *tokenizer = nullptr);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_PLANREADER_H
