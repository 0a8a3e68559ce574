#include "passes/moe/pipeline/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/moe/Passes.h"

using namespace mlir;
using namespace mlir::moe;

template <class T, class U>
static void copyOption(T &to, const PipelineOption<U> &from) {
  to = from;
}
/// The pass copies the list when it is created.
static void copyOption(ArrayRef<std::string> &to,
                       const PipelineOption<std::vector<std::string>> &from) {
  if (!from.empty())
    to = ArrayRef(&*from.begin(), from.size());
}

/// Returns the options of a pass, taken from pipeline options of the same name.
template <class PassOptions>
static PassOptions optionsFor(const CompileOptions &options) {
  PassOptions result;
#define MOE_PASS_OPTION(field, Type, PassType, fallback, ...)                  \
  if constexpr (requires { result.field; })                                    \
    copyOption(result.field, options.field);
#include "compiler/Options/Options.def"
  return result;
}

/// Adds the passes from a graph with phases to one with devices.
static void addPlacement(OpPassManager &manager,
                         const CompileOptions &options) {
  // Passes that change what is computed come first, because placement counts
  // their results.
  manager.addPass(
      createChooseKvTypesPass(optionsFor<ChooseKvTypesPassOptions>(options)));
  manager.addPass(
      createSizeCachesPass(optionsFor<SizeCachesPassOptions>(options)));
  manager.addPass(
      createAbsorbMlaPass(optionsFor<AbsorbMlaPassOptions>(options)));
  auto reduce = optionsFor<ReduceExpertsPassOptions>(options);
  if (!options.layerExperts.empty())
    reduce.layerExperts =
        ArrayRef(&*options.layerExperts.begin(), options.layerExperts.size());
  if (options.experts != 0 || !options.layerExperts.empty())
    manager.addPass(createReduceExpertsPass(reduce));
  if (!options.place.empty() || !options.tensorRules.empty() ||
      options.cpuMoeLayers != 0 || options.gpuLayers >= 0)
    manager.addPass(
        createApplyRulesPass(optionsFor<ApplyRulesPassOptions>(options)));
  manager.addPass(createUseNodesPass(optionsFor<UseNodesPassOptions>(options)));
  manager.addPass(
      createPlaceDevicesPass(optionsFor<PlaceDevicesPassOptions>(options)));
}

void moe::buildCompilePipeline(OpPassManager &manager,
                               const CompileOptions &options) {
  auto phases = optionsFor<SpecializePhasesPassOptions>(options);
  phases.decodeTokens = options.decodeTokens;
  if (options.context == 0)
    phases.context = SpecializePhasesPassOptions().context;
  manager.addPass(createSpecializePhasesPass(phases));
  addPlacement(manager, options);
  auto stream = optionsFor<StreamExpertsPassOptions>(options);
  stream.streamSource = options.streamSource;
  manager.addPass(createStreamExpertsPass(stream));
  // Experts are deferred after placement, which handles whole layers and gives
  // the same devices in all phases.
  if (options.deferExperts != 0)
    manager.addPass(
        createDeferExpertsPass(optionsFor<DeferExpertsPassOptions>(options)));
  // Fusion only joins ops of one device, so it follows placement.
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
