// Placements for models of all architectures on random machines: each is within
// its budgets, and by its own prediction no slower than the simple placements
// that other programs use; for the first seeds, more GPU memory makes no
// placement slower; and the runtime accepts the plans. There are a thousand
// seeds.

#include "test/unit/RandomPlacement.h"

#include <gtest/gtest.h>
#include <regex>

using namespace moetest;

namespace {

/// Adds rules that match something in every model, or no rules.
std::string addRules(Dice &dice, moec::CompileRequest &request) {
  switch (dice.upTo(9)) {
  case 0:
    request.place.emplace_back("blk.*.attn_*=gpu0");
    return "attention on a GPU";
  case 1:
    request.place.emplace_back("*=cpu0");
    return "all on the CPU";
  case 2:
    request.gpuLayers = dice.upTo(8);
    return "-ngl";
  case 3:
    request.tensorRules.emplace_back("blk\\.[02]\\.=gpu0");
    return "layers 0 and 2 on a GPU";
  case 4:
    request.optimizeFor = dice.upTo(1) ? "decode" : "prefill";
    return "";
  case 5:
    request.sequences = 2 + dice.upTo(6);
    return "";
  default:
    return "";
  }
}

constexpr unsigned kPlacementRandomShards = 20, kPlacementRandomSeeds = 50;

/// For these shards, more memory is tried too
/// (passes/moe/placement/PlacementSearch.h).
constexpr unsigned kEnlargedShards = 4;

class RandomPlacements : public testing::TestWithParam<unsigned> {};

TEST_P(RandomPlacements, KeepToBudgetsAndAreNoSlowerThanSimplePlacements) {
  TempDir folder;
  RandomModels models(folder);
  ASSERT_GT(models.smallOnes(), 25u);
  unsigned compiled = 0, withGpu = 0, compared = 0, enlarged = 0, divided = 0;
  for (unsigned i = 0; i < kPlacementRandomSeeds; ++i) {
    unsigned seed = GetParam() * kPlacementRandomSeeds + i;
    Dice dice(seed);
    RandomModel model = models.choose(dice);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + model.path);
    Machine machine = machineOf(dice, model);
    moec::CompileRequest request = requestFor(dice, model);
    std::string rules = addRules(dice, request);
    SCOPED_TRACE(rules);
    auto report = place(folder, request, machine);
    if (!report) {
      // Rules may request ops for which a GPU has no kernels.
      bool isOfRules = !rules.empty() &&
                       report.status().code() == moert::StatusCode::Unsupported;
      EXPECT_TRUE(isOfRules ||
                  report.status().message().find("the model does not fit") !=
                      std::string::npos)
          << report.status().message();
      continue;
    }
    ++compiled;
    for (const auto &device : report->forecast->devices) {
      EXPECT_LE(device.usedBytes, device.budgetBytes) << device.name;
      withGpu += device.name == "gpu0";
    }
    if (i % 2 == 0) {
      auto plan = writePlan(folder, request, machine);
      ASSERT_TRUE(plan.isOk()) << plan.status().message();
      moert::Status verdict = alternativeText(plan->output);
      EXPECT_TRUE(verdict.isOk()) << verdict.message();
    }
    auto predicted = predictedBy(*report);
    if (!predicted || request.optimizeFor != "balanced")
      continue;
    // Predictions are printed with at least two digits.
    ++compared;
    std::string remark = remarkOf(*report, "predicted ");
    EXPECT_LE(0.99 * predicted->own, predicted->onHost) << remark;
    EXPECT_LE(0.99 * predicted->own, predicted->classic) << remark;

    divided += std::regex_search(remarkOf(*report, "gpu0 has "),
                                 std::regex("[0-9]+ of [0-9]+ experts of"));
    if (GetParam() >= kEnlargedShards || i % 4 != 0 || !rules.empty())
      continue;
    machine.enlargeGpus(dice.between(1.02, 3));
    report = place(folder, request, machine);
    ASSERT_TRUE(report.isOk()) << report.status().message();
    ++enlarged;
    EXPECT_LE(0.99 * predictedBy(*report)->own, predicted->own)
        << remark << "\nwith more memory: " << remarkOf(*report, "predicted ");
  }
  EXPECT_GT(compiled, kPlacementRandomSeeds / 2);
  EXPECT_GT(withGpu, kPlacementRandomSeeds / 4);
  EXPECT_GT(compared, kPlacementRandomSeeds / 4);
  EXPECT_TRUE(enlarged > 0 || GetParam() >= kEnlargedShards);
  EXPECT_GT(divided, 0u);
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomPlacements,
                         testing::Range(0u, kPlacementRandomShards));

} // namespace
