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
template <class F>
double secondsOf(const GpuModel &model, F make,
                 std::vector<double> *each = nullptr) {
  ClockedGpu gpu(model, kBudget);
  Workbench bench(gpu);
  std::vector<softgpu::LaunchTime> times;
  gpu.secondsOf(make(bench).launches, &times);
  double seconds = 0;
  for (const softgpu::LaunchTime &time : times) {
    seconds += time.seconds;
    if (each)
      each->push_back(time.seconds);
  }
  return seconds;
}

struct Shape {
  int64_t rows, cols;
};
constexpr Shape kSmall = {2048, 2048}, kLarge = {8192, 7168};

/// A product's seconds are those of a call plus those of its bytes, by the
/// number of tokens. Kernels that read rows as in files take float activations.
void addGemm(std::vector<KernelRate> &rates, const GemmInfo &gemm,
             const GpuModel &model, int32_t mostRows) {
  std::string name(gemm.name);
  KernelRate bytes{name, "", {}, {}, {}}, calls{name, "call", {}, {}, {}};
  auto fileBytes = [&](Shape shape) {
    return double(rowBytes(gemm.format, uint64_t(shape.cols))) *
           double(shape.rows);
  };
  for (int32_t tokens : {1, 2, 4, 8, 16, 64, 512}) {
    if (tokens > mostRows)
      break;
    auto seconds = [&](Shape shape) {
      return secondsOf(model, [&](Workbench &make) {
        return gemm.layout == Layout::Gguf
                   ? make.ofFloats(gemm.format, shape.rows, shape.cols, tokens)
                   : make.linear(gemm.format, shape.rows, shape.cols, tokens,
                                 1);
      });
    };
    double small = seconds(kSmall), large = seconds(kLarge);
    double perByte = (large - small) / (fileBytes(kLarge) - fileBytes(kSmall));
    // The time left after the work of small matrices that fill a wave as large
    // ones do.
    double call = std::max(small - perByte * fileBytes(kSmall), 1e-7);
    bytes.at.push_back(tokens);
    bytes.memory.push_back(1 / perByte);
    calls.at.push_back(tokens);
    calls.memory.push_back(1 / call);
  }
  rates.push_back(bytes);
  rates.push_back(calls);
}

/// Bytes per second of experts of which each has `rows` tokens: those of
/// further experts, so that neither the call nor a partial wave counts.
void addExperts(std::vector<KernelRate> &rates, const GemmInfo &gemm,
                const GpuModel &model, int32_t mostRows) {
  KernelRate rate{std::string(gemm.name), "experts", {}, {}, {}};
  for (int32_t rows : {1, 4, 16, 64, 256}) {
    if (rows > mostRows)
      break;
    double bytes[2] = {}, seconds[2] = {};
    for (int32_t i : {0, 1})
      seconds[i] = secondsOf(model, [&](Workbench &make) {
        constexpr int32_t kFew = 16, kMany = 48;
        int32_t experts = i ? kMany : kFew;
        Workload work = make.experts(gemm.format, experts, 1536, 2048, 1,
                                     experts * rows, 1);
        bytes[i] = 2.0 * experts * 1536 *
                   double(rowBytes(gemm.format, uint64_t(2048)));
        return work;
      });
    rate.at.push_back(rows);
    rate.memory.push_back((bytes[1] - bytes[0]) /
                          std::max(seconds[1] - seconds[0], 1e-7));
  }
  rates.push_back(rate);
}

/// Operations per second of a router, by tokens. An op counts as in the graph:
/// see RouterOp::getInstructions().
void addRouter(std::vector<KernelRate> &rates, const GpuModel &model) {
  KernelRate rate{"router_cuda", "", {}, {}, {}};
  for (int32_t tokens : {1, 8, 64, 512}) {
    Workload work;
    double seconds = secondsOf(model, [&](Workbench &make) {
      return work = make.router(128, 8, tokens);
    });
    rate.at.push_back(tokens);
    rate.memory.push_back(work.operations / seconds);
  }
  rates.push_back(rate);
}

/// KV splits of a decoded token, as dialects/moe/Attention.cpp chooses them:
/// two blocks for each multiprocessor.
int32_t splitsOf(const GpuModel &model, int32_t groups, int32_t positions) {
  constexpr int32_t kLeastSplit = 128;
  return std::clamp(2 * model.multiprocessors / groups, 1,
                    positions / kLeastSplit);
}

/// Two depths: the difference of times is proportional to that of depths.
constexpr int32_t kNear = 4096, kFar = 32768;

struct DecodeTime {
  double call;    ///< Seconds that do not depend on the number of rows.
  double perByte; ///< Seconds for a byte of cache rows.
  double perOperation;
};
template <class F> DecodeTime decodeTime(const GpuModel &model, F make) {
  double bytes[2] = {}, operations[2] = {}, seconds[2] = {};
  for (int32_t i : {0, 1})
    seconds[i] = secondsOf(model, [&](Workbench &bench) {
      Workload work = make(bench, i ? kFar : kNear);
      bytes[i] = double(work.weightBytes), operations[i] = work.operations;
      return work;
    });
  double slope = seconds[1] - seconds[0];
  return {std::max(seconds[0] - slope * kNear / (kFar - kNear), 1e-7),
          slope / (bytes[1] - bytes[0]),
          slope / (operations[1] - operations[0])};
}

/// A token's attention takes a call, and then the longer of its cache rows'
/// bytes and of its operations: few heads share a row, or as many as models
/// have.
template <class F>
void addDecode(std::vector<KernelRate> &rates, std::string kernel, KvType type,
               const GpuModel &model, F make) {
  DecodeTime few = decodeTime(model, [&](Workbench &bench, int32_t positions) {
    return make(bench, positions, /*hasManyHeads=*/false);
  });
  DecodeTime many = decodeTime(model, [&](Workbench &bench, int32_t positions) {
    return make(bench, positions, /*hasManyHeads=*/true);
  });
  // A cache that L2 holds would seem to be read faster than DRAM.
  few.perByte = std::max(few.perByte,
                         1 / (model.gigabytes * model.dramEfficiency * kGiga));
  std::string one = fmt::format("{} one", kvTypeName(type));
  rates.push_back({kernel, one, {1}, {1 / many.perOperation}, {}});
  rates.push_back({kernel, one + " bytes", {1}, {1 / few.perByte}, {}});
  rates.push_back({kernel, one + " call", {1}, {1 / few.call}, {}});
}

void addDecodes(std::vector<KernelRate> &rates, KvType type,
                const GpuModel &model) {
  addDecode(rates, "attention_cuda", type, model,
            [&](Workbench &bench, int32_t positions, bool hasManyHeads) {
              int32_t kvHeads = hasManyHeads ? 4 : 8;
              return bench.attention(type, hasManyHeads ? 64 : 32, kvHeads, 128,
                                     positions,
                                     splitsOf(model, kvHeads, positions), 1, 1);
            });
  addDecode(rates, "latent_attention_cuda", type, model,
            [&](Workbench &bench, int32_t positions, bool hasManyHeads) {
              return bench.latent(
                  type, hasManyHeads ? 128 : 16, positions,
                  splitsOf(model, hasManyHeads ? 4 : 1, positions), 1);
            });
}

/// Operations per second of a ubatch's attention, by rows of the cache; of MLA
/// those of decompressing rows and those of pairs of a query and a row.
void addPrefill(std::vector<KernelRate> &rates, KvType type,
                const GpuModel &model) {
  constexpr int32_t kTokens = 512;
  std::string name(kvTypeName(type)), mla = "mla_attention_cuda";
  KernelRate grouped{"attention_cuda", name + " many", {}, {}, {}};
  KernelRate pairs{mla, name + " pairs", {}, {}, {}};
  KernelRate rows{mla, name + " rows", {}, {}, {}};
  for (int32_t depth : {1024, 4096, 16384}) {
    Workload work;
    double seconds = secondsOf(model, [&](Workbench &bench) {
      return work = bench.attention(type, 32, 4, 128, depth, 1, kTokens, 1);
    });
    grouped.at.push_back(depth);
    grouped.memory.push_back(work.operations / seconds);

    std::vector<double> each;
    secondsOf(
        model,
        [&](Workbench &bench) {
          return work = bench.decompressed(type, 16, depth, kTokens);
        },
        &each);
    // Each group of heads has three launches: keys, values, attention.
    double decompression = 0, attention = 0;
    for (size_t i = 0; i < each.size(); ++i)
      (i % 3 == 2 ? attention : decompression) += each[i];
    rows.at.push_back(depth);
    rows.memory.push_back(work.weightOperations / decompression);
    pairs.at.push_back(depth);
    pairs.memory.push_back((work.operations - work.weightOperations) /
                           attention);
  }
  rates.push_back(grouped);
  rates.push_back(pairs);
  rates.push_back(rows);
  rows.variant = name + " floats";
  rates.push_back(rows);
}

/// Operations per second of recurrent layers and bytes per second of their
/// convolutions, by the tokens of a sequence.
void addStates(std::vector<KernelRate> &rates, const GpuModel &model) {
  struct {
    const char *variant;
    Recurrence kind;
    int32_t heads, value;
  } const kinds[] = {{"", Recurrence::Gated, 32, 128},
                     {"channels", Recurrence::Channels, 32, 128},
                     {"sums", Recurrence::Sums, 64, 64}};
  for (const auto &[variant, kind, heads, value] : kinds) {
    KernelRate rate{"delta_rule_cuda", variant, {}, {}, {}};
    for (int32_t tokens : {1, 16, 512}) {
      Workload work;
      double seconds = secondsOf(model, [&, kind = kind, heads = heads,
                                         value = value](Workbench &bench) {
        return work = bench.deltaRule(heads, 128, value, tokens, kind);
      });
      rate.at.push_back(tokens);
      rate.memory.push_back(work.operations / seconds);
    }
    rates.push_back(rate);
  }
  KernelRate rate{"short_conv_cuda", "", {}, {}, {}};
  for (int32_t tokens : {1, 16, 512}) {
    Workload work;
    double seconds = secondsOf(model, [&](Workbench &bench) {
      return work = bench.shortConv(8192, tokens);
    });
    rate.at.push_back(tokens);
    rate.memory.push_back(double(work.weightBytes) / seconds);
  }
  rates.push_back(rate);
}

/// Operations per second of the scores of blocks and of attention to blocks, by
/// rows that a token sees.
void addBlocks(std::vector<KernelRate> &rates, KvType type, bool scores,
               const GpuModel &model) {
  for (int32_t tokens : {1, 64}) {
    KernelRate rate{
        scores ? "block_scores_cuda" : "block_attention_cuda",
        fmt::format("{} {}", kvTypeName(type), tokens == 1 ? "one" : "many"),
        {},
        {},
        {}};
    for (int32_t depth : {1024, 8192}) {
      Workload work;
      double seconds = secondsOf(model, [&](Workbench &bench) {
        constexpr int32_t kBlock = 128;
        return work = scores ? bench.blockScores(type, depth, tokens)
                             : bench.blockAttention(type, depth / kBlock - 1,
                                                    tokens);
      });
      rate.at.push_back(depth);
      rate.memory.push_back(work.operations / seconds);
    }
    rates.push_back(rate);
  }
}

/// Four digits; more would be noise.
double rounded(double value) {
  double unit = std::pow(10, 3 - std::floor(std::log10(value)));
  return std::round(value * unit) / unit;
}

/// Adds to a rate what its kernel had in a target for more rows.
void keepMoreRows(KernelRate &rate, const nlohmann::ordered_json &old) {
  if (rate.kernel != old.value("kernel", "") ||
      rate.variant != old.value("variant", ""))
    return;
  for (size_t i = 0; i < old["at"].size() && i < old["memory"].size(); ++i)
    if (double at = old["at"][i]; rate.at.empty() || at > rate.at.back()) {
      rate.at.push_back(at);
      rate.memory.push_back(double(old["memory"][i]) * kGiga);
    }
}

} // namespace

std::vector<KernelRate> simulatedRates(const GpuModel &model,
                                       const RatesChoice &choice) {
  std::vector<KernelRate> rates;
  auto wants = [&](std::string_view name) {
    return name.find(choice.kernel) != std::string_view::npos;
  };
  int32_t mostRows = choice.mostRows ? choice.mostRows : INT32_MAX;
  for (const GemmInfo &gemm : gemmTable())
    if (gemm.isa == Isa::Cuda && wants(gemm.name)) {
      addGemm(rates, gemm, model, mostRows);
      if (gemm.layout == Layout::Rows16)
        addExperts(rates, gemm, model, mostRows);
    }
  if (wants("router_cuda"))
    addRouter(rates, model);
  if (wants("attention_cuda"))
    for (KvType type : {KvType::F16, KvType::Q8_0}) {
      addDecodes(rates, type, model);
      addPrefill(rates, type, model);
    }
  if (wants("delta_rule_cuda") || wants("short_conv_cuda"))
    addStates(rates, model);
  if (wants("block_scores_cuda")) // Keys of indexers are F16 or wider.
    addBlocks(rates, KvType::F16, /*scores=*/true, model);
  if (wants("block_attention_cuda"))
    for (KvType type : {KvType::F16, KvType::Q8_0})
      addBlocks(rates, type, /*scores=*/false, model);
  return rates;
}

std::string writeRates(const std::string &folder, const GpuModel &model,
                       const RatesChoice &choice,
                       std::vector<KernelRate> rates) {
  std::string name(model.name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  std::string path = folder + "/" + name + ".json";
  std::ifstream in(path);
  auto target = nlohmann::ordered_json::parse(in, nullptr, false);
  if (!target.is_object())
    return fmt::format("{}: not the description of a device", path);
  target["kernels_basis"] = "simulated";
  // Kernels that were not simulated now keep their rates.
  std::vector<std::string> rows;
  const auto olds = target.value("kernels", nlohmann::ordered_json());
  if (choice.mostRows)
    for (KernelRate &rate : rates)
      for (const auto &old : olds)
        keepMoreRows(rate, old);
  for (const auto &old : olds)
    if (std::none_of(rates.begin(), rates.end(), [&](const KernelRate &rate) {
          return rate.kernel == old.value("kernel", "");
        }))
      rows.push_back(old.dump());
  target.erase("kernels");
  std::string text = target.dump(2);
  text.erase(text.rfind('\n')); // Cuts the last brace off.
  text += ",\n  \"kernels\": [";
  std::string_view separator = "\n";
  for (const KernelRate &rate : rates) {
    nlohmann::ordered_json object = {{"kernel", rate.kernel}};
    if (!rate.variant.empty())
      object["variant"] = rate.variant;
    object["at"] = rate.at;
    for (double value : rate.memory)
      object["memory"].push_back(rounded(value / kGiga));
    rows.push_back(object.dump());
  }
  for (const std::string &row : rows) {
    text += fmt::format("{}    {}", separator, row);
    separator = ",\n";
  }
  std::ofstream out(path);
  out << text << "\n  ]\n}\n";
  return out ? "" : fmt::format("{}: cannot be written", path);
}

} // namespace moek::test
