// moec diff prints only the differences of two plans, combines layers that
// change in the same way, and begins with the changes that affect the step's
// time most.
#include "compiler/Explain/Diff.h"

#include "test/support/PlanBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace moetest;
using moec::PlanDiff;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

/// One of the plans: layers 0 to 2 with a query of 1 ms and experts of 3 ms.
struct Side {
  PlanBuilder builder{32, 40, 4096, "avx512"};
  std::vector<uint8_t> bytes;

  Side() {
    builder.plan.explanation.clear();
    builder.plan.target = "xeon";
    builder.plan.devices[0]->cores = 4;
    builder.phase("decode", 1, 1);
    for (int layer : {0, 1, 2}) {
      explain("attn_q", layer, 0.001);
      explain("experts", layer, 0.003);
    }
  }
  fb::ExplainT &explain(std::string part, int layer, double seconds) {
    auto entry = std::make_unique<fb::ExplainT>();
    entry->part = std::move(part);
    entry->layer = layer;
    entry->phase = "decode";
    entry->device = "cpu0";
    entry->kernel = "gemm_q4_k_avx512";
    entry->weight_bytes = 1024;
    entry->seconds = seconds;
    builder.plan.explanation.push_back(std::move(entry));
    return *builder.plan.explanation.back();
  }
  fb::ExplainT &experts(int layer) {
    return *builder.plan.explanation[size_t(2 * layer + 1)];
  }
  const fb::Plan &table() {
    bytes = builder.bytes();
    return *fb::GetPlan(bytes.data());
  }
};

class DiffTest : public ::testing::Test {
protected:
  PlanDiff diff() { return {a.table(), b.table()}; }
  std::vector<std::string> rows() {
    std::vector<std::string> result;
    PlanDiff both = diff();
    for (const moec::DiffRow &row : both.phases.at(0).rows)
      result.push_back(row.names.name() + " " + row.cost.a.device + "|" +
                       row.cost.b.device);
    return result;
  }
  Side a, b;
};

TEST_F(DiffTest, APlanDoesNotDifferFromItself) {
  EXPECT_TRUE(diff().alike());
  EXPECT_THAT(moec::diffText(diff()), HasSubstr("the plans are alike"));
  EXPECT_EQ(json::parse(moec::diffJson(diff()))["alike"], true);
}

TEST_F(DiffTest, LayersThatMoveAlikeAreOneRow) {
  for (int layer : {0, 2}) {
    b.experts(layer).device = "gpu0";
    b.experts(layer).seconds = layer == 0 ? 0.001 : 0.002;
  }
  EXPECT_THAT(rows(), ElementsAre("blk.0,2.experts cpu0|gpu0"));
  PlanDiff both = diff();
  EXPECT_FALSE(both.alike());
  EXPECT_EQ(both.phases[0].parts, 6u);
  EXPECT_EQ(both.phases[0].changed, 2u);
  EXPECT_DOUBLE_EQ(both.phases[0].rows[0].secondsMore(), -0.003);
  std::string text = moec::diffText(both);
  EXPECT_THAT(text, HasSubstr("decode: 2 of 6 ops differ, 12.0 ms -> 9.00 ms"));
  EXPECT_THAT(text, HasSubstr("-3.00 ms"));
  EXPECT_THAT(text, Not(HasSubstr("attn_q")));
}

TEST_F(DiffTest, TheLargestChangeComesFirst) {
  b.experts(1).seconds = 0.0032;
  b.builder.plan.explanation[0]->seconds = 0.004;
  EXPECT_THAT(rows(),
              ElementsAre("blk.0.attn_q cpu0|cpu0", "blk.1.experts cpu0|cpu0"));
}

// A difference below 1 % of an op's time does not count.
TEST_F(DiffTest, AnotherKernelOrFormatOrTimeIsAChange) {
  b.experts(0).seconds = 0.00302;
  EXPECT_THAT(rows(), ElementsAre());
  b.experts(0).seconds = 0.00304;
  b.experts(1).kernel = "gemm_q6_k_avx512";
  b.experts(2).weight_bytes = 2048;
  // In both layers without another time, only the kernel differs.
  EXPECT_THAT(rows(), ElementsAre("blk.0,2.experts cpu0|cpu0",
                                  "blk.1.experts cpu0|cpu0"));
  EXPECT_THAT(moec::diffText(diff()),
              HasSubstr("gemm_q4_k_avx512 -> gemm_q6_k_avx512"));
}

// An op whose parts are on several devices is one row.
TEST_F(DiffTest, ASplitOpNamesItsDevices) {
  fb::ExplainT &part = b.explain("experts", 1, 0.0005);
  part.device = "gpu0";
  EXPECT_THAT(rows(), ElementsAre("blk.1.experts cpu0|cpu0+gpu0"));
}

TEST_F(DiffTest, OpsOfOnePlanHaveAnEmptyOtherSide) {
  b.explain("output", -1, 0.01);
  a.explain("copy", 2, 0.001);
  EXPECT_THAT(rows(), ElementsAre("output |cpu0", "blk.2.copy cpu0|"));
  EXPECT_THAT(moec::diffText(diff()), HasSubstr("- -> cpu0"));
}

TEST_F(DiffTest, OptionsAndMemoryThatDiffer) {
  b.builder.plan.target = "4090+xeon\x1b[31m";
  b.builder.plan.context = 8192;
  b.builder.plan.devices[0]->weight_bytes = 1 << 20;
  auto gpu = std::make_unique<fb::DeviceT>();
  gpu->name = "gpu0";
  gpu->kv_bytes = 2 << 20;
  b.builder.plan.devices.push_back(std::move(gpu));
  PlanDiff both = diff();
  ASSERT_EQ(both.facts.size(), 2u);
  EXPECT_EQ(both.facts[1].first, "context");
  EXPECT_EQ(both.facts[1].second.b, "8192");
  std::string text = moec::diffText(both);
  EXPECT_THAT(text, HasSubstr("4090+xeon\\x1b[31m"));
  EXPECT_THAT(text, HasSubstr("- -> 2.00 MiB"));
  json all = json::parse(moec::diffJson(both));
  EXPECT_EQ(all["devices"][1][0], nullptr);
  EXPECT_EQ(all["devices"][1][1]["kv_bytes"], 2 << 20);
  EXPECT_EQ(all["plan"]["context"], json({"4096", "8192"}));
}

} // namespace
