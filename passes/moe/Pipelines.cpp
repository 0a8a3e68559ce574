#include "passes/moe/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/moe/Passes.h"
#include "passes/moe/ReduceExperts.h"
#include "passes/moe/StreamExperts.h"

using namespace mlir;
using namespace mlir::moe;

/// A graph with phases to one with devices.
static void addPlacement(OpPassManager &manager,
                         const CompileOptions &options) {
  // What is computed, before where: placement counts what these leave.
  manager.addPass(createChooseKvTypesPass({.types = options.kvType}));
  manager.addPass(createSizeCachesPass({.budget = options.kvBudget}));
  AbsorbMlaPassOptions absorb;
  absorb.form = options.mla;
  absorb.weights = options.weights;
  manager.addPass(createAbsorbMlaPass(absorb));
  if (options.experts != 0)
    manager.addPass(createReduceExpertsPass({.experts = options.experts}));
  else if (!options.layerExperts.empty())
    manager.addPass(createReduceLayerExpertsPass(SmallVector<int64_t>(
        options.layerExperts.begin(), options.layerExperts.end())));
  if (!options.place.empty() || !options.tensorRules.empty() ||
      options.cpuMoeLayers != 0 || options.gpuLayers >= 0) {
    SmallVector<std::string> rules(options.place.begin(), options.place.end());
    SmallVector<std::string> tensorRules(options.tensorRules.begin(),
                                         options.tensorRules.end());
    manager.addPass(
        createApplyRulesPass({.rules = rules,
                              .tensorRules = tensorRules,
                              .cpuMoeLayers = options.cpuMoeLayers,
                              .gpuLayers = options.gpuLayers,
                              .allowUnmatched = options.allowUnmatched}));
  }
  manager.addPass(createHoldAttentionPass());
  manager.addPass(createChooseNodesPass({.use = options.numa,
                                         .optimizeFor = options.optimizeFor,
                                         .typicalPrompt = options.typicalPrompt,
                                         .deferExperts = options.deferExperts,
                                         .weights = options.weights}));
  manager.addPass(
      createPlaceDevicesPass({.optimizeFor = options.optimizeFor,
                              .typicalPrompt = options.typicalPrompt,
                              .streamExperts = options.streamExperts,
                              .deferExperts = options.deferExperts,
                              .weights = options.weights}));
}

/// Whether something that placement counts is decided by device: the form of
/// attention, or how W_UK lies.
static bool dependsOnDevices(const CompileOptions &options) {
  bool transposes = options.mla == MlaForm::Factored &&
                    options.weights != WeightsMode::Reference;
  return options.mla == MlaForm::Auto || transposes;
}

void moe::buildCompilePipeline(OpPassManager &manager,
                               const CompileOptions &options) {
  manager.addPass(
      createSpecializePhasesPass({.ubatch = options.ubatch,
                                  .context = options.context,
                                  .decodeTokens = options.decodeTokens,
                                  .sequences = options.sequences}));
  if (dependsOnDevices(options)) {
    OpPassManager trial(ModuleOp::getOperationName());
    addPlacement(trial, options);
    manager.addPass(createForeseeDevicesPass(trial));
  }
  addPlacement(manager, options);
  manager.addPass(createStreamExpertsPass(
      options.streamExperts, options.weights != WeightsMode::Reference));
  // Placement is of whole layers' experts, the same in all phases.
  if (options.deferExperts != 0)
    manager.addPass(createDeferExpertsPass({.experts = options.deferExperts}));
  // Fusion joins ops of one device only, so it follows placement.
  manager.addPass(createFusePass());
  manager.addPass(createInsertTransfersPass());
  manager.addPass(createSelectKernelsPass({.weights = options.weights}));
}

void moe::registerPassesAndPipelines() {
  registerMoePasses();
  registerStreamExpertsPass();
  PassPipelineRegistration<CompileOptions>(
      "moe-compile", "Model graph to placed graph with kernels",
      buildCompilePipeline);
}
