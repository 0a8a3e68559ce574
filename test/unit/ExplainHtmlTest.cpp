// The timeline of a step, and the page that explain --html writes.
#include "compiler/Explain/Explain.h"
#include "compiler/Explain/Timeline.h"
#include "kernels/OpCode.h"
#include "test/support/PlanBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace moetest;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

/// cpu0, and gpu0 with a queue for copies.
class ExplainHtmlTest : public ::testing::Test {
protected:
  ExplainHtmlTest() : builder(32, 40, 4096, "avx512") {
    fb::PlanT &plan = builder.plan;
    plan.explanation.clear();
    auto gpu = std::make_unique<fb::DeviceT>();
    gpu->name = "gpu0";
    gpu->kind = fb::DeviceKind::Cuda;
    plan.devices.push_back(std::move(gpu));
    plan.queues.clear();
    for (auto [device, kind] : {std::pair(0, fb::QueueKind::Compute),
                                std::pair(1, fb::QueueKind::Compute),
                                std::pair(1, fb::QueueKind::Copy)}) {
      plan.queues.push_back(std::make_unique<fb::QueueT>());
      plan.queues.back()->device = uint32_t(device);
      plan.queues.back()->kind = kind;
    }
    builder.phase("decode", 1, 1);
    builder.phase("prefill", 2, 512);
  }

  /// An op's explanation, by its index.
  uint32_t op(std::string part, std::string device, double seconds,
              std::string phase = "decode") {
    auto entry = std::make_unique<fb::ExplainT>();
    entry->part = std::move(part);
    entry->layer = 3;
    entry->phase = std::move(phase);
    entry->device = std::move(device);
    entry->seconds = seconds;
    builder.plan.explanation.push_back(std::move(entry));
    return uint32_t(builder.plan.explanation.size() - 1);
  }

  /// Appends an instruction to the decode phase.
  void run(uint32_t explain, uint32_t queue, std::vector<uint32_t> waits = {},
           int32_t signal = -1, moek::OpCode code = moek::OpCode::Add) {
    auto instruction = std::make_unique<fb::InstructionT>();
    instruction->op = uint8_t(code);
    instruction->explain = explain;
    instruction->queue = queue;
    instruction->waits = std::move(waits);
    instruction->signal = signal;
    fb::PhaseT &phase = *builder.plan.phases[0];
    phase.instructions.push_back(std::move(instruction));
    if (signal >= 0)
      ++phase.events;
  }

  const fb::Plan &table() {
    bytes = builder.bytes();
    return *fb::GetPlan(bytes.data());
  }
  std::string page() { return moec::explainHtml(table()); }

  /// Returns the data that the page's script reads.
  json facts() {
    std::string text = page();
    const std::string begin = "id=\"facts\">";
    size_t at = text.find(begin) + begin.size();
    return json::parse(text.substr(at, text.find("</script>", at) - at));
  }

  PlanBuilder builder;
  std::vector<uint8_t> bytes;
};

TEST_F(ExplainHtmlTest, QueuesWaitForEventsAndWorkAtTheSameTime) {
  uint32_t first = op("attn", "gpu0", 4), copy = op("to_cpu0", "gpu0", 1),
           shared = op("shared", "gpu0", 3), experts = op("experts", "cpu0", 8);
  run(first, 1, {}, 0);
  run(copy, 2, {0}, 1, moek::OpCode::Copy);
  run(shared, 1);
  run(experts, 0, {1});
  run(experts, 0);
  const fb::Plan &plan = table();
  moec::ExplainSummary summary(plan);
  moec::Timeline timeline(plan, *summary.phase("decode"));
  ASSERT_EQ(timeline.spans.size(), 5u);
  double starts[] = {0, 4, 4, 5, 9}, lengths[] = {4, 1, 3, 4, 4};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_DOUBLE_EQ(timeline.spans[i].start, starts[i]) << i;
    EXPECT_DOUBLE_EQ(timeline.spans[i].seconds, lengths[i]) << i;
    EXPECT_EQ(timeline.spans[i].copies, i == 1) << i;
  }
  EXPECT_DOUBLE_EQ(timeline.seconds, 13);
  EXPECT_EQ(timeline.queues[2].device, "gpu0");
  EXPECT_TRUE(timeline.queues[2].copies);
  EXPECT_DOUBLE_EQ(timeline.queues[0].busy, 8);
  EXPECT_DOUBLE_EQ(timeline.queues[1].busy, 7);
}

// A device's overhead, starting and barriers, is explained without an
// instruction.
TEST_F(ExplainHtmlTest, OverheadIsSpreadOverTheDevicesInstructions) {
  uint32_t attn = op("attn", "gpu0", 4), experts = op("experts", "cpu0", 8);
  op("overhead", "cpu0", 2);
  op("overlap", "4090+xeon", -3);
  run(attn, 1);
  run(experts, 0);
  run(experts, 0);
  const fb::Plan &plan = table();
  moec::ExplainSummary summary(plan);
  moec::Timeline timeline(plan, *summary.phase("decode"));
  EXPECT_DOUBLE_EQ(timeline.spans[0].seconds, 4);
  EXPECT_DOUBLE_EQ(timeline.spans[1].seconds, 5);
  EXPECT_DOUBLE_EQ(timeline.spans[2].start, 5);
  EXPECT_DOUBLE_EQ(timeline.seconds, 10);
}

TEST_F(ExplainHtmlTest, NoTimelineOfWhatIsNotThere) {
  uint32_t other = op("attn", "gpu0", 4, "prefill");
  op("attn", "gpu0", 4, "nowhere");
  run(other, 1); // The instruction belongs to another phase.
  run(other, 7); // There is no queue of this number.
  builder.plan.queues[0]->device = 9;
  const fb::Plan &plan = table();
  moec::ExplainSummary summary(plan);
  for (const moec::PhaseCost &phase : summary.phases) {
    moec::Timeline timeline(plan, phase);
    EXPECT_TRUE(timeline.spans.empty());
    EXPECT_EQ(timeline.seconds, 0);
  }
}

TEST_F(ExplainHtmlTest, SpansAreOfRows) {
  op("first", "gpu0", 1);
  uint32_t copy = op("to_cpu0", "gpu0", 3);
  run(copy, 2, {}, -1, moek::OpCode::Copy);
  json decode = facts()["phases"][0];
  EXPECT_EQ(decode["timeline"]["spans"],
            json::parse("[[1, 3, 2, 0, 1000000000]]"));
  EXPECT_EQ(decode["rows"][1]["part"], "to_cpu0");
  EXPECT_EQ(decode["rows"][1]["copies"], true);
  EXPECT_EQ(decode["rows"][0]["copies"], false);
}

TEST_F(ExplainHtmlTest, TextsStayText) {
  const std::string hostile = "</script><b>&amp;<!--<script>\xff\xe2\x80\xa8";
  fb::PlanT &plan = builder.plan;
  plan.model_name = plan.architecture = plan.target = plan.options = hostile;
  plan.devices[0]->name = plan.phases[0]->name = hostile;
  plan.notes = {hostile};
  uint32_t index = op(hostile, hostile, 1, hostile);
  plan.explanation[index]->reason = plan.explanation[index]->kernel = hostile;
  run(index, 0);
  std::string text = page();
  EXPECT_THAT(text, Not(HasSubstr("<b>")));
  EXPECT_THAT(text, Not(HasSubstr("<!--")));
  for (char c : text)
    ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f));
  EXPECT_EQ(facts()["model"], "</script><b>&amp;<!--<script>\ufffd\u2028");
  EXPECT_EQ(facts()["reasons"][1], facts()["model"]);
  EXPECT_EQ(facts()["phases"][0]["timeline"]["spans"].size(), 1u);
}

TEST_F(ExplainHtmlTest, SameBytesEveryTime) {
  run(op("attn", "gpu0", 0.1), 1);
  EXPECT_EQ(page(), page());
}

TEST(ExplainHtmlEmptyPlan, IsAPageToo) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::CreatePlan(builder), fb::PlanIdentifier());
  std::string page =
      moec::explainHtml(*fb::GetPlan(builder.GetBufferPointer()));
  EXPECT_THAT(page, HasSubstr("\"phases\":[]"));
  EXPECT_THAT(page, Not(HasSubstr("@FACTS@")));
  EXPECT_THAT(page, Not(HasSubstr("@page")));
}

} // namespace
