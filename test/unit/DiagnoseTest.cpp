// Values that are not finite end the call in which they occur, with a message
// that names the tensor or the op.
#include "kernels/Registry.h"
#include "runtime/base/CheckedMath.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "tools/common/Remedies.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace moert;
using moetest::OneSequence;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

const std::vector<int32_t> tokens = {3, 17, 39, 0, 8};

class DiagnoseTest : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (!moek::hostSupports(*moek::isaFromName(GetParam())))
      GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  OneSequence open() {
    EngineOptions options;
    options.threads = 2;
    auto one = OneSequence::open(sample_.builder.write(folder_), options);
    EXPECT_TRUE(one.isOk()) << one.status().message();
    return *std::move(one);
  }
  static void expectRefused(const Status &status,
                            std::vector<std::string> parts) {
    ASSERT_EQ(int(status.code()), int(StatusCode::InvalidFile))
        << status.message();
    std::string shown = moetool::fullMessage(status);
    for (const std::string &part : parts)
      EXPECT_NE(shown.find(part), std::string::npos) << part << ": " << shown;
    EXPECT_LT(std::ranges::count(status.message(), '\n'), 5);
  }
  /// Expects the refusal both in decode and in prefill.
  void expectAllRefused(const std::vector<std::string> &parts) {
    auto one = open();
    {
      SCOPED_TRACE("prefill");
      expectRefused(one.append(tokens).status(), parts);
      EXPECT_EQ(one.sequence.position(), 0);
    }
    SCOPED_TRACE("decode");
    expectRefused(one.append(tokens[0]).status(), parts);
    EXPECT_EQ(one.sequence.position(), 0);
  }

  TempDir folder_;
  SamplePlan sample_{GetParam()};
};

struct Weight {
  const char *name;
  int64_t matrix, row;
  const char *rows, *place; ///< Parts of the expected message.
};

// Also a damaged row of the router, whose expert is then never chosen: 24 of 32
// such rows once went unnoticed, with three times the perplexity.
TEST_P(DiagnoseTest, NamesTheWeightAndItsRow) {
  for (Weight w :
       {Weight{"embed", 0, 3, "1 of 40 rows, the first in row 3", "(embed)"},
        {"wq", 0, 15, "1 of 16 rows, the first in row 15", "(linear)"},
        {"wkv", 0, 2, "1 of 12 rows, the first in row 2", "(linear)"},
        {"wkv", 0, 9, "1 of 12 rows, the first in row 9", "(linear)"},
        {"wk", 1, 2, ", head 1 holds", "1 of 4 rows, the first in row 2"},
        {"wv", 1, 5, ", head 1 holds", "1 of 6 rows, the first in row 5"},
        {"wo", 0, 31, "1 of 32 rows, the first in row 31", "(linear)"},
        {"dense_up", 0, 0, "1 of 24 rows, the first in row 0", "(linear)"},
        {"dense_down", 0, 7, "1 of 32 rows, the first in row 7", "(linear)"},
        {"router", 0, 0, "1 of 4 rows, the first in row 0", "(linear)"},
        {"router", 0, 1, "1 of 4 rows, the first in row 1", "(linear)"},
        {"router", 0, 2, "1 of 4 rows, the first in row 2", "(linear)"},
        {"router", 0, 3, "1 of 4 rows, the first in row 3", "(linear)"},
        {"shared_gate", 0, 4, "1 of 16 rows", "(gate_up)"},
        {"shared_up", 0, 4, "1 of 16 rows", "(gate_up)"},
        {"shared_down", 0, 4, "1 of 32 rows", "(linear)"}})
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      SCOPED_TRACE(::testing::Message() << w.name << ", " << bad);
      sample_ = SamplePlan(GetParam());
      sample_.fillRow(w.name, w.matrix, w.row, bad);
      expectAllRefused({std::string(": ") + w.name, w.rows, w.place,
                        "plan.weights, or the model",
                        "check the model file against its checksum"});
    }
}

// Names an expert that the token uses, although experts that it does not use
// are damaged too.
TEST_P(DiagnoseTest, NamesTheExpert) {
  auto meets = [&](int32_t token, int64_t expert) {
    sample_ = SamplePlan(GetParam());
    sample_.fillRow("down", expert, 0, NAN);
    return !open().append(token).isOk();
  };
  int32_t token = 0;
  while (token < SamplePlan::kVocab && meets(token, 0))
    ++token;
  ASSERT_LT(token, SamplePlan::kVocab);
  for (const char *name : {"gate", "up", "down"}) {
    SCOPED_TRACE(name);
    sample_ = SamplePlan(GetParam());
    for (int64_t e = 0; e < SamplePlan::kExperts; ++e)
      for (int64_t row = 0; row <= e; ++row)
        sample_.fillRow(name, e, 3 + row, NAN);
    Status status = open().append(token).status();
    expectRefused(status, {std::string(": ") + name + ", expert "});
    size_t at = status.message().find(", expert ") + 9;
    int expert = status.message()[at] - '0';
    expectRefused(status, {fmt::format("in {} of", expert + 1),
                           "the first in row 3", "(experts_"});
    EXPECT_TRUE(meets(token, expert)) << expert;
  }
}

TEST_P(DiagnoseTest, NamesTheOutput) {
  sample_.fillRow("out", 0, 39, NAN);
  auto one = open();
  expectRefused(one.append(tokens).status(),
                {": out holds", "1 of 40 rows, the first in row 39",
                 "logits, instruction 1 (linear)"});
  expectRefused(one.append(tokens[0]).status(), {": out holds"});
  auto sink = [](size_t, int32_t, std::span<const float>) {
    return Status::ok();
  };
  ASSERT_TRUE(one.sequence.rewind(0).isOk());
  expectRefused(one.engine->appendAll(one.sequence, tokens, sink),
                {": out holds"});
}

TEST_P(DiagnoseTest, NamesOpsAsTheExplanationDoes) {
  sample_.builder.plan.explanation[0]->part = "ffn_router";
  sample_.builder.plan.explanation[0]->layer = 0;
  sample_.fillRow("router", 0, 1, NAN);
  expectAllRefused({"(found in blk.0.ffn_router)"});
}

// An expert that another token uses in the last layer does not affect the last
// token's logits, but is reported all the same.
TEST_P(DiagnoseTest, AnyTokenOfAPrompt) {
  int prompts = 0;
  for (int64_t e = 0; e < SamplePlan::kExperts; ++e) {
    SCOPED_TRACE(e);
    sample_ = SamplePlan(GetParam());
    // Without attention, a token uses the same experts at every position.
    for (int64_t row = 0; row < SamplePlan::kHidden; ++row)
      sample_.fillRow("wo", 0, row, 0);
    sample_.fillRow("down", e, 0, NAN);
    auto one = open();
    std::vector<int32_t> met, spared;
    for (int32_t token = 0; token < SamplePlan::kVocab; ++token) {
      (one.append(token).isOk() ? spared : met).push_back(token);
      ASSERT_TRUE(one.sequence.rewind(0).isOk());
    }
    if (met.empty() || spared.empty())
      continue;
    ++prompts;
    EXPECT_TRUE(one.append(std::vector{spared[0], spared[0]}).isOk());
    ASSERT_TRUE(one.sequence.rewind(0).isOk());
    EXPECT_FALSE(one.append(std::vector{spared[0], met[0], spared[0]}).isOk());
    EXPECT_EQ(one.sequence.position(), 0);
  }
  EXPECT_GT(prompts, 0);
}

// A failed step leaves nothing in the cache that later steps read.
TEST_P(DiagnoseTest, TheSequenceStaysUsable) {
  sample_.fillRow("embed", 0, 39, NAN);
  auto one = open();
  ASSERT_TRUE(one.append(3).isOk());
  expectRefused(one.append({tokens.data() + 1, 4}).status(),
                {"1 of 40 rows, the first in row 39"});
  EXPECT_EQ(one.sequence.position(), 1);
  StatusOr<std::span<const float>> logits = one.append(17);
  ASSERT_TRUE(logits.isOk()) << logits.status().message();
  std::vector<double> expected = sample_.reference({3, 17})[1];
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR((*logits)[i], expected[i], 1e-4);
}

TEST_P(DiagnoseTest, OverflowsNameTheOp) {
  sample_.fillRow("wq", 0, 3, 3e38f);
  expectAllRefused({"an activation overflowed in ", "(linear)"});
}

// Keys above 65504 are infinite in F16. If they were minus infinity, attention
// would silently ignore their row.
TEST_P(DiagnoseTest, ACacheThatIsTooNarrow) {
  sample_.builder.plan.kv[0]->type = uint8_t(moek::KvType::F16);
  for (int64_t row = SamplePlan::kLatent;
       row < SamplePlan::kLatent + SamplePlan::kRope; ++row)
    sample_.fillRow("wkv", 0, row, 1e6f);
  expectAllRefused({"exceed what f16 holds", "--kv-type f32"});
}

// Attention does not write KV splits that no token sees. Here the buffer behind
// it overlaps the second of two splits and has the broken value.
TEST_P(DiagnoseTest, UnwrittenSplitsAreNotChecked) {
  moetest::fb::PlanT &plan = sample_.builder.plan;
  moetest::fb::PhaseT &decode = sample_.phase("decode");
  constexpr int64_t heads = SamplePlan::kHeads, latent = SamplePlan::kLatent;
  auto spans = std::make_unique<moetest::fb::BufferT>();
  spans->name = "spans";
  spans->cols = heads * (latent + 2);
  spans->rows_per_token = 2;
  uint64_t &end = plan.devices[0]->arena_bytes;
  spans->offset = end;
  uint64_t second = end + uint64_t(spans->cols) * 4;
  (*std::ranges::find(decode.buffers, "v", &moetest::fb::BufferT::name))
      ->offset = alignUp(second, 64);
  end = alignUp(second, 64) + 64;
  decode.buffers.push_back(std::move(spans));

  size_t at = sample_.find("decode", "latent_attention");
  moetest::fb::InstructionT &attention = *decode.instructions[at];
  auto combine = std::make_unique<moetest::fb::InstructionT>();
  combine->op = uint8_t(moek::OpCode::CombineSplits);
  combine->barrier = true;
  combine->kernels = {
      sample_.builder.kernel(std::string("combine_splits_") + GetParam())};
  moetest::fb::Operand out = attention.operands[2];
  attention.operands[2] = {moetest::fb::OperandKind::Buffer,
                           uint32_t(decode.buffers.size() - 1)};
  attention.ints[3] = 2;
  combine->operands = {attention.operands[2], out};
  combine->ints = {heads, latent, 2, 0};
  decode.instructions.insert(decode.instructions.begin() + at + 1,
                             std::move(combine));

  EXPECT_TRUE(open().append(3).isOk());
  sample_.fillRow("wv", 0, 2, NAN);
  expectRefused(open().append(3).status(),
                {": wv, head 0 holds", "the first in row 2"});
}

INSTANTIATE_TEST_SUITE_P(Isas, DiagnoseTest,
                         ::testing::Values("ref", "avx2", "avx512"));

} // namespace
