#include "passes/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace mlir::moe;

/// A graph with phases to one with devices.
static void addPlacement(OpPassManager &manager,
                         const CompileOptions &options) {
  // What is computed, before where: placement counts what these leave.
  AbsorbMlaPassOptions absorb;
  absorb.form = options.mla;
  absorb.weights = options.weights;
  manager.addPass(createAbsorbMlaPass(absorb));
  if (options.experts != 0)
    manager.addPass(createReduceExpertsPass({.experts = options.experts}));
  if (!options.place.empty()) {
    SmallVector<std::string> rules(options.place.begin(), options.place.end());
    manager.addPass(createApplyRulesPass({.rules = rules}));
  }
  manager.addPass(createPlaceDevicesPass());
}

void moe::buildCompilePipeline(OpPassManager &manager,
                               const CompileOptions &options) {
  manager.addPass(
      createSpecializePhasesPass({.ubatch = options.ubatch,
                                  .context = options.context,
                                  .decodeTokens = options.decodeTokens,
                                  .sequences = options.sequences,
                                  .kvBudget = options.kvBudget,
                                  .kvType = options.kvType}));
  OpPassManager trial(ModuleOp::getOperationName());
  addPlacement(trial, options);
  manager.addPass(createForeseeDevicesPass(trial));
  addPlacement(manager, options);
  // Fusion joins ops of one device only, so it follows placement.
  manager.addPass(createFusePass());
  manager.addPass(createInsertTransfersPass());
  manager.addPass(createSelectKernelsPass({.weights = options.weights}));
}

void moe::registerPassesAndPipelines() {
  registerMoePasses();
  PassPipelineRegistration<CompileOptions>(
      "moe-compile", "Model graph to placed graph with kernels",
      buildCompilePipeline);
}
