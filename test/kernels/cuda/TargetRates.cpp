#include "test/kernels/cuda/TargetRates.h"

#include "test/kernels/cuda/ClockedGpu.h"
#include "test/kernels/cuda/Workload.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace moek::test {

namespace {

using moert::KernelRate;
using softgpu::GpuModel;

/// A few blocks of each class give a rate.
constexpr uint64_t kBudget = 2'000'000;
constexpr double kGiga = 1e9;

/// Seconds of a workload's launches, without those of their graph nodes, which
/// plans count themselves.
template <class F> double secondsOf(const GpuModel &model, F make) {
  ClockedGpu gpu(model, kBudget);
  Workbench bench(gpu);
  std::vector<softgpu::LaunchTime> times;
  gpu.secondsOf(make(bench).launches, &times);
  double seconds = 0;
  for (const softgpu::LaunchTime &time : times)
    seconds += time.seconds;
  return seconds;
}

struct Shape {
  int64_t rows, cols;
};
constexpr Shape kSmall = {2048, 2048}, kLarge = {8192, 7168};

/// A product's seconds are those of a call plus those of its bytes, by the
/// number of tokens.
void addGemm(std::vector<KernelRate> &rates, const GemmInfo &gemm,
             const GpuModel &model) {
  std::string name(gemm.name);
  KernelRate bytes{name, "", {}, {}, {}}, calls{name, "call", {}, {}, {}};
  auto fileBytes = [&](Shape shape) {
    return double(rowBytes(gemm.format, uint64_t(shape.cols))) *
           double(shape.rows);
  };
  for (int32_t tokens : {1, 2, 4, 8, 16, 64, 512}) {
    auto seconds = [&](Shape shape) {
      return secondsOf(model, [&](Workbench &make) {
        return make.linear(gemm.format, shape.rows, shape.cols, tokens, 1);
      });
    };
    double small = seconds(kSmall), large = seconds(kLarge);
    double perByte = (large - small) / (fileBytes(kLarge) - fileBytes(kSmall));
    // Small matrices that fill a wave as large ones do leave nothing.
    double call = std::max(small - perByte * fileBytes(kSmall), 1e-7);
    bytes.at.push_back(tokens);
    bytes.memory.push_back(1 / perByte);
    calls.at.push_back(tokens);
    calls.memory.push_back(1 / call);
  }
  rates.push_back(bytes);
  rates.push_back(calls);
}

/// Operations per second of attention with 32 heads on 4, by rows of the cache.
void addAttention(std::vector<KernelRate> &rates, KvType type, int32_t tokens,
                  const GpuModel &model) {
  constexpr int32_t kHeads = 32, kKvHeads = 4, kLeastSplit = 128;
  KernelRate rate{
      "attention_cuda",
      fmt::format("{} {}", kvTypeName(type), tokens == 1 ? "one" : "many"),
      {},
      {},
      {}};
  for (int32_t depth : {1024, 4096, 16384}) {
    int32_t splits = std::clamp(2 * model.multiprocessors / kKvHeads, 1,
                                depth / kLeastSplit);
    double operations = 0;
    double seconds = secondsOf(model, [&](Workbench &make) {
      Workload work = make.attention(type, kHeads, kKvHeads, 128, depth,
                                     tokens == 1 ? splits : 1, tokens, 1);
      operations = work.operations;
      return work;
    });
    rate.at.push_back(depth);
    rate.memory.push_back(operations / seconds);
  }
  rates.push_back(rate);
}

/// Four digits; more would be noise.
double rounded(double value) {
  double unit = std::pow(10, 3 - std::floor(std::log10(value)));
  return std::round(value * unit) / unit;
}

} // namespace

std::vector<KernelRate> simulatedRates(const GpuModel &model,
                                       const std::string &filter) {
  std::vector<KernelRate> rates;
  auto wants = [&](std::string_view name) {
    return name.find(filter) != std::string_view::npos;
  };
  for (const GemmInfo &gemm : gemmTable())
    if (gemm.isa == Isa::Cuda && gemm.layout == Layout::Rows16 &&
        wants(gemm.name))
      addGemm(rates, gemm, model);
  if (wants("attention_cuda"))
    for (KvType type : {KvType::F16, KvType::Q8_0})
      for (int32_t tokens : {1, 512})
        addAttention(rates, type, tokens, model);
  return rates;
}

std::string writeRates(const std::string &folder, const GpuModel &model,
                       const std::vector<KernelRate> &rates) {
  std::string name(model.name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  std::string path = folder + "/" + name + ".json";
  std::ifstream in(path);
  auto target = nlohmann::ordered_json::parse(in, nullptr, false);
  if (!target.is_object())
    return fmt::format("{}: not the description of a device", path);
  auto list = nlohmann::ordered_json::array();
  for (const KernelRate &rate : rates) {
    nlohmann::ordered_json object = {{"kernel", rate.kernel}};
    if (!rate.variant.empty())
      object["variant"] = rate.variant;
    object["at"] = rate.at;
    for (double value : rate.memory)
      object["memory"].push_back(rounded(value / kGiga));
    list.push_back(std::move(object));
  }
  target["kernels_basis"] = "simulated";
  target["kernels"] = std::move(list);
  std::ofstream out(path);
  out << target.dump(2) << "\n";
  return out ? "" : fmt::format("{}: cannot be written", path);
}

} // namespace moek::test
