// Options of placement on models of all architectures and random machines:
// ladders, router profiles, all forms of rules, streamed and deferred experts.
// The runtime accepts every plan, each device is within its budget, and the
// plan does what the options request.

#include "compiler/Import/GgufFile.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/plan_generated.h"
#include "test/unit/RandomPlacement.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

using namespace moetest;

namespace {

/// The routers of a model, for which profiles are made.
struct Routers {
  explicit Routers(const std::string &path) {
    auto opened = moec::GgufModel::open(path);
    EXPECT_TRUE(opened.isOk()) << opened.status().message();
    std::string family(opened->architecture());
    auto number = [&](const char *key) {
      auto found = opened->getUint(family + key);
      return found && *found ? int64_t(**found) : 0;
    };
    used = number(".expert_used_count");
    int64_t count = number(".block_count") - number(".nextn_predict_layers");
    for (int64_t layer = 0; layer < count; ++layer) {
      std::string prefix = fmt::format("blk.{}.", layer);
      const moec::GgufTensor *weight =
          opened->findTensor(prefix + "ffn_gate_inp.weight");
      // Layers with a table from token to experts do not choose experts by
      // score.
      if (!weight || opened->findTensor(prefix + "ffn_gate_tid2eid.weight"))
        continue;
      experts = int64_t(weight->shape[1]);
      layers.push_back(layer);
    }
  }

  int64_t some(Dice &dice) const {
    return layers[size_t(dice.upTo(int(layers.size()) - 1))];
  }

  std::vector<int64_t> layers;
  int64_t used = 0, experts = 0;
};

/// Writes a profile in which some experts are used more than others, by all
/// tokens or by few.
std::string profile(TempDir &folder, Dice &dice, const Routers &routers) {
  Json layers = Json::array();
  for (int64_t layer : routers.layers) {
    double bend = dice.between(0.1, 3);
    Json frequency = Json::array(), mass = Json::array();
    for (int64_t expert = 0; expert < routers.experts; ++expert)
      frequency.push_back(std::pow(
          1.0 / double(1 + (5 * expert + 3 * layer) % routers.experts), bend));
    for (int64_t rank = 0; rank < routers.used; ++rank)
      mass.push_back(1.0 / double(1 + rank));
    layers.push_back({{"layer", layer},
                      {"experts", routers.experts},
                      {"experts_used", routers.used},
                      {"frequency", frequency},
                      {"mass_by_rank", mass}});
  }
  return folder.write("router.json", Json({{"kind", "moert router profile"},
                                           {"version", 1},
                                           {"layers", layers}})
                                         .dump());
}

/// Where ops have to be: the experts of these layers on the CPU, the attention
/// of a layer on a GPU.
struct Wanted {
  std::vector<int64_t> expertsOnCpu;
  int64_t attentionOnGpu = -1;
  /// Whether the experts may be copied to a GPU in long steps of a prompt.
  bool mayStream = true;
};

void addLadder(Dice &dice, const Machine &machine,
               moec::CompileRequest &request) {
  int64_t longest = request.context;
  request.context = 0;
  request.ladder = {{longest / 2, 0}, {longest, 0}};
  double whole =
      double(machine.vramLimit
                 ? machine.vramLimit
                 : int64_t(machine.devices[0]["memory_gib"].get<double>() *
                           double(1 << 30)));
  if (machine.gpus() == 1 && dice.upTo(2) > 0)
    request.ladder.insert(request.ladder.begin() + 1,
                          {longest, int64_t(dice.between(0.3, 0.9) * whole)});
}

enum Kind {
  Ladder,
  Profile,
  ModuleRules,
  TensorRules,
  CpuMoe,
  FirstCpuMoe,
  Streamed,
  Deferred,
  kKinds
};

Wanted ask(Kind kind, TempDir &folder, Dice &dice, const RandomModel &model,
           const Machine &machine, const Routers &routers,
           moec::CompileRequest &request) {
  Wanted wanted;
  switch (kind) {
  case Ladder:
    addLadder(dice, machine, request);
    break;
  case Profile:
    request.routerProfile = profile(folder, dice, routers);
    if (dice.upTo(2) == 0)
      request.maxDroppedMass = 0.3f;
    // Stacks of a profile's most used experts have to be packed.
    if (model.isSmall())
      request.weights = "auto";
    break;
  case ModuleRules: {
    int64_t layer = routers.some(dice);
    request.rulesFile = folder.write(
        "rules.yaml",
        fmt::format(
            "- match: {{name: \"^model\\\\.layers\\\\.{}\\\\..*self_attn\"}}\n"
            "  replace: {{class: default, kwargs: {{generate_device: "
            "\"cuda:0\", prefill_device: \"cuda:0\"}}}}\n"
            "- match: {{name: \"^model\\\\.layers\\\\..*\\\\.experts$\"}}\n"
            "  replace: {{class: default, kwargs: {{generate_device: cpu, "
            "prefill_device: cpu}}}}\n"
            "  recursive: False\n",
            layer));
    wanted = {routers.layers, layer, /*mayStream=*/false};
    break;
  }
  case TensorRules: {
    int64_t first = routers.some(dice), layer = routers.some(dice);
    request.tensorRules = {fmt::format("blk\\.{}\\.ffn_.*_exps=CPU", first),
                           fmt::format("blk\\.{}\\.(attn|ssm)_=CUDA0", layer)};
    wanted = {{first}, layer};
    break;
  }
  case CpuMoe:
    request.cpuMoeLayers = -1;
    wanted.expertsOnCpu = routers.layers;
    break;
  case FirstCpuMoe:
    request.cpuMoeLayers = 1 + routers.some(dice);
    request.allowUnmatchedRules = true; // Rules may name dense layers.
    std::ranges::copy_if(
        routers.layers, std::back_inserter(wanted.expertsOnCpu),
        [&](int64_t layer) { return layer < request.cpuMoeLayers; });
    break;
  case Streamed:
    request.streamExperts = dice.upTo(1) ? -1 : 2 + dice.upTo(13);
    break;
  case Deferred:
    request.deferExperts = 1 + dice.upTo(int(routers.used) - 2);
    break;
  case kKinds:
    break;
  }
  return wanted;
}

/// Returns which of `wanted` is elsewhere, or "".
std::string missingOf(const moert::fb::Plan &plan, const Wanted &wanted) {
  std::map<std::string_view, bool> isCpu;
  for (const auto *device : *plan.devices())
    isCpu[device->name()->string_view()] =
        device->kind() == moert::fb::DeviceKind::Cpu;
  size_t attention = 0;
  for (const auto *entry : *plan.explanation()) {
    std::string_view part = entry->part()->string_view(),
                     device = entry->device()->string_view();
    std::string place = fmt::format("{} of {} on {}", moert::labelOf(*entry),
                                    entry->phase()->string_view(), device);
    bool streams =
        entry->phase()->string_view() == "streamed_prefill" && wanted.mayStream;
    if (part == "ffn_experts" && !isCpu[device] && !streams &&
        std::ranges::find(wanted.expertsOnCpu, entry->layer()) !=
            wanted.expertsOnCpu.end())
      return place;
    if (entry->layer() != wanted.attentionOnGpu ||
        !(part.starts_with("attn_output") || part == "ssm_out"))
      continue;
    ++attention;
    if (isCpu[device])
      return place;
  }
  return wanted.attentionOnGpu < 0 || attention > 0 ? "" : "no attention";
}

constexpr unsigned kPlacementOptionsShards = 8, kPlacementOptionsSeeds = 16;

class RandomOptions : public testing::TestWithParam<unsigned> {};

TEST_P(RandomOptions, AreFollowedInPlansThatTheRuntimeAccepts) {
  TempDir folder;
  RandomModels models(folder);
  std::map<int, unsigned> compiled;
  unsigned rungs = 0;
  for (unsigned i = 0; i < kPlacementOptionsSeeds; ++i) {
    unsigned seed = 10000 + GetParam() * kPlacementOptionsSeeds + i;
    Dice dice(seed);
    RandomModel model = models.choose(dice);
    Routers routers(model.path);
    auto kind = Kind(i % kKinds);
    if (routers.layers.size() < 2 || (kind == Deferred && routers.used < 2))
      kind = Ladder;
    SCOPED_TRACE(
        fmt::format("seed {}, kind {}: {}", seed, int(kind), model.path));
    Machine machine = machineOf(dice, model);
    moec::CompileRequest request = requestFor(dice, model);
    Wanted wanted = ask(kind, folder, dice, model, machine, routers, request);
    if (kind != Ladder && dice.upTo(3) == 0)
      addLadder(dice, machine, request);
    auto report = writePlan(folder, request, machine);
    if (!report) {
      // A rule may request ops for which a GPU has no kernels, or name what the
      // model does not have. There may be nothing to stream, or no memory for
      // slots.
      std::string why = report.status().message();
      bool isUnmatched =
          (kind == ModuleRules || kind == TensorRules || kind == FirstCpuMoe) &&
          why.find(" matches no ") != why.npos;
      bool isOfRules = (kind == ModuleRules || kind == TensorRules) &&
                       report.status().code() == moert::StatusCode::Unsupported;
      bool isOfStreams =
          kind == Streamed && request.streamExperts > 0 &&
          (why.find("there are no experts to stream") != why.npos ||
           why.find("the slots for streaming") != why.npos);
      EXPECT_TRUE(isOfRules || isUnmatched || isOfStreams ||
                  report.status().code() == moert::StatusCode::DoesNotFit)
          << why;
      continue;
    }
    moert::Status verdict = alternativeText(report->output);
    EXPECT_TRUE(verdict.isOk()) << verdict.message();
    if (auto predicted = predictedBy(*report)) {
      EXPECT_LE(0.99 * predicted->own, predicted->onHost);
      EXPECT_LE(0.99 * predicted->own, predicted->classic);
    }
    auto plan = moert::Plan::load(report->output);
    ASSERT_TRUE(plan.isOk()) << plan.status().message();
    for (uint32_t rung = std::min(1u, plan->rungs()); rung <= plan->rungs();
         ++rung)
      EXPECT_EQ(missingOf(plan->rung(rung), wanted), "") << "rung " << rung;
    EXPECT_EQ(plan->rungs() > 1, !request.ladder.empty());
    rungs += plan->rungs();
    ++compiled[kind];
  }
  EXPECT_GT(compiled.size(), size_t(kKinds / 2));
  EXPECT_GT(rungs, 2u);
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomOptions,
                         testing::Range(0u, kPlacementOptionsShards));

} // namespace
