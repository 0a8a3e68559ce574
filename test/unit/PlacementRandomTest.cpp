// Placements of models in the shape of DeepSeek-V3 on machines that nobody
// built: each keeps to its budgets, none is slower by its own prediction than
// what others start from, and more memory of GPUs makes none slower.

#include "compiler/Driver/Driver.h"
#include "test/support/SampleModel.h"
#include "test/support/TempDir.h"

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

Json machineOf(Dice &dice) {
  Json devices = Json::array();
  for (int gpu = dice.upTo(2); gpu >= 0; --gpu)
    devices.push_back({{"kind", "cuda"},
                       {"arch", 89},
                       {"cores", 100},
                       {"memory_gib", dice.between(1, 90)},
                       {"read_gbps", dice.between(100, 5000)},
                       {"int8_tops", dice.between(50, 2000)},
                       {"float_tflops", dice.between(10, 1000)},
                       {"link_gbps", dice.between(2, 60)},
                       {"link_latency_us", dice.between(1, 100)},
                       {"instruction_us", dice.between(0.5, 10)}});
  devices.push_back({{"kind", "cpu"},
                     {"isa", dice.upTo(1) ? "avx2" : "avx512"},
                     {"cores", 2 + dice.upTo(100)},
                     {"memory_gib", dice.between(10, 200)},
                     {"read_gbps", dice.between(20, 1000)},
                     {"int8_tops", dice.between(0.5, 100)},
                     {"float_tflops", dice.between(0.1, 10)},
                     {"meeting_us", dice.between(0.5, 10)}});
  return {{"devices", devices}};
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

/// Compiles a model of so many layers; the report, or why it does not fit.
moert::StatusOr<moec::CompileReport>
place(TempDir &folder, unsigned layers, const Json &machine, int64_t context) {
  moec::CompileRequest request;
  request.model = folder.file("v3-" + std::to_string(layers) + ".gguf");
  if (!std::filesystem::exists(request.model))
    deepseekV3Model(layers).write(request.model);
  request.targetFile = folder.write("machine.json", machine.dump());
  request.context = context;
  request.weights = "reference";
  request.emit = moec::Emit::Forecast;
  request.verbose = true;
  return moec::compileModel(request);
}

/// The remark that begins with `what`, or "".
std::string remarkOf(const moec::CompileReport &report, const char *what) {
  for (const std::string &remark : report.remarks)
    if (remark.starts_with(what))
      return remark;
  return "";
}

TEST(RandomPlacements, KeepToBudgetsAndAreNeverWorseThanWhatOthersStartFrom) {
  constexpr unsigned kSeeds = 200;
  TempDir folder;
  unsigned compiled = 0, withGpu = 0, withSplit = 0, enlarged = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    unsigned layers = 4 + unsigned(dice.upTo(3));
    Json machine = machineOf(dice);
    int64_t context = 1024 << dice.upTo(4);
    auto report = place(folder, layers, machine, context);
    if (!report) {
      EXPECT_EQ(report.status().code(), moert::StatusCode::DoesNotFit)
          << report.status().message();
      EXPECT_NE(report.status().message().find("the model does not fit"),
                std::string::npos)
          << report.status().message();
      continue;
    }
    ++compiled;
    for (const auto &device : report->forecast->devices) {
      EXPECT_LE(device.usedBytes, device.budgetBytes) << device.name;
      withGpu += device.name == "gpu0";
    }
    withSplit += remarkOf(*report, "gpu0 has").find(" experts of blk.") !=
                 std::string::npos;
    std::string remark = remarkOf(*report, "predicted ");
    size_t host = remark.find("; with all on"),
           classic = remark.find("; with experts");
    if (classic == remark.npos)
      continue;
    // Texts have two digits and more.
    double own = requestOf(remark.substr(0, host));
    EXPECT_LE(0.99 * own, requestOf(remark.substr(host, classic - host)))
        << remark;
    EXPECT_LE(0.99 * own, requestOf(remark.substr(classic))) << remark;

    if (seed % 4 != 0)
      continue;
    double more = dice.between(1.02, 3);
    for (Json &device : machine["devices"])
      if (device["kind"] == "cuda")
        device["memory_gib"] = more * device["memory_gib"].get<double>();
    report = place(folder, layers, machine, context);
    ASSERT_TRUE(report.isOk()) << report.status().message();
    ++enlarged;
    std::string after = remarkOf(*report, "predicted ");
    EXPECT_LE(0.99 * requestOf(after.substr(0, after.find("; with all on"))),
              own)
        << remark << "\n"
        << more << " times the memory: " << after;
  }
  EXPECT_GT(compiled, kSeeds / 2);
  EXPECT_GT(withGpu, kSeeds / 3);
  EXPECT_GT(withSplit, kSeeds / 50);
  EXPECT_GT(enlarged, kSeeds / 16);
}

} // namespace
