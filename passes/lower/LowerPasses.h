//===- LowerPasses.h - From the placed graph to a plan ----------*- C++ -*-===//

#ifndef MOE_PASSES_LOWER_LOWERPASSES_H
#define MOE_PASSES_LOWER_LOWERPASSES_H

#include "dialects/moe/Moe.h"
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>

namespace mlir::plan {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/lower/LowerPasses.h.inc"

} // namespace mlir::plan

#endif // MOE_PASSES_LOWER_LOWERPASSES_H
