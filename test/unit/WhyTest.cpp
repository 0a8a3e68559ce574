// What moec explain --why answers: which ops a name means, what would be copied
// if an op ran on another device, and the bytes that are free there.
#include "compiler/Explain/Why.h"

#include "compiler/Explain/OpPattern.h"
#include "kernels/OpCode.h"
#include "test/support/PlanBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace moetest;
using moec::OpPattern;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Match = moec::OpPattern::Match;

namespace {

constexpr uint64_t kGiB = 1ull << 30;

TEST(Globs, AreThoseOfAShell) {
  for (auto [pattern, text] : {std::pair("a*c", "abbc"),
                               {"*", ""},
                               {"?b", "ab"},
                               {"[0-9]x", "7x"},
                               {"[!0-9]x", "ax"},
                               {"[]]", "]"},
                               {"{ab,cd}e", "cde"},
                               {"a**b", "ab"},
                               {"a[", "a["},
                               {"{a", "{a"},
                               {"{,x}y", "y"}})
    EXPECT_TRUE(moec::matchesGlob(pattern, text)) << pattern << " " << text;
  for (auto [pattern, text] : {std::pair("a*c", "abb"),
                               {"?", ""},
                               {"[0-9]", "a"},
                               {"[!0-9]", "3"},
                               {"{a,b}", "c"},
                               {"", "a"}})
    EXPECT_FALSE(moec::matchesGlob(pattern, text)) << pattern << " " << text;
}

TEST(Globs, StopAtABound) {
  std::string stars;
  for (int i = 0; i < 60; ++i)
    stars += "*a";
  EXPECT_FALSE(moec::matchesGlob(stars + "b", std::string(300, 'a')));
}

TEST(OpPatterns, NameOps) {
  auto match = [](std::string_view pattern, std::string_view part, int layer) {
    return OpPattern(pattern).match(part, layer);
  };
  EXPECT_EQ(match("blk.3.ffn_experts", "ffn_experts", 3), Match::Whole);
  EXPECT_EQ(match("blk.3.ffn_experts", "ffn_experts", 33), Match::None);
  EXPECT_EQ(match("blk.3.experts", "ffn_experts", 3), Match::Part);
  EXPECT_EQ(match("ffn_experts", "ffn_experts", 7), Match::Whole);
  EXPECT_EQ(match("experts", "ffn_experts", 7), Match::Part);
  EXPECT_EQ(match("experts", "output", -1), Match::None);
  EXPECT_EQ(match("output", "output", -1), Match::Whole);
  EXPECT_EQ(match("blk.*.attn_*", "attn_q", 12), Match::Whole);
  EXPECT_EQ(match("blk.*.attn", "attn_q", 12), Match::Part);
  EXPECT_EQ(match("blk.[12].attn_q", "attn_q", 12), Match::None);
  EXPECT_EQ(match("blk.1?.attn_q", "attn_q", 12), Match::Whole);
  // As the reports print several layers.
  EXPECT_EQ(match("blk.0-2,5.attn_q", "attn_q", 2), Match::Whole);
  EXPECT_EQ(match("blk.0-2,5.attn_q", "attn_q", 4), Match::None);
  EXPECT_EQ(match("blk.0..26.attn_q", "attn_q", 20), Match::Whole);
  EXPECT_EQ(match("blk.3", "attn_q", 3), Match::Whole);
  EXPECT_EQ(match("blk.*", "output", -1), Match::None);
  // Some of a layer's experts.
  EXPECT_EQ(match("ffn_experts", "ffn_experts.0-33", 58), Match::Whole);
  EXPECT_EQ(match("blk.58.ffn_experts", "ffn_experts.sum", 58), Match::Whole);
  for (const char *odd :
       {"", "blk.", "blk.-1.x", "blk.99999999999.x", "blk.3-.x"})
    EXPECT_EQ(match(odd, "attn_q", 3), Match::None) << odd;
}

/// A norm on a GPU, and a product and a sum on the CPU, which follow it:
/// [hidden] -> to_gpu0 -> norm -> to_cpu0 -> up -> mix.
class WhyTest : public ::testing::Test {
protected:
  WhyTest() : builder(32, 40, 4096, "avx512") {
    fb::PlanT &plan = builder.plan;
    plan.explanation.clear();
    plan.devices[0]->memory_bytes = 16 * kGiB;
    plan.devices[0]->weight_bytes = 6 * kGiB;
    plan.devices[0]->scratch_bytes = plan.devices[0]->worker_bytes = 0;
    auto gpu = std::make_unique<fb::DeviceT>();
    gpu->name = "gpu0";
    gpu->kind = fb::DeviceKind::Cuda;
    gpu->isa = "cuda";
    gpu->weight_bytes = 23 * kGiB;
    gpu->memory_bytes = 24 * kGiB;
    plan.devices.push_back(std::move(gpu));
    plan.queues.push_back(std::make_unique<fb::QueueT>());
    plan.queues.back()->device = 1;
    decode(0);
    decode(1);
  }

  /// A phase of 1 or 2 tokens whose copies take 1 us, and 1 ns per byte.
  void decode(int number) {
    PhaseBuilder phase =
        builder.phase(number ? "prefill" : "decode", number + 1, number + 1);
    std::string name = number ? "prefill" : "decode";
    double tokens = number + 1;
    Ref hidden = phase.buffer("hidden", 32), onGpu = phase.buffer("gpu", 32),
        normed = phase.buffer("normed", 32), back = phase.buffer("back", 32),
        up = phase.buffer("up", 64), out = phase.buffer("out", 64);
    auto emit = [&](std::string_view op, std::vector<Ref> operands, int queue,
                    uint32_t entry) {
      phase.emit(op, std::move(operands));
      fb::InstructionT &made = *phase.table().instructions.back();
      made.queue = uint32_t(queue);
      made.explain = entry;
    };
    for (Ref buffer : {onGpu, normed})
      phase.table().buffers[buffer.index]->device = 1;
    phase.input(hidden);
    phase.output(out);
    double copy = 1e-6 + 1e-9 * 128 * tokens;
    emit("copy", {hidden, onGpu}, 1,
         explain("input.to_gpu0", -1, name, "gpu0", copy, 128 * tokens));
    emit("rms_norm", {onGpu, {}, normed}, 1,
         explain("norm", 0, name, "gpu0", 3e-6, 0));
    emit("copy", {normed, back}, 1,
         explain("norm.to_cpu0", 0, name, "gpu0", copy, 128 * tokens));
    Ref w = weight();
    uint32_t entry = explain("up", 0, name, "cpu0", 5e-3, 0);
    emit("linear", {back, w, {}, up}, 0, entry);
    builder.plan.explanation[entry]->rejected.push_back(
        rejected("gpu0", 1e-3,
                 "with it on gpu0 a request would take 3 % less, "
                 "but blk.0.norm needs memory"));
    entry = explain("mix", 1, name, "cpu0", 1e-3, 0);
    emit("add", {up, up, out}, 0, entry);
    builder.plan.explanation[entry]->rejected.push_back(
        rejected("gpu0", -1, "a rule asks for cpu0"));
  }

  Ref weight() {
    static const std::vector<float> zeros(64 * 32);
    return builder.weight("w", {1, 64, 32}, zeros);
  }

  std::unique_ptr<fb::RejectedT> rejected(std::string name, double seconds,
                                          std::string reason) {
    auto entry = std::make_unique<fb::RejectedT>();
    entry->kind = "device";
    entry->name = std::move(name);
    entry->seconds = seconds;
    entry->chosen = "cpu0";
    entry->reason = std::move(reason);
    return entry;
  }

  uint32_t explain(std::string part, int layer, std::string phase,
                   std::string device, double seconds, double bytes) {
    auto entry = std::make_unique<fb::ExplainT>();
    entry->kernel = part.find(".to_") != part.npos ? "copy_cuda" : "k";
    entry->part = std::move(part);
    entry->layer = layer;
    entry->phase = std::move(phase);
    entry->reason = "On " + device + ": because.";
    entry->device = std::move(device);
    entry->seconds = seconds;
    entry->activation_bytes = bytes;
    builder.plan.explanation.push_back(std::move(entry));
    return uint32_t(builder.plan.explanation.size() - 1);
  }

  const fb::Plan &table() {
    bytes = builder.bytes();
    return *fb::GetPlan(bytes.data());
  }
  std::string text(std::string_view pattern, bool full = false) {
    auto answer = moec::whyText(table(), pattern, full);
    return answer.isOk() ? *answer : "error: " + answer.status().message();
  }
  json answers(std::string_view pattern) {
    auto answer = moec::whyJson(table(), pattern);
    EXPECT_TRUE(answer.isOk()) << answer.status().message();
    return json::parse(*answer)["answers"];
  }

  PlanBuilder builder;
  std::vector<uint8_t> bytes;
};

// `up` reads what was copied from the GPU, so only its result would cross: 64
// floats a token. The latency and the time per byte follow from the plan's two
// lengths of copies.
TEST_F(WhyTest, CopiesThatAnotherDeviceNeeds) {
  json up = answers("up")[0];
  EXPECT_EQ(up["devices"][0]["name"], "cpu0");
  const json &there = up["devices"][1];
  EXPECT_EQ(there["name"], "gpu0");
  for (int i = 0; i < 2; ++i) {
    const json &step = there["phases"][i];
    EXPECT_EQ(step["copies"], 1);
    EXPECT_EQ(step["copy_bytes"], 256 * (i + 1));
    EXPECT_NEAR(step["copy_seconds"].get<double>(), 1e-6 + 256e-9 * (i + 1),
                1e-12);
    EXPECT_EQ(step["seconds"], 1e-3);
  }
}

// The norm reads the step's input, which is on the CPU, and gives its result to
// the CPU: with it there, nothing would be copied.
TEST_F(WhyTest, CopiesThatFallAwayAreNotCounted) {
  for (auto &entry : builder.plan.explanation)
    if (entry->part == "norm")
      entry->rejected.push_back(rejected("cpu0", 5e-6, "slower"));
  for (const json &step : answers("norm")[0]["devices"][1]["phases"]) {
    EXPECT_EQ(step["copies"], 0) << step;
    EXPECT_EQ(step["copy_seconds"], 0);
  }
}

// What `up` reads was encoded, in an instruction of another op.
TEST_F(WhyTest, InputsAreCopiedBeforeTheyAreEncoded) {
  fb::PhaseT &phase = *builder.plan.phases[0];
  auto coded = std::make_unique<fb::BufferT>(*phase.buffers[3]);
  coded->encoding = uint8_t(moek::Encoding::A8);
  uint32_t number = uint32_t(phase.buffers.size());
  phase.buffers.push_back(std::move(coded));
  auto quantize = std::make_unique<fb::InstructionT>(*phase.instructions[2]);
  quantize->op = uint8_t(moek::OpCode::Quantize);
  quantize->queue = 0;
  quantize->explain = phase.instructions[4]->explain;
  auto &act = phase.instructions[3]->operands[0];
  quantize->operands = {act, {fb::OperandKind::Buffer, number}};
  act = {fb::OperandKind::Buffer, number};
  phase.instructions.insert(phase.instructions.begin() + 3,
                            std::move(quantize));
  // The result alone: the GPU has what was encoded.
  const json up = answers("up")[0];
  EXPECT_EQ(up["devices"][1]["phases"][0]["copies"], 1);
  EXPECT_EQ(up["devices"][1]["phases"][0]["copy_bytes"], 256);
}

TEST_F(WhyTest, ACopyOfUnknownTime) {
  for (auto &entry : builder.plan.explanation)
    if (entry->part == "up")
      entry->rejected.push_back(rejected("gpu1", 1e-3, "no room"));
  std::string report = text("up");
  EXPECT_THAT(report, HasSubstr("1.00 ms + copies"));
  EXPECT_THAT(report, HasSubstr("not used by the plan"));
  EXPECT_THAT(report, HasSubstr("whose time is not known"));
  const json there = answers("up")[0]["devices"][2];
  EXPECT_EQ(there["name"], "gpu1");
  EXPECT_EQ(there["is_used"], false);
  EXPECT_TRUE(there["free_bytes"].is_null());
  EXPECT_TRUE(there["phases"][0]["copy_seconds"].is_null());
  // Input and result.
  EXPECT_EQ(there["phases"][0]["copies"], 2);
  EXPECT_EQ(there["phases"][0]["copy_bytes"], 128 + 256);
}

TEST_F(WhyTest, BytesThatAreFree) {
  json up = answers("up")[0];
  EXPECT_NEAR(up["devices"][0]["free_bytes"].get<double>(), 10.0 * kGiB, 4096);
  EXPECT_NEAR(up["devices"][1]["free_bytes"].get<double>(), 1.0 * kGiB, 4096);
  builder.plan.devices[1]->shares_memory = true;
  builder.plan.devices[1]->memory_bytes = 0;
  builder.plan.devices[1]->weight_bytes = 2 * kGiB;
  // One budget: 16 GiB without the 6 and the 2.
  up = answers("up")[0];
  EXPECT_NEAR(up["devices"][0]["free_bytes"].get<double>(), 8.0 * kGiB, 4096);
  EXPECT_NEAR(up["devices"][1]["free_bytes"].get<double>(), 8.0 * kGiB, 4096);
  builder.plan.devices[0]->memory_bytes = 0;
  EXPECT_TRUE(answers("up")[0]["devices"][0]["free_bytes"].is_null());
  EXPECT_THAT(text("up"), HasSubstr("the plan records no budget"));
}

// The op has 2 GiB of weights by its instruction's work.
TEST_F(WhyTest, BytesThatAreTooFew) {
  auto &linear = *builder.plan.phases[0]->instructions[3];
  linear.work = std::make_unique<fb::Work>(0, 0, 0, 2. * kGiB, 0);
  EXPECT_EQ(answers("up")[0]["needed_bytes"], 2. * kGiB);
  EXPECT_THAT(text("up"), HasSubstr("1.00 GiB too few"));
}

TEST_F(WhyTest, RulesAndKernelsThatForbid) {
  std::string report = text("mix");
  EXPECT_THAT(report, HasSubstr("blk.1.mix\n  why: On cpu0: because."));
  EXPECT_THAT(report, HasSubstr("no kernel"));
  EXPECT_THAT(report, HasSubstr("not gpu0: a rule asks for cpu0."));
}

TEST(WhyReasons, SayTheRule) {
  auto ruleOf = [](std::string text) {
    return moec::WhyReason{{}, "gpu0", std::move(text)}.rule();
  };
  EXPECT_EQ(ruleOf("Packed. On gpu0: the rule 'blk.*=gpu0' asks for it."),
            "blk.*=gpu0");
  EXPECT_EQ(ruleOf("On gpu0: 4 of 5 layers are to be on GPUs."),
            "--n-gpu-layers");
  EXPECT_EQ(ruleOf("On gpu0: a token reads all of it."), "");
  EXPECT_EQ(ruleOf("the rule '"), "");
  EXPECT_EQ(ruleOf(""), "");
}

TEST_F(WhyTest, LayersAlikeShareAnAnswer) {
  fb::PlanT &plan = builder.plan;
  for (int layer : {2, 3, 5}) {
    uint32_t entry = explain("up", layer, "decode", "cpu0", 5e-3, 0);
    plan.explanation[entry]->rejected.push_back(rejected(
        "gpu0", 1e-3, "blk." + std::to_string(layer) + ".norm needs memory"));
  }
  plan.explanation.back()->seconds = 6e-3;
  json list = answers("blk.*.up");
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[1]["ops"], "blk.2-3.up");
  EXPECT_EQ(list[1]["layers"], json({2, 3}));
  EXPECT_EQ(list[1]["devices"][1]["phases"][0]["reason"],
            "blk.N.norm needs memory");
  EXPECT_EQ(list[2]["ops"], "blk.5.up");
  EXPECT_EQ(list[2]["devices"][1]["phases"][0]["reason"],
            "blk.5.norm needs memory");
  EXPECT_THAT(text("blk.*.up"),
              HasSubstr("blk.2-3.up x2, each (N is its layer)"));
  EXPECT_THAT(text("blk.*.up", /*full=*/true), HasSubstr("\nblk.3.up\n"));
}

// Reasons that hold for some phases are said to.
TEST_F(WhyTest, PhasesApart) {
  for (auto &entry : builder.plan.explanation)
    if (entry->part == "up" && entry->phase == "prefill")
      entry->device = "gpu0";
  std::string report = text("up");
  EXPECT_THAT(report, HasSubstr("why: in decode: On cpu0: because."));
  EXPECT_THAT(report, HasSubstr("why: in prefill: On cpu0: because."));
  EXPECT_THAT(report, HasSubstr("not gpu0: in decode: with it"));
  EXPECT_THAT(report, HasSubstr("not cpu0: in prefill: the plan records no"));
}

TEST_F(WhyTest, CopiesAreMeantByTheirNamesAlone) {
  EXPECT_THAT(text("nor"), HasSubstr("blk.0.norm\n"));
  EXPECT_THAT(text("*"), Not(HasSubstr("to_")));
  EXPECT_THAT(text("nor"), Not(HasSubstr("to_cpu0")));
  EXPECT_THAT(text("norm.to_cpu0"), HasSubstr("blk.0.norm.to_cpu0\n"));
  EXPECT_THAT(text("norm.to_cpu0"), HasSubstr("A copy runs on the GPU"));
}

TEST_F(WhyTest, NamesOfNothing) {
  EXPECT_EQ(text("blk.0.nrom"),
            "error: no op of the plan is called \"blk.0.nrom\"; the nearest "
            "names are norm, up, mix; moec explain lists all");
  EXPECT_THAT(text(""), HasSubstr("no op of the plan is called \"\""));
  EXPECT_THAT(text(std::string(100000, '*') + "x"), HasSubstr("no op"));
  EXPECT_THAT(text("\x1b[2J"), Not(HasSubstr("\x1b")));
  builder.plan.explanation.clear();
  EXPECT_EQ(text("up"), "error: this plan explains no op");
}

TEST_F(WhyTest, APlanWithoutReasons) {
  for (auto &entry : builder.plan.explanation) {
    entry->rejected.clear();
    entry->reason.clear();
  }
  std::string report = text("up");
  EXPECT_THAT(report, HasSubstr("on cpu0; the plan records no reason."));
  EXPECT_THAT(report, HasSubstr("The plan records no other device for it"));
}

TEST_F(WhyTest, NamesCannotDriveTheTerminal) {
  const std::string hostile = "\x1b[2J\n\x07\xff";
  for (auto &entry : builder.plan.explanation) {
    entry->part += hostile;
    entry->reason = entry->device = hostile;
    for (auto &rejected : entry->rejected)
      rejected->name = rejected->reason = hostile;
  }
  for (auto &phase : builder.plan.phases)
    phase->name += hostile;
  for (auto &entry : builder.plan.explanation)
    entry->phase += hostile;
  for (char c : text("*"))
    ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f));
}

} // namespace
