#include "passes/moe/pipeline/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/moe/Passes.h"
#include "passes/moe/graph/ReduceExperts.h"

using namespace mlir;
using namespace mlir::moe;

template <class T, class U>
static void copyOption(T &to, const PipelineOption<U> &from) {
  to = from;
}
/// The pass copies the list when it is made.
static void copyOption(ArrayRef<std::string> &to,
                       const PipelineOption<std::vector<std::string>> &from) {
  if (!from.empty())
    to = ArrayRef(&*from.begin(), from.size());
}

/// The options of a pass: those of the pipeline with the same names.
template <class PassOptions>
static PassOptions optionsFor(const CompileOptions &options) {
  PassOptions result;
#define MOE_PASS_OPTION(field, Type, PassType, fallback, ...)                  \
  if constexpr (requires { result.field; })                                    \
    copyOption(result.field, options.field);
#include "compiler/Options/Options.def"
  return result;
}

/// A graph with phases to one with devices.
static void addPlacement(OpPassManager &manager,
                         const CompileOptions &options) {
  // What is computed, before where: placement counts what these leave.
  manager.addPass(
      createChooseKvTypesPass(optionsFor<ChooseKvTypesPassOptions>(options)));
  manager.addPass(
      createSizeCachesPass(optionsFor<SizeCachesPassOptions>(options)));
  manager.addPass(
      createAbsorbMlaPass(optionsFor<AbsorbMlaPassOptions>(options)));
  if (options.experts != 0)
    manager.addPass(
        createReduceExpertsPass(optionsFor<ReduceExpertsPassOptions>(options)));
  else if (!options.layerExperts.empty())
    manager.addPass(createReduceLayerExpertsPass(SmallVector<int64_t>(
        options.layerExperts.begin(), options.layerExperts.end())));
  if (!options.place.empty() || !options.tensorRules.empty() ||
      options.cpuMoeLayers != 0 || options.gpuLayers >= 0)
    manager.addPass(
        createApplyRulesPass(optionsFor<ApplyRulesPassOptions>(options)));
  manager.addPass(createHoldAttentionPass());
  manager.addPass(
      createChooseNodesPass(optionsFor<ChooseNodesPassOptions>(options)));
  manager.addPass(
      createPlaceDevicesPass(optionsFor<PlaceDevicesPassOptions>(options)));
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
  auto phases = optionsFor<SpecializePhasesPassOptions>(options);
  phases.decodeTokens = options.decodeTokens;
  if (options.context == 0)
    phases.context = SpecializePhasesPassOptions().context;
  manager.addPass(createSpecializePhasesPass(phases));
  if (dependsOnDevices(options)) {
    OpPassManager trial(ModuleOp::getOperationName());
    addPlacement(trial, options);
    manager.addPass(createForeseeDevicesPass(trial));
  }
  addPlacement(manager, options);
  manager.addPass(
      createStreamExpertsPass(optionsFor<StreamExpertsPassOptions>(options)));
  // Placement is of whole layers' experts, the same in all phases.
  if (options.deferExperts != 0)
    manager.addPass(
        createDeferExpertsPass(optionsFor<DeferExpertsPassOptions>(options)));
  // Fusion joins ops of one device only, so it follows placement.
  manager.addPass(createFusePass());
  manager.addPass(createInsertTransfersPass());
  manager.addPass(
      createSelectKernelsPass(optionsFor<SelectKernelsPassOptions>(options)));
}

void moe::registerPassesAndPipelines() {
  registerMoePasses();
  PassPipelineRegistration<CompileOptions>(
      "moe-compile", "Model graph to placed graph with kernels",
      buildCompilePipeline);
}
