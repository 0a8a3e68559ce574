#include "passes/plan/PlanPasses.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/lower/LowerPasses.h"

using namespace mlir;
using namespace mlir::plan;

void plan::buildPlanPipeline(OpPassManager &manager,
                             const PlanPipelineOptions &options) {
  manager.addPass(createLowerToPlanPass({.userOptions = options.userOptions}));
  // Replication removes barriers, so it precedes ordering.
  manager.addPass(createPlanJoinHeadPass());
  manager.addPass(createPlanReplicatePass());
  // Order determines lifetimes, lifetimes determine offsets, and offsets
  // determine barriers.
  manager.addPass(createPlanOrderPass());
  manager.addPass(createPlanAllocatePass());
  manager.addPass(createPlanSchedulePass());
  // The cost of barriers is only known once they are placed.
  manager.addPass(createPlanOverheadPass());
  manager.addPass(createPlanLaunchesPass());
  manager.addPass(createPlanCheckMemoryPass());
}

void plan::registerPlanPassesAndPipeline() {
  registerPlanLoweringPasses();
  registerPlanPasses();
  PassPipelineRegistration<PlanPipelineOptions>(
      "moe-plan", "Placed graph with kernels to plan", buildPlanPipeline);
}
