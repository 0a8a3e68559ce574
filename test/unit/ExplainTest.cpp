// The tables of moec explain: rows that stand for several layers, sums by
// device and phase, and texts from the plan, which must not reach the terminal
// unescaped.
#include "compiler/Explain/Explain.h"

#include "compiler/Explain/Collapse.h"
#include "test/support/PlanBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

using namespace moetest;
using moec::OpCost;
using moec::OpRow;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

constexpr uint64_t GiB = 1ull << 30;

/// Splits "blk.3.attn_q" into part and layer; other names have no layer.
std::pair<std::string_view, int> split(std::string_view name) {
  if (!name.starts_with("blk."))
    return {name, -1};
  size_t dot = name.find('.', 4);
  return {name.substr(dot + 1),
          std::stoi(std::string(name.substr(4, dot - 4)))};
}

OpCost cost(std::string_view op, double flops = 2, std::string_view why = "") {
  OpCost result;
  std::tie(result.part, result.layer) = split(op);
  result.device = "cpu0";
  result.kernel = "gemm_q4_k_avx512";
  result.reason = why;
  result.flops = flops;
  result.seconds = 0.5;
  return result;
}

std::vector<std::string> names(const std::vector<OpRow> &rows) {
  std::vector<std::string> result;
  for (const OpRow &row : rows)
    result.push_back(row.names.text(true) + " x" +
                     std::to_string(row.names.occurrences));
  return result;
}

TEST(ExplainRows, LayersAlikeShareOneRowWithTheirSums) {
  auto rows = moec::makeRows({cost("embed"), cost("blk.3.attn_q"),
                              cost("blk.3.norm", 1), cost("blk.4.attn_q"),
                              cost("blk.4.norm", 1), cost("blk.5.attn_q")},
                             /*full=*/false);
  EXPECT_THAT(names(rows),
              ElementsAre("embed x1", "blk.3-5.attn_q x3", "blk.3-4.norm x2"));
  EXPECT_EQ(rows[1].cost.flops, 6);
  EXPECT_EQ(rows[1].cost.seconds, 1.5);
  EXPECT_EQ(rows[2].cost.flops, 2);
}

TEST(ExplainRows, AnyDifferenceSeparates) {
  std::vector<OpCost> ops(6, cost("blk.0.a"));
  ops[1].device = "gpu0";
  ops[2].kernel = "gemm_q6_k_avx512";
  ops[3].weightBytes = 1;
  ops[4].seconds = 2;
  ops[5].reason = "Because.";
  for (size_t i = 0; i < ops.size(); ++i)
    EXPECT_EQ(moec::makeRows({ops[0], ops[i]}, false).size(), i ? 2u : 1u) << i;
  // A name may equal the end of the name of a layer's op.
  EXPECT_EQ(moec::makeRows({cost("blk.0.a"), cost("a")}, false).size(), 2u);
}

// "Adds blk.3.ffn" and "Adds blk.4.ffn" are one reason.
TEST(ExplainRows, ReasonsThatNameTheirOwnLayers) {
  auto rows =
      moec::makeRows({cost("blk.4.ffn", 2, "Adds blk.4.attn to blk.3.ffn."),
                      cost("blk.5.ffn", 2, "Adds blk.5.attn to blk.4.ffn."),
                      cost("blk.6.ffn", 2, "Adds blk.6.attn to blk.4.ffn.")},
                     false);
  EXPECT_THAT(names(rows), ElementsAre("blk.4-5.ffn x2", "blk.6.ffn x1"));
  EXPECT_EQ(moec::reasonOfAnyLayer(rows[0].cost),
            "Adds blk.N.attn to blk.N-1.ffn.");
  EXPECT_EQ(moec::reasonOfAnyLayer(rows[1].cost),
            "Adds blk.N.attn to blk.4.ffn.");
  // "blk.1" is not the start of "blk.12", and there is no layer before 0.
  EXPECT_EQ(moec::reasonOfAnyLayer(cost("blk.1.a", 2, "blk.12.b blk.")),
            "blk.12.b blk.");
  EXPECT_EQ(moec::reasonOfAnyLayer(cost("blk.0.a", 2, "blk.1.b blk.0.b")),
            "blk.1.b blk.N.b");
  EXPECT_EQ(moec::reasonOfAnyLayer(cost("output", 2, "Adds blk.3.ffn.")),
            "Adds blk.3.ffn.");
}

TEST(ExplainRows, FullGivesEveryOpARow) {
  auto rows = moec::makeRows({cost("blk.0.a"), cost("blk.1.a")}, true);
  EXPECT_THAT(names(rows), ElementsAre("blk.0.a x1", "blk.1.a x1"));
}

TEST(ExplainRows, ScatteredLayers) {
  std::vector<OpCost> ops;
  std::vector<std::string> labels;
  for (int layer : {0, 1, 2, 5, 8, 11, 12})
    labels.push_back("blk." + std::to_string(layer) + ".attn_v");
  for (const std::string &label : labels)
    ops.push_back(cost(label));
  auto rows = moec::makeRows(ops, false);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].names.text(true), "blk.0..12.attn_v");
  EXPECT_EQ(rows[0].names.text(false), "blk.0-2,5,8,11-12.attn_v");
  ops.resize(5); // Three ranges are short enough.
  EXPECT_EQ(moec::makeRows(ops, false)[0].names.text(true),
            "blk.0-2,5,8.attn_v");
}

// A part may have the name of a layer's op.
TEST(ExplainRows, NamesAreNotParsed) {
  OpCost odd = cost("a");
  odd.part = "blk.3.a";
  auto rows = moec::makeRows({odd, cost("blk.3.a"), cost("blk.4.a")}, false);
  EXPECT_THAT(names(rows), ElementsAre("blk.3.a x1", "blk.3-4.a x2"));
}

/// A plan with two devices, three phases, and layers 0 to 2.
class ExplainTest : public ::testing::Test {
protected:
  ExplainTest() : builder(32, 40, 4096, "avx512") {
    fb::PlanT &plan = builder.plan;
    plan.explanation.clear();
    plan.target = "4090+xeon";
    plan.layers = 3;
    plan.parameters = 671026404352;
    plan.notes = {"Layer 61 predicts further tokens and is not run."};
    fb::DeviceT &cpu = *plan.devices[0];
    cpu.weight_bytes = 6 * GiB;
    cpu.arena_bytes = GiB;
    cpu.scratch_bytes = GiB / 8;
    cpu.worker_bytes = GiB / 8;
    cpu.cores = 4;
    cpu.memory_bytes = 16 * GiB;
    auto gpu = std::make_unique<fb::DeviceT>();
    gpu->name = "gpu0";
    gpu->kind = fb::DeviceKind::Cuda;
    gpu->isa = "cuda";
    gpu->weight_bytes = 23 * GiB;
    gpu->memory_bytes = 24 * GiB;
    plan.devices.push_back(std::move(gpu));
    builder.kv(576, moek::KvType::BF16);
    builder.kv(576, moek::KvType::F32);
    builder.phase("decode", 1, 1);
    builder.phase("prefill", 2, 512);
    builder.phase("logits", 1, 8);
    for (const char *layer : {"0", "1", "2"}) {
      std::string prefix = std::string("blk.") + layer + ".";
      explain(prefix + "attn_q", "decode", "gpu0", 1e9, 5e8, 0.001);
      explain(prefix + "experts", "decode", "cpu0", 2e9, 1e9, 0.003);
      explain(prefix + "experts", "prefill", "cpu0", 4e12, 8e9, 1);
    }
    explain("output", "logits", "cpu0", 1e9, 1e9, 0.008);
  }

  fb::ExplainT &explain(std::string op, std::string phase, std::string device,
                        double flops, double weightBytes, double seconds) {
    auto entry = std::make_unique<fb::ExplainT>();
    auto [part, layer] = split(op);
    entry->part = part;
    entry->layer = layer;
    entry->phase = std::move(phase);
    entry->reason = "On " + device + ": measured to be the fastest.";
    entry->device = std::move(device);
    entry->kernel = "gemm_q4_k_avx512+gemm_q6_k_avx512";
    entry->flops = flops;
    entry->weight_bytes = weightBytes;
    entry->intensity = flops / weightBytes;
    entry->seconds = seconds;
    builder.plan.explanation.push_back(std::move(entry));
    return *builder.plan.explanation.back();
  }

  /// The plan's table, which lives as long as the test.
  const fb::Plan &table() {
    bytes = builder.bytes();
    return *fb::GetPlan(bytes.data());
  }
  std::string textReport(bool full = false) {
    return moec::explainText(table(), full);
  }
  json jsonReport() { return json::parse(moec::explainJson(table())); }

  /// Returns the line of `report` that starts with `start`, ignoring
  /// indentation, with single blanks between its words.
  static std::string lineOf(const std::string &report,
                            const std::string &start) {
    std::istringstream lines(report);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string joined;
      for (std::string word; words >> word;)
        joined += (joined.empty() ? "" : " ") + word;
      if (joined.starts_with(start))
        return joined;
    }
    ADD_FAILURE() << "no line " << start << " in\n" << report;
    return "";
  }

  PlanBuilder builder;
  std::vector<uint8_t> bytes;
};

TEST_F(ExplainTest, Header) {
  std::string report = textReport();
  EXPECT_EQ(lineOf(report, "model"), "model sample");
  EXPECT_EQ(lineOf(report, "parameters"), "parameters 671.03 B");
  EXPECT_EQ(lineOf(report, "target"), "target 4090+xeon");
  EXPECT_EQ(lineOf(report, "context"), "context 4096 tokens");
  EXPECT_EQ(lineOf(report, "ubatch"), "ubatch 512 tokens");
  EXPECT_THAT(lineOf(report, "files"), HasSubstr("plan.weights (0 B, weights"));
  EXPECT_THAT(report, HasSubstr("notes\n  Layer 61 predicts"));
}

TEST_F(ExplainTest, MemoryAgainstTheBudget) {
  std::string report = textReport();
  // kv(): 576 * 4096 * (2 + 4) bytes.
  EXPECT_EQ(lineOf(report, "cpu0"), "cpu0 6.00 GiB 13.50 MiB 1.00 GiB 1.00 GiB "
                                    "16.00 GiB 50.1 % fits, 7.99 GiB left");
  // Scratch is the sum over all workers.
  EXPECT_EQ(lineOf(report, "gpu0"), "gpu0 23.00 GiB 0 B 0 B 0 B 24.00 GiB "
                                    "95.8 % tight: only 1.00 GiB left");
  EXPECT_EQ(lineOf(report, "KV cache"),
            "KV cache 3.38 KiB per token in bf16+f32, 13.50 MiB for a context "
            "of 4096 "
            "tokens");
  for (auto &kv : builder.plan.kv)
    kv->capacity = 3 * 4096;
  EXPECT_THAT(lineOf(textReport(), "KV cache"),
              HasSubstr("40.50 MiB for 3 contexts of 4096 tokens"));
  for (auto &kv : builder.plan.kv)
    kv->capacity = 5000;
  EXPECT_THAT(lineOf(textReport(), "KV cache"),
              HasSubstr("16.48 MiB for 5000 tokens"));
  builder.plan.devices[1]->weight_bytes = 26 * GiB;
  builder.plan.devices[0]->memory_bytes = 0;
  report = textReport();
  EXPECT_THAT(lineOf(report, "gpu0"),
              HasSubstr("108.3 % does not fit: 2.00 GiB over the budget"));
  EXPECT_THAT(lineOf(report, "cpu0"),
              HasSubstr("GiB - - the plan records no budget"));
}

TEST_F(ExplainTest, PredictedSpeed) {
  std::string report = textReport();
  // 512 tokens / 3 s; 1 / (3 * (1 + 3) ms + 8 ms of logits).
  EXPECT_EQ(lineOf(report, "prefill"), "prefill 171 tokens/s: 512 tokens after "
                                       "1024 in the cache take 3.00 s");
  EXPECT_EQ(lineOf(report, "decode"),
            "decode 50.0 tokens/s: 1 token after 2048 in the cache, logits "
            "included, takes 20.0 ms a token");
  EXPECT_EQ(lineOf(report, "time of decode"),
            "time of decode 25.0 % gpu0, 75.0 % cpu0");
}

TEST_F(ExplainTest, SequencesTogether) {
  builder.plan.sequences = 8;
  builder.phase("batch", 2, 8);
  explain("blk.0.experts", "batch", "cpu0", 8e9, 6e9, 0.09);
  explain("output", "batch", "cpu0", 8e9, 1e9, 0.01);
  std::string report = textReport();
  EXPECT_EQ(lineOf(report, "sequences"), "sequences 8 decoded together");
  EXPECT_EQ(lineOf(report, "batch"),
            "batch 80.0 tokens/s in all: 8 sequences, each after 2048 in the "
            "cache, logits included, take 100 ms");
  json object = jsonReport();
  EXPECT_EQ(object["sequences"], 8);
  EXPECT_EQ(object["kv_rows"], 4096);
  EXPECT_NEAR(object["batch_tokens_per_second"].get<double>(), 80, 1e-9);
}

TEST_F(ExplainTest, TablesCollapseLayers) {
  std::string report = textReport();
  EXPECT_EQ(lineOf(report, "blk.0-2.attn_q"),
            "blk.0-2.attn_q x3 gpu0 gemm_q4_k_avx512 3.00 G 1.40 GiB 2.00 "
            "3.00 ms 25.0 1");
  EXPECT_EQ(lineOf(report, "+gemm"), "+gemm_q6_k_avx512");
  EXPECT_EQ(lineOf(report, "total"), "total 9.00 G 4.19 GiB 12.0 ms");
  EXPECT_THAT(report, Not(HasSubstr("blk.1.attn_q")));
  EXPECT_THAT(report, HasSubstr("   1. On gpu0: measured to be the fastest.\n"
                                "      for blk.0-2.attn_q\n"
                                "   2. On cpu0: measured to be the fastest.\n"
                                "      for blk.0-2.experts, output\n"));
  report = textReport(/*full=*/true);
  EXPECT_THAT(lineOf(report, "blk.1.attn_q"),
              HasSubstr("1.00 G 477 MiB 2.00 1.00 ms 8.3 1"));
}

TEST_F(ExplainTest, NoLineOfATableIsOver120Columns) {
  fb::ExplainT &op =
      explain("blk.0." + std::string(300, 'o'), std::string("decode"),
              std::string(50, 'd'), 1e99, 1e98, 1e99);
  op.kernel = std::string(70, 'k');
  op.reason = "";
  for (int i = 0; i < 60; ++i)
    op.reason += "word" + std::string(size_t(i) * 3, 'x') + " ";
  for (int i = 0; i < 1000; ++i)
    explain("o" + std::to_string(i), "logits", "cpu0", 1, 1023, 1).reason =
        std::to_string(i);
  std::istringstream lines(textReport());
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 120u) << line;
}

TEST_F(ExplainTest, JsonHasEveryOp) {
  json report = jsonReport();
  EXPECT_EQ(report["context"], 4096);
  EXPECT_EQ(report["ubatch"], 512);
  EXPECT_EQ(report["kv_bytes_per_token"], 576 * 6);
  EXPECT_EQ(report["kv_bytes"], 576 * 6 * 4096);
  EXPECT_DOUBLE_EQ(report["decode_tokens_per_second"], 50);
  EXPECT_DOUBLE_EQ(report["prefill_tokens_per_second"], 512.0 / 3);
  EXPECT_EQ(report["devices"][1]["state"], "tight");
  EXPECT_EQ(report["devices"][0]["scratch_bytes"], GiB);
  EXPECT_EQ(report["devices"][0]["workers"], 4);
  EXPECT_EQ(report["devices"][0]["used_bytes"],
            8 * GiB + uint64_t(576 * 6 * 4096));
  const json &decode = report["phases"][0];
  EXPECT_EQ(decode["name"], "decode");
  EXPECT_EQ(decode["typical_cached"], 2048);
  ASSERT_EQ(decode["ops"].size(), 6u);
  EXPECT_EQ(decode["ops"][2]["op"], "blk.1.attn_q");
  EXPECT_EQ(decode["ops"][2]["part"], "attn_q");
  EXPECT_EQ(decode["ops"][2]["layer"], 1);
  EXPECT_TRUE(report["phases"][2]["ops"][0]["layer"].is_null());
  EXPECT_EQ(report["kv_types"][1]["type"], "f32");
  EXPECT_EQ(decode["ops"][2]["intensity"], 2);
  EXPECT_EQ(decode["ops"][2]["reason"], "On gpu0: measured to be the fastest.");
  EXPECT_DOUBLE_EQ(decode["device_seconds"]["cpu0"], 0.009);
  EXPECT_EQ(report["notes"].size(), 2u);
}

TEST_F(ExplainTest, NamesCannotDriveTheTerminal) {
  const std::string hostile = "\x1b[2J\n\x07\xff";
  fb::PlanT &plan = builder.plan;
  plan.model_name = plan.architecture = plan.target = plan.compiler = hostile;
  plan.options = plan.notes[0] = plan.devices[0]->name = hostile;
  plan.phases[0]->name = hostile;
  for (auto phase : {std::string("logits"), hostile}) {
    fb::ExplainT &op = explain(hostile, phase, hostile, 1, 1, 1);
    op.kernel = op.reason = hostile;
    explain("blk.7." + hostile, phase, hostile, 1, 1, 1);
  }
  std::string report = textReport(), full = textReport(true);
  for (const std::string &text : {report, full})
    for (char c : text)
      ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << text;
  EXPECT_THAT(report, HasSubstr("\\x1b[2J\\x0a\\x07\\xff"));
  EXPECT_EQ(jsonReport()["phases"][0]["ops"].size(), 2u);
}

TEST_F(ExplainTest, ImpossibleCostsCountAsZero) {
  builder.plan.explanation.clear();
  double nan = std::numeric_limits<double>::quiet_NaN();
  double inf = std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::max();
  double least = std::numeric_limits<double>::denorm_min();
  for (double bad : {nan, inf, -1.0, most, least})
    explain("output", "decode", "cpu0", bad, bad, bad);
  std::string report = textReport();
  EXPECT_THAT(report, Not(HasSubstr("nan")));
  EXPECT_THAT(report, Not(HasSubstr("inf")));
  EXPECT_THAT(report, HasSubstr("the plan has no predicted times"));
  json decode = jsonReport()["phases"][0];
  EXPECT_EQ(decode["seconds"], 0);
  EXPECT_TRUE(decode["ops"][0]["intensity"].is_null());
}

// The code is for an older GPU if there is none for the plan's own.
TEST_F(ExplainTest, GpuCodeWithItsResources) {
  fb::PlanT &plan = builder.plan;
  plan.nvrtc = "13.0";
  plan.devices[1]->arch = 89;
  plan.devices[1]->workspace_bytes = GiB / 2;
  plan.queues.push_back(std::make_unique<fb::QueueT>());
  plan.queues.back()->device = 1;
  auto module = std::make_unique<fb::ModuleT>();
  module->entry = "gemv_1_q4_k";
  module->file = "kernels/cuda/Gemv.cu";
  for (int arch : {80, 86, 90}) {
    auto image = std::make_unique<fb::ImageT>();
    image->arch = arch;
    image->registers = arch;
    image->spilled_bytes = 8;
    image->shared_bytes = 1024;
    image->cubin.resize(1024);
    module->images.push_back(std::move(image));
  }
  plan.modules.push_back(std::move(module));
  for (uint32_t threads : {128, 256}) {
    auto instruction = std::make_unique<fb::InstructionT>();
    instruction->queue = 1;
    instruction->launches.emplace_back(0, 64, 1, 1, threads, 1024);
    plan.phases[0]->instructions.push_back(std::move(instruction));
  }
  EXPECT_EQ(lineOf(textReport(), "kernels"),
            "kernels 1 for sm_80, sm_86, sm_90, 3.00 KiB, compiled by NVRTC "
            "13.0");
  EXPECT_EQ(lineOf(textReport(), "launches"), "launches 2 in a step of decode");
  // 86 registers allow five warps per quarter, so two blocks of eight warps.
  EXPECT_EQ(lineOf(textReport(true), "gemv_1_q4_k"),
            "gemv_1_q4_k gpu0 86 (8 B spilled) 256 2.00 KiB 16 of 48 2");
  json code = jsonReport()["gpu_code"];
  EXPECT_EQ(code["launches"]["decode"], 2);
  EXPECT_EQ(code["kernels"][0]["arch"], 86);
  EXPECT_EQ(code["kernels"][0]["warps_per_multiprocessor"], 16);
  EXPECT_EQ(jsonReport()["devices"][1]["scratch_bytes"], GiB / 2);
}

TEST_F(ExplainTest, NothingAboutCodeWithoutGpus) {
  EXPECT_THAT(textReport(true), Not(HasSubstr("code of GPUs")));
  EXPECT_TRUE(jsonReport()["gpu_code"].is_null());
}

TEST(ExplainEmptyPlan, DividesByNothing) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::CreatePlan(builder), fb::PlanIdentifier());
  const fb::Plan &plan = *fb::GetPlan(builder.GetBufferPointer());
  std::string report = moec::explainText(plan, false);
  EXPECT_THAT(report, HasSubstr("the plan has no predicted times"));
  EXPECT_THAT(report, Not(HasSubstr("nan")));
  json object = json::parse(moec::explainJson(plan));
  EXPECT_TRUE(object["decode_tokens_per_second"].is_null());
  EXPECT_TRUE(object["prefill_tokens_per_second"].is_null());
  EXPECT_TRUE(object["ubatch"].is_null());
  EXPECT_TRUE(object["phases"].empty());
}

} // namespace
