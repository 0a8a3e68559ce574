#include "test/unit/RandomPlacement.h"

#include "compiler/Explain/Summary.h"
#include "models/Model.h"
#include "runtime/prove/Prove.h"
#include "test/support/Compiles.h"
#include "test/support/SampleModel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <regex>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moetest {

double Dice::between(double least, double most) {
  // The library's distributions may differ between machines.
  double share = double(engine_()) / double(std::mt19937::max());
  return least * std::pow(most / least, share);
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

RandomModels::RandomModels(TempDir &folder) : folder_(folder) {
  for (const auto &entry :
       std::filesystem::directory_iterator(MOE_TEST_DATA "/unit")) {
    if (entry.path().extension() != ".gguf")
      continue;
    auto model = moec::GgufModel::open(entry.path());
    if (model.isOk() && moetest::compiles(*model))
      small_.push_back(entry.path());
  }
  std::ranges::sort(small_);
}

RandomModel RandomModels::choose(Dice &dice) {
  if (dice.upTo(1) == 0) {
    const std::string &path = small_[size_t(dice.upTo(int(small_.size()) - 1))];
    return {path, double(std::filesystem::file_size(path)), 64, 16};
  }
  unsigned layers = 4 + unsigned(dice.upTo(3));
  std::string path = folder_.file("v3-" + std::to_string(layers) + ".gguf");
  if (!std::filesystem::exists(path))
    deepseekV3Model(layers).write(path);
  // Three dense layers, and 6.6 GB for each layer with experts.
  return {path, 2e9 + 6.6e9 * (layers - 3), 16384, 512};
}

//===----------------------------------------------------------------------===//
// Machines
//===----------------------------------------------------------------------===//

void Machine::enlargeGpus(double times) {
  for (Json &device : devices)
    if (device["kind"] == "cuda")
      device["memory_gib"] = times * device["memory_gib"].get<double>();
  vramLimit = int64_t(times * double(vramLimit));
}

void Machine::enlargeHost(double times) {
  Json &host = devices.back();
  host["memory_gib"] = times * host["memory_gib"].get<double>();
  dramLimit = int64_t(times * double(dramLimit));
}

Machine machineOf(Dice &dice, const RandomModel &model) {
  bool isSmall = model.isSmall();
  // A kernel's launch should not weigh more for a small model than for a large
  // one.
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
                             {"barrier_us", dice.between(0.5, 10)}});
  if (isSmall) {
    machine.vramLimit = int64_t(dice.between(0.1, 3) * model.bytes);
    machine.dramLimit = int64_t(dice.between(2, 20) * model.bytes);
  }
  return machine;
}

Machine machineOfOneMemory(Dice &dice, const RandomModel &model) {
  Machine machine = machineOf(dice, model);
  Json &host = machine.devices.back();
  for (const char *key : {"memory_gib", "link_gbps"})
    machine.devices.front().erase(key);
  machine.devices.front()["shares_memory"] = true;
  machine.devices = {machine.devices.front(), host};
  machine.vramLimit = 0;
  // From too little for the model to twice of it.
  double bytes = dice.between(0.8, 2) * model.bytes;
  if (model.isSmall())
    machine.dramLimit = int64_t(bytes);
  else
    machine.devices.back()["memory_gib"] = bytes / double(1 << 30);
  return machine;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

moec::CompileRequest requestFor(Dice &dice, const RandomModel &model) {
  moec::CompileRequest request;
  request.model = model.path;
  request.context = std::max<int64_t>(64, model.mostContext >> dice.upTo(4));
  request.ubatch = model.ubatch;
  request.weights = "reference";
  request.emit = moec::Emit::Forecast;
  request.verbose = true;
  return request;
}

StatusOr<moec::CompileReport>
place(TempDir &folder, moec::CompileRequest request, const Machine &machine) {
  request.targetFile =
      folder.write("machine.json", Json({{"devices", machine.devices}}).dump());
  request.vramLimit = machine.vramLimit;
  request.dramLimit = machine.dramLimit;
  return moec::compileModel(request);
}

StatusOr<moec::CompileReport> writePlan(TempDir &folder,
                                        moec::CompileRequest request,
                                        const Machine &machine) {
  // Placeholders must not be cached as kernels.
  ::setenv("XDG_CACHE_HOME", "/dev/null", 1);
  request.emit = moec::Emit::Fb;
  request.output = folder.file("p.fb");
  request.nvrtc = MOE_FAKE_NVRTC;
  request.checksums = "sampled";
  return place(folder, request, machine);
}

static Status alternativeText(const moert::Plan &plan) {
  MOE_ASSIGN_OR_RETURN(moert::WeightFiles files,
                       moert::WeightFiles::open(plan, {}));
  MOE_RETURN_IF_ERROR(moert::provePlan(plan, files).status());
  for (const auto &memory : moec::ExplainSummary(plan.table()).devices)
    if (memory.used > memory.device->memory_bytes())
      return Status(StatusCode::DoesNotFit,
                    fmt::format("{}: {} of {} bytes",
                                memory.device->name()->string_view(),
                                memory.used, memory.device->memory_bytes()));
  return Status::ok();
}

Status alternativeText(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(moert::Plan plan, moert::Plan::load(path));
  for (uint32_t rung = std::min(1u, plan.rungs()); rung <= plan.rungs();
       ++rung) {
    plan.choose(rung);
    MOE_RETURN_IF_ERROR(alternativeText(plan).at(plan.rungName()));
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// Predictions
//===----------------------------------------------------------------------===//

std::string remarkOf(const moec::CompileReport &report, const char *what) {
  for (const std::string &remark : report.remarks)
    if (remark.starts_with(what))
      return remark;
  return "";
}

std::vector<Belief> beliefsOf(const moec::CompileReport &report) {
  static const std::regex form(
      "(\\w+) takes ([0-9.]+) ms, placement predicted ([0-9.]+) ms.*");
  std::vector<Belief> beliefs;
  for (const std::string &remark : report.remarks)
    if (std::smatch match; std::regex_match(remark, match, form))
      beliefs.push_back(
          {match[1], 1e-3 * std::stod(match[2]), 1e-3 * std::stod(match[3])});
  return beliefs;
}

BeliefCount expectBeliefs(const moec::CompileReport &report, double most) {
  BeliefCount count;
  for (const Belief &belief : beliefsOf(report)) {
    EXPECT_NEAR(belief.placement / belief.plan, 1, most)
        << belief.phase << ": the plan says " << belief.plan
        << " s, placement said " << belief.placement << " s";
    ++count.compared;
    count.beyond += std::abs(belief.placement / belief.plan - 1) > kBelief;
  }
  return count;
}

static double requestOf(const std::string &text) {
  static const std::regex form(
      "([0-9.]+) (ns|us|ms|s) a decoded token, ([0-9.]+) (ns|us|ms|s) "
      "(?:a prompt|prompts) of");
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

std::optional<Predicted> predictedBy(const moec::CompileReport &report) {
  std::string remark = remarkOf(report, "predicted ");
  size_t host = remark.find("; with all on"),
         classic = remark.find("; with experts");
  if (classic == remark.npos)
    return std::nullopt;
  return Predicted{requestOf(remark.substr(0, host)),
                   requestOf(remark.substr(host, classic - host)),
                   requestOf(remark.substr(classic))};
}

} // namespace moetest
