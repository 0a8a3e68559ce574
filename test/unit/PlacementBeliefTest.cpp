// What placement predicts of a step and what the plan adds up to are the same,
// for models of all architectures on several machines and with options that
// change what a step does. PlacementRandomTest compares them on random
// machines.

#include "test/unit/RandomPlacement.h"

#include <gtest/gtest.h>

using namespace moetest;

namespace {

struct Case {
  const char *target;
  int64_t deferred = 0;
  const char *rule = nullptr;
};

class PlacementBelief : public testing::TestWithParam<Case> {};

TEST_P(PlacementBelief, IsWhatThePlanAddsUpTo) {
  TempDir folder;
  RandomModels models(folder);
  unsigned compared = 0;
  for (const std::string &model : models.small()) {
    SCOPED_TRACE(model);
    moec::CompileRequest request;
    request.model = model;
    request.context = 64;
    request.ubatch = 16;
    request.weights = "load";
    request.emit = moec::Emit::Forecast;
    request.verbose = true;
    request.target = GetParam().target;
    request.deferExperts = GetParam().deferred;
    if (GetParam().rule)
      request.place.emplace_back(GetParam().rule);
    // Not every model has experts to defer, or what a rule names.
    if (auto report = moec::compileModel(request))
      compared += expectBeliefs(*report).compared;
  }
  EXPECT_GT(compared, 10u);
}

INSTANTIATE_TEST_SUITE_P(
    Targets, PlacementBelief,
    testing::Values(Case{"4090+xeon"}, Case{"xeon"}, Case{"2x3090+ryzen-7950x"},
                    Case{"4090+raspberry-pi-5"}, Case{"4090+xeon", 0, "*=gpu0"},
                    Case{"4090+xeon", 1, "blk.*.ffn_experts=cpu0"},
                    Case{"4090+xeon", 0, "blk.*.ffn_experts=cpu0"}),
    [](const testing::TestParamInfo<Case> &info) {
      return "Number" + std::to_string(info.index);
    });

} // namespace
