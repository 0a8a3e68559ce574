// Placements for models of all architectures on random machines: each is within
// its budgets, and by its own prediction no slower than the simple placements
// that other programs use, and what it predicts is what the plan adds up to;
// for the first seeds, more GPU memory makes no placement slower; and the
// runtime accepts the plans. There are a thousand seeds.

#include "compiler/Explain/Summary.h"
#include "compiler/Machine/Targets/Target.h"
#include "test/unit/RandomPlacement.h"

#include <gmock/gmock.h>
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
  unsigned compiled = 0, withGpu = 0, compared = 0, enlarged = 0, divided = 0,
           believed = 0, beyond = 0;
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
    // Two groups of experts that share a router are predicted a few percent too
    // fast if one of them is divided (grovemoe).
    BeliefCount beliefs = expectBeliefs(*report, 6 * kBelief);
    believed += beliefs.compared;
    beyond += beliefs.beyond;
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
  EXPECT_LE(beyond, believed / 20);
  EXPECT_GT(compiled, kPlacementRandomSeeds / 2);
  EXPECT_GT(withGpu, kPlacementRandomSeeds / 4);
  EXPECT_GT(compared, kPlacementRandomSeeds / 4);
  EXPECT_TRUE(enlarged > 0 || GetParam() >= kEnlargedShards);
  EXPECT_GT(divided, 0u);
  EXPECT_GT(believed, compiled);
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomPlacements,
                         testing::Range(0u, kPlacementRandomShards));

/// Returns an error unless a decoded token takes at least as long as the memory
/// needs to be read.
moert::Status checkDecode(const std::string &path, const Machine &machine) {
  MOE_ASSIGN_OR_RETURN(moert::Plan plan, moert::Plan::load(path));
  moec::ExplainSummary summary(plan.table());
  const moec::PhaseCost *decode = summary.phase(moert::PhaseKind::Decode);
  double rate = 0, bytes = 0;
  for (const Json &device : machine.devices)
    rate = std::max(rate, 1e9 * device["read_gbps"].get<double>());
  for (const moec::OpCost &op : decode->ops)
    bytes += op.weightBytes + op.kvBytes;
  double least = bytes / (rate * moec::Peak::kAssumedRead);
  if (decode->seconds >= 0.999 * least)
    return moert::Status::ok();
  return moert::Status(moert::StatusCode::InvalidFile,
                       "a token takes " + std::to_string(decode->seconds) +
                           " s, the memory " + std::to_string(least) + " s");
}

class RandomMemories : public testing::TestWithParam<unsigned> {};

// GPU and CPU have one memory, which often is too small: plans keep to the one
// budget, more of it makes none slower, and no token is read faster than the
// memory allows.
TEST_P(RandomMemories, OneBudgetAndOneBandwidth) {
  constexpr unsigned seeds = 25;
  TempDir folder;
  RandomModels models(folder);
  unsigned compiled = 0, refused = 0, onBoth = 0;
  for (unsigned i = 0; i < seeds; ++i) {
    unsigned seed = GetParam() * seeds + i;
    Dice dice(10000 + seed);
    RandomModel model = models.choose(dice);
    Machine machine = machineOfOneMemory(dice, model);
    moec::CompileRequest request = requestFor(dice, model);
    // Some experts and attention on the CPU, so that both devices work.
    std::string rules;
    if (dice.upTo(1))
      request.place.emplace_back(rules = "blk.[13].*=cpu0");
    if (dice.upTo(1)) // Layouts besides the file's.
      request.weights = "load";
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + model.path + " " +
                 rules);
    std::optional<double> before;
    for (double times : {1., dice.between(1.02, 2), 4.}) {
      machine.enlargeHost(times);
      auto report = place(folder, request, machine);
      if (!report) {
        EXPECT_FALSE(before) << report.status().message();
        EXPECT_THAT(report.status().message(),
                    testing::HasSubstr("the model does not fit"));
        ++refused;
        continue;
      }
      ++compiled;
      expectBeliefs(*report);
      ASSERT_FALSE(report->forecast->devices.empty());
      uint64_t used = 0, budget = 0;
      for (const auto &device : report->forecast->devices) {
        EXPECT_LE(device.usedBytes, device.budgetBytes) << device.name;
        // The CPU's has that of both.
        used = std::max(used, device.usedBytes);
        budget = std::max(budget, device.budgetBytes);
      }
      EXPECT_LE(used, budget);
      onBoth += report->forecast->devices.size() == 2;
      auto predicted = predictedBy(*report);
      ASSERT_TRUE(predicted);
      EXPECT_LE(0.99 * predicted->own, predicted->onHost);
      EXPECT_LE(0.99 * predicted->own, predicted->classic);
      if (before) {
        EXPECT_LE(0.99 * predicted->own, *before) << "with more memory";
      }
      before = predicted->own;
      if (i % 3 == 0) {
        auto plan = writePlan(folder, request, machine);
        ASSERT_TRUE(plan.isOk()) << plan.status().message();
        for (const moert::Status &verdict :
             {alternativeText(plan->output),
              checkDecode(plan->output, machine)})
          EXPECT_TRUE(verdict.isOk()) << verdict.message();
      }
    }
  }
  EXPECT_GT(compiled, seeds);
  EXPECT_GT(refused, 0u);
  EXPECT_GT(onBoth, 0u);
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomMemories, testing::Range(0u, 4u));

} // namespace
