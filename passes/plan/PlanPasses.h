//===- PlanPasses.h - Passes on the plan dialect --------------*- C++ -*-===//

#ifndef MOE_PASSES_PLAN_PLANPASSES_H
#define MOE_PASSES_PLAN_PLANPASSES_H

#include "dialects/moe/Moe.h"
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

#include <memory>
#include <string>

namespace mlir::plan {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/plan/PlanPasses.h.inc"

struct PlanPipelineOptions : PassPipelineOptions<PlanPipelineOptions> {
  Option<std::string> userOptions{*this, "options",
                                  llvm::cl::desc("The user's options"),
                                  llvm::cl::init("")};
};

/// Adds the passes from the placed graph with kernels (the result of
/// moe-compile) to a plan that only lacks its tokenizer, the code of its
/// kernels and plan-pack-weights.
void buildPlanPipeline(OpPassManager &manager,
                       const PlanPipelineOptions &options);

/// Returns the bytes of weights that plan-pack-weights with `load` leaves to
/// moert and otherwise writes; of several programs, those of the one with most.
int64_t loadableBytes(::mlir::ModuleOp module);

/// Registers the passes and `moe-plan` with the global pass registry.
void registerPlanPassesAndPipeline();

} // namespace mlir::plan

#endif // MOE_PASSES_PLAN_PLANPASSES_H
