// A plan with a layer that keeps a recurrent state and a layer with a KV cache:
// what an engine computes against float64, after any operations on sequences,
// and which plans are refused.
#include "test/unit/DeltaPlan.h"

#include "test/support/PlanEngineTest.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace moert;
using namespace moetest;
namespace fb = moert::fb;

namespace {

class StatesTest : public PlanEngineTest<DeltaPlan> {
protected:
  Engine &open(int32_t slots = 6) { return openOn(bestIsa(), slots); }
};

TEST_F(StatesTest, MatchFloat64InAllPhases) { expectFloat64(textOf(3, 90)); }

TEST_F(StatesTest, SequencesBesideOthersKeepTheirOwn) {
  open();
  expectStepsOfMany({5, 12, 19});
}

// Without a KV cache, pages only number the positions of states.
TEST_F(StatesTest, WorkWithoutAKvCache) {
  Engine &engine = openOn(bestIsa(), 6, /*attends=*/false);
  Tokens text = textOf(4, 2 * kPage + 30);
  Sequence a = engine.sequence();
  EXPECT_EQ(append(a, text), 2 * kPage + 30);
  Sequence b = engine.sequence();
  EXPECT_EQ(append(b, text), 30);
  ASSERT_TRUE(b.rewind(2 * kPage + 9).isOk());
  EXPECT_EQ(append(b, {7}), 9 + 1);
  std::string file = folder_.path() + "/b.seq";
  ASSERT_TRUE(b.save(file).isOk());
  a = engine.sequence();
  b = engine.sequence();
  auto restored = engine.restore(file);
  ASSERT_TRUE(restored.isOk()) << restored.status().message();
  EXPECT_EQ(append(*restored, {3}), 1);
  *restored = engine.sequence();
  expectStepsOfMany({5, DeltaPlan::kContext - 3, 19});
}

// A reused slot is cleared first.
TEST_F(StatesTest, ANewSequenceBeginsAtZero) {
  Engine &engine = open(1);
  for (uint32_t i = 0; i < 3; ++i) {
    Sequence a = engine.sequence();
    EXPECT_EQ(append(a, textOf(i, 30)), 30);
    ASSERT_TRUE(a.rewind(0).isOk());
    EXPECT_EQ(append(a, textOf(i + 10, 1)), 1);
  }
}

TEST_F(StatesTest, RewindingEvaluatesAgainFromTheLastCheckpoint) {
  Engine &engine = open();
  Sequence a = engine.sequence();
  // The prompt leaves a checkpoint after its second page.
  EXPECT_EQ(append(a, textOf(1, 2 * kPage + 20)), 2 * kPage + 20);
  EXPECT_EQ(append(a, {5}), 1);
  ASSERT_TRUE(a.rewind(2 * kPage + 9).isOk());
  EXPECT_EQ(a.position(), 2 * kPage + 9);
  EXPECT_EQ(append(a, {7}), 9 + 1);
  EXPECT_EQ(append(a, {8}), 1);
  // At the checkpoint itself, nothing is evaluated again.
  ASSERT_TRUE(a.rewind(2 * kPage).isOk());
  EXPECT_EQ(append(a, {9, 10}), 2);
  // There is no checkpoint before that one.
  ASSERT_TRUE(a.rewind(2 * kPage - 1).isOk());
  EXPECT_EQ(append(a, {11}), 2 * kPage);
  // Rewinding to the current position changes nothing.
  ASSERT_TRUE(a.rewind(a.position()).isOk());
  EXPECT_EQ(append(a, {12}), 1);
}

// A checkpoint is dropped when the page before it gets other tokens.
TEST_F(StatesTest, ACheckpointGoesWithItsPage) {
  for (bool share : {true, false}) {
    SCOPED_TRACE(share);
    Engine &engine = open();
    Sequence a = engine.sequence({share});
    append(a, textOf(1, kPage + 10));
    ASSERT_TRUE(a.rewind(kPage - 2).isOk());
    for (int32_t token : {1, 2, 3, 4})
      append(a, {token});
    ASSERT_TRUE(a.rewind(kPage + 1).isOk());
    EXPECT_EQ(append(a, {6}), kPage + 2);
  }
}

TEST_F(StatesTest, AForkGoesItsOwnWay) {
  Engine &engine = open();
  Sequence a = engine.sequence();
  append(a, textOf(2, 40));
  Sequence b = a.fork();
  EXPECT_EQ(append(a, {1}), 1);
  EXPECT_EQ(append(b, {2}), 1);
  EXPECT_EQ(append(a, {3, 4, 5}), 3);
  EXPECT_EQ(append(b, {6}), 1);
}

// Without a free slot, a fork evaluates its whole text again once there is one.
TEST_F(StatesTest, AForkWithoutASlotBeginsAgain) {
  Engine &engine = open(2);
  Sequence a = engine.sequence();
  append(a, textOf(2, 40));
  std::optional<Sequence> b = a.fork();
  Sequence c = a.fork();
  auto none = engine.append(c, 1);
  ASSERT_FALSE(none.isOk());
  EXPECT_EQ(none.status().code(), StatusCode::DoesNotFit);
  EXPECT_NE(none.status().message().find(
                "there is room for the states of 2 sequences, and all of it "
                "is in use; end a sequence, or compile for more with "
                "--sequences"),
            std::string::npos)
      << none.status().message();
  EXPECT_EQ(c.position(), 40);
  Sequence d = c.fork();
  std::string file = folder_.path() + "/c.seq";
  ASSERT_TRUE(c.save(file).isOk());
  b.reset();
  EXPECT_EQ(append(c, {1}), 41);
  c = engine.sequence();
  EXPECT_EQ(append(d, {2}), 41);
  d = engine.sequence();
  auto restored = engine.restore(file);
  ASSERT_TRUE(restored.isOk()) << restored.status().message();
  EXPECT_EQ(restored->position(), 40);
  EXPECT_EQ(append(*restored, {3}), 41);
}

TEST_F(StatesTest, EqualPromptsShareUpToTheCheckpoint) {
  Engine &engine = open();
  Tokens text = textOf(4, 2 * kPage + 30);
  Sequence a = engine.sequence();
  EXPECT_EQ(append(a, text), 2 * kPage + 30);
  Sequence b = engine.sequence();
  EXPECT_EQ(append(b, text), 30);
  // This text ends in its second page, and there is no checkpoint before that.
  Tokens other(text.begin(), text.begin() + kPage + 40);
  other.push_back((other.back() + 1) % DeltaPlan::kVocab);
  Sequence c = engine.sequence();
  EXPECT_EQ(append(c, other), kPage + 41);
  // The text has left a checkpoint after its own first page.
  Sequence d = engine.sequence();
  EXPECT_EQ(append(d, other), 41);
}

// One of two slots is the sequence's, so the older checkpoint is dropped.
TEST_F(StatesTest, TheOldestCheckpointGoesFirst) {
  Engine &engine = open(2);
  Tokens first = textOf(4, kPage + 5), second = textOf(5, kPage + 6);
  {
    Sequence a = engine.sequence();
    append(a, first);
  }
  {
    Sequence b = engine.sequence();
    EXPECT_EQ(append(b, second), kPage + 6);
  }
  {
    Sequence c = engine.sequence();
    EXPECT_EQ(append(c, second), 6);
  }
  Sequence d = engine.sequence();
  EXPECT_EQ(append(d, first), kPage + 5);
}

// If the only free slot holds a checkpoint, the sequence takes over that slot.
TEST_F(StatesTest, ACheckpointsSlotIsTakenOverIfNoneIsFree) {
  Engine &engine = open(2);
  Tokens text = textOf(4, kPage + 5);
  Sequence a = engine.sequence();
  append(a, text);
  Sequence b = engine.sequence();
  EXPECT_EQ(append(b, text), 5);
}

TEST_F(StatesTest, ACancelledStepLeavesNoState) {
  Engine &engine = open();
  std::atomic<bool> cancel = false;
  Sequence a = engine.sequence();
  append(a, textOf(2, 40));
  a.setCancel(&cancel);
  // Cancels in the middle of a prompt, and before one.
  int steps = 0;
  engine.setObserver([&](const PhaseRun &) { cancel = ++steps == 2; });
  auto logits = engine.append(a, textOf(3, 60));
  EXPECT_EQ(logits.status().code(), StatusCode::Cancelled);
  engine.setObserver(nullptr);
  cancel = true;
  int32_t position = a.position();
  ASSERT_TRUE(a.rewind(position - 3).isOk());
  EXPECT_EQ(engine.append(a, 1).status().code(), StatusCode::Cancelled);
  EXPECT_EQ(a.position(), position - 3);
  cancel = false;
  append(a, {1});
}

// The search for the cause repeats the step, including the rows of healthy
// sequences.
TEST_F(StatesTest, OtherSequencesOfAFailedStepContinue) {
  open();
  const float nan = NAN;
  std::memcpy(
      plan_->builder.weightBytes().data() +
          plan_->builder.plan.weights[plan_->refs["embed"].index]->offset +
          size_t(DeltaPlan::kVocab - 1) * DeltaPlan::kHidden * 4,
      &nan, 4);
  Engine &damaged = reopen();
  Sequence a = damaged.sequence(), b = damaged.sequence();
  append(a, {1, 2, 3});
  append(b, {4, 5, 6});
  const int32_t good = 7, bad = DeltaPlan::kVocab - 1;
  Request requests[] = {{&a, {&good, 1}}, {&b, {&bad, 1}}};
  ASSERT_TRUE(
      damaged
          .step(requests, [](size_t, int32_t,
                             std::span<const float>) { return Status::ok(); })
          .isOk());
  EXPECT_TRUE(requests[0].status.isOk());
  EXPECT_EQ(requests[1].status.code(), StatusCode::InvalidFile);
  EXPECT_EQ(a.position(), 4);
  EXPECT_EQ(b.position(), 3);
  append(a, {8});
  append(b, {9});
}

TEST_F(StatesTest, ASavedSequenceGoesOn) {
  Engine *engine = &open();
  std::string file = folder_.path() + "/text.seq";
  Tokens text = textOf(6, kPage + 9);
  {
    Sequence a = engine->sequence();
    append(a, text);
    ASSERT_TRUE(a.save(file).isOk());
  }
  for (int i = 0; i < 2; ++i) {
    auto b = engine->restore(file);
    ASSERT_TRUE(b.isOk()) << b.status().message();
    EXPECT_EQ(append(*b, {3}), 1);
    engine = nullptr;
    b = Status(StatusCode::Usage, "gone");
    engine = &reopen();
  }
}

using Refusal = moetest::Refusal<DeltaPlan>;

class DeltaProofTest : public testing::TestWithParam<Refusal> {};

TEST_P(DeltaProofTest, Refuses) {
  DeltaPlan plan("ref");
  GetParam().damage(plan);
  moetest::expectRefused(plan.builder, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DeltaProofTest,
    testing::ValuesIn(std::vector<Refusal>{
        {"Taps", "taps = 9, expected 1 to 8", setInt("short_conv", 0, 9)},
        {"Dilation", "dilation = 0, expected 1 to 32",
         setInt("short_conv", 2, 0)},
        {"FarInputs", "the first input is within the rows that kernels look",
         setInt("short_conv", 2, 17)},
        {"FarState", "the state's parts fit its width",
         setInt("short_conv", 2, 16)},
        {"Weight", "operand weight is 44 x 3, expected 44 x 2",
         setInt("short_conv", 0, 2)},
        {"Part", "either both other parts are there with weights, or none",
         [](DeltaPlan &p) {
           p.decode("short_conv").operands[1] =
               p.decode("short_conv").operands[0];
         }},
        {"Bias", "operand bias is 1 x 4, expected 1 x 44",
         [](DeltaPlan &p) {
           p.decode("short_conv").operands[6] =
               p.decode("delta_gates").operands[2];
         }},
        {"Beta", "operand beta has 1 rows of 44 elements per token",
         [](DeltaPlan &p) {
           p.decode("delta_gates").operands[0] =
               p.decode("short_conv").operands[0];
         }},
        {"Decays", "each head has as many decays",
         [](DeltaPlan &p) {
           p.decode("delta_gates").operands[1] =
               p.decode("short_conv").operands[0];
         }},
        {"Channels", "operand gates has 1 rows of 8 elements per token",
         setInt("delta_rule", 6, 1)},
        {"Skip", "skip comes with sums",
         [](DeltaPlan &p) {
           p.decode("delta_rule").operands[2] =
               p.decode("delta_gates").operands[2];
         }},
        {"KeyHeads", "key_heads divide the heads", setInt("delta_rule", 0, 3)},
        {"Heads", "operand x has 1 rows of 44 elements per token",
         setInt("delta_rule", 1, 8)},
        {"Begin", "the state's parts fit its width",
         setInt("delta_rule", 4, 105)},
        {"Tiled", "tiled = 2", setInt("delta_rule", 5, 2)},
        {"Eps", "eps is not negative",
         [](DeltaPlan &p) { p.decode("delta_rule").floats[0] = -1; }},
        {"Groups", "the groups divide the columns", setInt("regroup", 0, 3)},
        {"Offset", "the parts lie inside a group", setInt("regroup", 1, 9)},
        {"PartOfGroup", "first = 0", setInt("regroup", 2, 0)},
        {"StateOfRows", "the state has a row for each sequence",
         [](DeltaPlan &p) {
           p.decode("delta_rule").operands[3] =
               fb::Operand(fb::OperandKind::Kv, p.refs.at("kv").index);
         }},
        {"RowsOfState", "the cache has a row per position",
         [](DeltaPlan &p) {
           p.decode("attention").operands[1] =
               fb::Operand(fb::OperandKind::Kv, p.refs.at("state").index);
         }},
        {"StateType", "the state's type is 2",
         [](DeltaPlan &p) { p.builder.plan.kv[1]->type = 2; }},
        {"NoStates", "capacity",
         [](DeltaPlan &p) { p.builder.plan.kv[1]->capacity = 0; }},
    }),
    Refusal::nameOf);

} // namespace
