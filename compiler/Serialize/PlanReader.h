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

/// Returns a module with the plan.program that serialises to the same bytes;
/// for a ladder, with one program per rung. `plan` belongs to a moert::Plan,
/// which has verified every index and size. For a single rung of a ladder,
/// `tokenizer` is the ladder's. Loads the plan dialect into `context`. Fails
/// with InvalidFile if the verifiers of the dialect reject the plan.
moert::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
readPlan(mlir::MLIRContext &context, const moert::fb::Plan &plan,
         const moert::fb::Tokenizer *tokenizer = nullptr);

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_PLANREADER_H
