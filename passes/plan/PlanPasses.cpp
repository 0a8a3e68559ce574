#include "passes/plan/PlanPasses.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/lower/LowerPasses.h"

using namespace mlir;
using namespace mlir::plan;

void plan::buildPlanPipeline(OpPassManager &manager,
                             const PlanPipelineOptions &options) {
  manager.addPass(createLowerToPlanPass({.userOptions = options.userOptions}));
  // What each worker does for itself decides the order.
  manager.addPass(createPlanReplicatePass());
  // Order decides lifetimes, lifetimes decide offsets, offsets decide barriers.
  manager.addPass(createPlanOrderPass());
  manager.addPass(createPlanAllocatePass());
  manager.addPass(createPlanSchedulePass());
  // What barriers cost is known once they are there.
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
