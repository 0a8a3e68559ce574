//===- PlanScratch.h - Memory per worker of an instruction ------*- C++ -*-===//

#ifndef MOE_PASSES_PLANSCRATCH_H
#define MOE_PASSES_PLANSCRATCH_H

#include "dialects/plan/Plan.h"

namespace mlir::plan {

/// Bytes of private memory that each worker needs to run `inst`, by the
/// formulas of kernels/Scratch.h.
int64_t scratchBytes(InstOp inst);

/// The same before there is an instruction: `parameter` gives those that
/// runtime/schema/OpTable.h names.
int64_t scratchBytes(moek::OpCode op,
                     llvm::function_ref<int64_t(StringRef)> parameter);

} // namespace mlir::plan

#endif // MOE_PASSES_PLANSCRATCH_H
