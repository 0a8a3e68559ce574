//===- Passes.h - Passes and pipelines --------------------------*- C++ -*-===//

#ifndef MOE_PASSES_MOE_PASSES_H
#define MOE_PASSES_MOE_PASSES_H

#include "dialects/moe/Moe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "passes/moe/PassEnums.h"

#include <memory>

namespace mlir::moe {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/moe/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_PASSES_MOE_PASSES_H
