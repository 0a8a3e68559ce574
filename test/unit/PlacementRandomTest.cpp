// Placements of models of all architectures on machines that nobody built: each
// keeps to its budgets, none is slower by its own prediction than what others
// start from, more memory of GPUs makes none of the first ones slower, and the
// runtime takes the plans. A thousand seeds.

#include "compiler/Driver/Driver.h"
#include "runtime/Plan.h"
#include "test/support/SampleModel.h"
#include "test/support/TempDir.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

using namespace moetest;
using Json = nlohmann::ordered_json;

namespace {

/// Any double between two, all orders of magnitude alike.
class Dice {
public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  double between(double least, double most) {
    // As distributions of the library may differ between machines.
    double share = double(engine_()) / double(std::mt19937::max());
    return least * std::pow(most / least, share);
  }
  int upTo(int most) { return int(engine_() % unsigned(most + 1)); }

private:
  std::mt19937 engine_;
};

/// What is to be placed: V3's shape with few layers, hundreds of gigabytes, or
/// a model of another architecture that has a megabyte or two.
struct Model {
  std::string path;
  double bytes; ///< About.
  int64_t mostContext, ubatch;

  bool isSmall() const { return bytes < 1e8; }
};

class Models {
public:
  explicit Models(TempDir &folder) : folder_(folder) {
    for (const auto &entry :
         std::filesystem::directory_iterator(MOE_TEST_DATA "/unit"))
      if (entry.path().extension() == ".gguf")
        small_.push_back(entry.path());
    std::ranges::sort(small_);
  }

  size_t smallOnes() const { return small_.size(); }

  Model choose(Dice &dice) {
    if (dice.upTo(1) == 0) {
      const std::string &path =
          small_[size_t(dice.upTo(int(small_.size()) - 1))];
      return {path, double(std::filesystem::file_size(path)), 64, 16};
    }
    unsigned layers = 4 + unsigned(dice.upTo(3));
    std::string path = folder_.file("v3-" + std::to_string(layers) + ".gguf");
    if (!std::filesystem::exists(path))
      deepseekV3Model(layers).write(path);
    // Three dense ones, and 6.6 GB for each with experts.
    return {path, 2e9 + 6.6e9 * (layers - 3), 16384, 512};
  }

private:
  TempDir &folder_;
  std::vector<std::string> small_;
};

/// Machines that are to a model what others are to larger ones.
struct Machine {
  Json devices = Json::array();
  int64_t vramLimit = 0, dramLimit = 0; ///< For less than a file can say.

  /// Of one without GPUs, whose kernels would take a minute to compile.
  Machine withoutGpus() const {
    return {Json::array({devices.back()}), 0, dramLimit};
  }
  void enlargeGpus(double times) {
    for (Json &device : devices)
      if (device["kind"] == "cuda")
        device["memory_gib"] = times * device["memory_gib"].get<double>();
    vramLimit = int64_t(times * double(vramLimit));
  }
};

Machine machineOf(Dice &dice, const Model &model) {
  bool isSmall = model.isSmall();
  // Of a small one a kernel's launch is to be no more than of a large one.
  double scale = isSmall ? 1e-3 : 1;
  Machine machine;
  for (int gpu = dice.upTo(2); gpu >= 0; --gpu)
    machine.devices.push_back(
        {{"kind", "cuda"},
         {"arch", 89},
         {"cores", 100},
         {"memory_gib", dice.between(1, 90) * (isSmall ? 0.1 : 1)},
         {"read_gbps", dice.between(100, 5000) * scale},
         {"int8_tops", dice.between(50, 2000) * scale},
         {"float_tflops", dice.between(10, 1000) * scale},
         {"link_gbps", dice.between(2, 60) * scale},
         {"link_latency_us", dice.between(1, 100)},
         {"instruction_us", dice.between(0.5, 10)}});
  machine.devices.push_back({{"kind", "cpu"},
                             {"isa", dice.upTo(1) ? "avx2" : "avx512"},
                             {"cores", isSmall ? 2 : 2 + dice.upTo(100)},
                             {"memory_gib", dice.between(10, 200)},
                             {"read_gbps", dice.between(20, 1000) * scale},
                             {"int8_tops", dice.between(0.5, 100) * scale},
                             {"float_tflops", dice.between(0.1, 10) * scale},
                             {"meeting_us", dice.between(0.5, 10)}});
  if (isSmall) {
    machine.vramLimit = int64_t(dice.between(0.1, 3) * model.bytes);
    machine.dramLimit = int64_t(dice.between(2, 20) * model.bytes);
  }
  return machine;
}

/// Rules that every model has something for, or none.
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

/// Seconds of a request of 1024 tokens and 256 generated ones; beyond all
/// numbers for what does not fit.
double requestOf(const std::string &text) {
  static const std::regex form(
      "([0-9.]+) (ns|us|ms|s) a decoded token, ([0-9.]+) (ns|us|ms|s) a "
      "prompt of 1024");
  std::smatch match;
  if (!std::regex_search(text, match, form) ||
      text.find("does not fit") != text.npos)
    return std::numeric_limits<double>::infinity();
  auto seconds = [&](int number) {
    std::string unit = match[number + 1];
    double scale = unit == "ns"   ? 1e-9
                   : unit == "us" ? 1e-6
                   : unit == "ms" ? 1e-3
                                  : 1;
    return std::stod(match[number]) * scale;
  };
  return 256 * seconds(1) + seconds(3);
}

/// Compiles it; the report, or why it does not fit.
moert::StatusOr<moec::CompileReport>
place(TempDir &folder, moec::CompileRequest request, const Machine &machine) {
  request.targetFile =
      folder.write("machine.json", Json({{"devices", machine.devices}}).dump());
  request.vramLimit = machine.vramLimit;
  request.dramLimit = machine.dramLimit;
  return moec::compileModel(request);
}

/// The remark that begins with `what`, or "".
std::string remarkOf(const moec::CompileReport &report, const char *what) {
  for (const std::string &remark : report.remarks)
    if (remark.starts_with(what))
      return remark;
  return "";
}

constexpr unsigned kShards = 20, kSeedsOfShard = 50;

/// Of which more memory is tried too (passes/moe/PlacementSearch.h).
constexpr unsigned kEnlargedShards = 4;

class RandomPlacements : public testing::TestWithParam<unsigned> {};

TEST_P(RandomPlacements, KeepToBudgetsAndAreNeverWorseThanWhatOthersStartFrom) {
  TempDir folder;
  Models models(folder);
  ASSERT_GT(models.smallOnes(), 25u);
  unsigned compiled = 0, withGpu = 0, compared = 0, enlarged = 0, divided = 0,
           loaded = 0;
  for (unsigned i = 0; i < kSeedsOfShard; ++i) {
    unsigned seed = GetParam() * kSeedsOfShard + i;
    Dice dice(seed);
    Model model = models.choose(dice);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + model.path);
    Machine machine = machineOf(dice, model);
    moec::CompileRequest request;
    request.model = model.path;
    request.context = std::max<int64_t>(64, model.mostContext >> dice.upTo(4));
    request.ubatch = model.ubatch;
    request.weights = "reference";
    request.emit = moec::Emit::Forecast;
    request.verbose = true;
    std::string rules = addRules(dice, request);
    SCOPED_TRACE(rules);
    auto report = place(folder, request, machine);
    if (!report) {
      // Rules may ask for what a GPU has no kernels for.
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
    if (i % 5 == 0 && model.isSmall() && request.place.empty() &&
        request.tensorRules.empty() && request.gpuLayers < 0) {
      moec::CompileRequest whole = request;
      whole.emit = moec::Emit::Fb;
      whole.output = folder.file("p.fb");
      if (auto plan = place(folder, whole, machine.withoutGpus()); plan) {
        moert::Status taken = moert::Plan::load(plan->output).status();
        EXPECT_TRUE(taken.isOk()) << taken.message();
        ++loaded;
      }
    }
    std::string remark = remarkOf(*report, "predicted ");
    size_t host = remark.find("; with all on"),
           classic = remark.find("; with experts");
    if (classic == remark.npos || request.optimizeFor != "balanced")
      continue;
    // Texts have two digits and more.
    ++compared;
    double own = requestOf(remark.substr(0, host));
    EXPECT_LE(0.99 * own, requestOf(remark.substr(host, classic - host)))
        << remark;
    EXPECT_LE(0.99 * own, requestOf(remark.substr(classic))) << remark;

    divided += std::regex_search(remarkOf(*report, "gpu0 has "),
                                 std::regex("[0-9]+ of [0-9]+ experts of"));
    if (GetParam() >= kEnlargedShards || i % 4 != 0 || !rules.empty())
      continue;
    machine.enlargeGpus(dice.between(1.02, 3));
    report = place(folder, request, machine);
    ASSERT_TRUE(report.isOk()) << report.status().message();
    ++enlarged;
    std::string after = remarkOf(*report, "predicted ");
    EXPECT_LE(0.99 * requestOf(after.substr(0, after.find("; with all on"))),
              own)
        << remark << "\nwith more memory: " << after;
  }
  EXPECT_GT(compiled, kSeedsOfShard / 2);
  EXPECT_GT(withGpu, kSeedsOfShard / 4);
  EXPECT_GT(compared, kSeedsOfShard / 4);
  EXPECT_TRUE(enlarged > 0 || GetParam() >= kEnlargedShards);
  EXPECT_GT(divided, 0u);
  EXPECT_GT(loaded, 0u);
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomPlacements, testing::Range(0u, kShards));

} // namespace
