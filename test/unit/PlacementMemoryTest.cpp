// More memory slows no placement: random models on random machines, on which
// first the memory of GPUs grows step by step, then the host's, then the number
// of GPUs. Each step is within its budgets, and its prediction is no slower
// than the previous one, to the last digit
// (passes/moe/placement/PlacementSearch.h).

#include "compiler/Driver/Compilation.h"
#include "compiler/Machine/Targets/TargetAttr.h"
#include "mlir/Pass/PassManager.h"
#include "models/Model.h"
#include "passes/moe/Passes.h"
#include "passes/moe/placement/PlacementSearch.h"
#include "test/unit/RandomPlacement.h"

#include <gtest/gtest.h>
#include <limits>

using namespace mlir::moe;
using namespace moetest;

namespace {

/// Returns a model's graph with phases, as placement gets it.
mlir::OwningOpRef<mlir::ModuleOp> graphOf(mlir::MLIRContext &context,
                                          const moec::CompileRequest &request,
                                          const moec::TargetDesc &target) {
  auto model = moec::GgufModel::open(request.model);
  EXPECT_TRUE(model.isOk()) << model.status().message();
  auto module = moec::importModel(context, *model);
  EXPECT_TRUE(module.isOk()) << module.status().message();
  (**module)->setAttr(kTargetAttr, moec::toAttr(&context, target));
  mlir::PassManager manager(&context);
  manager.addPass(createSpecializePhasesPass(
      {.ubatch = std::min(request.ubatch, request.context),
       .context = request.context}));
  manager.addPass(createChooseKvTypesPass());
  manager.addPass(createSizeCachesPass());
  manager.addPass(createAbsorbMlaPass());
  EXPECT_TRUE(mlir::succeeded(manager.run(**module)));
  return *std::move(module);
}

/// Predicts the request's seconds for one target after the other; infinite if
/// nothing fits.
class Ladder {
public:
  Ladder(mlir::MLIRContext &context, const moec::CompileRequest &request,
         const moec::TargetDesc &target, Objective objective)
      : module_(graphOf(context, request, target)), problem_(*module_, target),
        times_(problem_, target, requestMix(*module_, objective, 1024, 0),
               /*mayPack=*/true) {}

  double place(const moec::TargetDesc &target) const {
    PlacementSearch search(problem_, target, times_);
    PlacementSearch::Choice choice = search.run();
    if (!choice.fits)
      return std::numeric_limits<double>::infinity();
    EXPECT_TRUE(search.fits(choice.use));
    for (size_t i = 0; i < target.devices.size(); ++i)
      EXPECT_EQ(choice.use[i].total(),
                problem_.memoryUse(choice.assignment, choice.splits)[i].total())
          << target.devices[i].name;
    double own = times_.predict(choice.assignment, choice.splits).request;
    EXPECT_EQ(choice.predicted.request, own);
    for (const auto &start : {search.allOnHost(), search.classicSplit()}) {
      if (search.fits(problem_.memoryUse(start))) {
        EXPECT_LE(own, times_.predict(start).request);
      }
    }
    return own;
  }

private:
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  PlacementProblem problem_;
  StepPrediction times_;
};

void setMemory(moec::DeviceDesc &device, double bytes) {
  device.memoryBytes = uint64_t(bytes);
  device.reservedBytes = 0;
}

/// The tolerance for a sum of the same figures in another order.
constexpr double kExact = 1 + 1e-12;

constexpr unsigned kPlacementMemoryShards = 8, kPlacementMemorySeeds = 40;

class MoreMemory : public testing::TestWithParam<unsigned> {};

TEST_P(MoreMemory, SlowsNoPrediction) {
  TempDir folder;
  RandomModels models(folder);
  mlir::MLIRContext context;
  moec::loadDialects(context);
  unsigned steps = 0, faster = 0;
  for (unsigned i = 0; i < kPlacementMemorySeeds; ++i) {
    unsigned seed = GetParam() * kPlacementMemorySeeds + i;
    Dice dice(seed);
    RandomModel model = models.choose(dice);
    Machine machine = machineOf(dice, model);
    moec::CompileRequest request = requestFor(dice, model);
    constexpr Objective objectives[] = {Objective::Balanced, Objective::Decode,
                                        Objective::Prefill};
    Objective objective = objectives[dice.upTo(2)];
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + model.path);
    auto target = moec::loadTargetFile(folder.write(
        "machine.json", Json({{"devices", machine.devices}}).dump()));
    ASSERT_TRUE(target.isOk()) << target.status().message();
    size_t gpus = machine.gpus();

    Ladder ladder(context, request, *target, objective);
    double before = std::numeric_limits<double>::infinity();
    auto step = [&](const Ladder &on, const char *what) {
      double seconds = on.place(*target);
      EXPECT_LE(seconds, before * kExact) << what;
      ++steps;
      faster += seconds < before;
      before = seconds;
    };
    // Memory for a hundredth of the model to several times its size.
    std::vector<double> share(gpus);
    for (double &part : share)
      part = dice.between(0.01, 0.2);
    setMemory(target->devices.back(), 4 * model.bytes);
    for (int rung = 0; rung < 10; ++rung) {
      for (size_t gpu = 0; gpu < gpus; ++gpu) {
        setMemory(target->devices[gpu], share[gpu] * model.bytes);
        share[gpu] *= dice.upTo(3) ? dice.between(1, 2) : 1;
      }
      step(ladder, "memory of GPUs");
    }
    before = std::numeric_limits<double>::infinity();
    for (double part = 0.2; part < 4; part *= dice.between(1.1, 2.2)) {
      setMemory(target->devices.back(), part * model.bytes);
      step(ladder, "memory of the host");
    }
    moec::DeviceDesc another = target->devices[gpus - 1];
    another.name = "gpu" + std::to_string(gpus);
    target->devices.insert(target->devices.end() - 1, another);
    step(Ladder(context, request, *target, objective), "another GPU");
  }
  EXPECT_GT(steps, 10 * kPlacementMemorySeeds);
  EXPECT_GT(faster, 3 * kPlacementMemorySeeds);
}

INSTANTIATE_TEST_SUITE_P(Shards, MoreMemory,
                         testing::Range(0u, kPlacementMemoryShards));

} // namespace
