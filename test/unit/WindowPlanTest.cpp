// A layer with a window and a ring of rows, before a layer that sees all
// tokens: what an engine computes against float64, what it evaluates again
// after a rewind, and which plans are refused.
#include "test/unit/WindowPlan.h"

#include "test/support/PlanEngineTest.h"

#include <atomic>
#include <cmath>

using namespace moert;
using moetest::setInt;
using moetest::Tokens;
using moetest::WindowPlan;

namespace {

constexpr int32_t kPage = moek::kKvPage;

class RingsTest : public moetest::PlanEngineTest<WindowPlan> {
protected:
  Engine &open(int32_t ubatch = WindowPlan::kUbatch) {
    return openOn(bestIsa(), /*slots=*/6, ubatch);
  }
};

// Three times around the ring.
TEST_F(RingsTest, MatchFloat64InAllPhases) {
  expectFloat64(textOf(3, 3 * kPage + 20));
}

TEST_F(RingsTest, SequencesBesideOthersKeepTheirOwn) {
  open();
  expectStepsOfMany({40, 90, 140});
}

// In addition to the window, a ring has room for the rows of a step, so
// rewinding by that many tokens evaluates nothing again.
TEST_F(RingsTest, RewindingWithinARing) {
  Engine &engine = open();
  Sequence a = engine.sequence();
  append(a, textOf(1, 2 * kPage + 20));
  ASSERT_TRUE(a.rewind(a.position() - WindowPlan::kUbatch).isOk());
  EXPECT_EQ(append(a, {5}), 1);
  // Rows after the rewound position are still those of the first text, so fewer
  // rows can be rewound.
  ASSERT_TRUE(a.rewind(a.position() - 1).isOk());
  EXPECT_EQ(append(a, textOf(7, 30)), 30);
  ASSERT_TRUE(a.rewind(a.position() - WindowPlan::kUbatch).isOk());
  EXPECT_EQ(append(a, {6}), 1);
}

TEST_F(RingsTest, RewindingFurtherGoesBackToACheckpoint) {
  Engine &engine = open();
  Sequence a = engine.sequence();
  // The prompt leaves a checkpoint after its second page.
  append(a, textOf(1, 2 * kPage + 40));
  ASSERT_TRUE(a.rewind(2 * kPage + 40 - WindowPlan::kUbatch - 1).isOk());
  EXPECT_EQ(append(a, {5}), 40 - WindowPlan::kUbatch - 1 + 1);
  // Two rewinds in succession count together.
  append(a, textOf(2, 40));
  int32_t end = a.position();
  ASSERT_TRUE(a.rewind(end - WindowPlan::kUbatch).isOk());
  ASSERT_TRUE(a.rewind(end - WindowPlan::kUbatch - 1).isOk());
  EXPECT_GT(append(a, {5}), 1);
  // Before the checkpoint, evaluation begins at zero.
  ASSERT_TRUE(a.rewind(kPage).isOk());
  EXPECT_EQ(append(a, {7}), kPage + 1);
}

TEST_F(RingsTest, AForkGoesItsOwnWay) {
  Engine &engine = open();
  Sequence a = engine.sequence();
  append(a, textOf(2, 2 * kPage + 3));
  Sequence b = a.fork();
  EXPECT_EQ(append(a, textOf(8, 50)), 50);
  EXPECT_EQ(append(b, {2}), 1);
  EXPECT_EQ(append(b, textOf(9, 70)), 70);
  EXPECT_EQ(append(a, {6}), 1);
  // A fork has seen as many rows as its origin.
  ASSERT_TRUE(a.rewind(a.position() - WindowPlan::kUbatch).isOk());
  Sequence c = a.fork();
  ASSERT_TRUE(c.rewind(c.position() - 1).isOk());
  EXPECT_GT(append(c, {1}), 1);
}

// The checkpoint of a text that was rewound also has later rows.
TEST_F(RingsTest, EqualPromptsShareUpToTheCheckpoint) {
  Engine &engine = open();
  Tokens text = textOf(4, 2 * kPage + 30);
  Sequence a = engine.sequence();
  append(a, text);
  Sequence b = engine.sequence();
  EXPECT_EQ(append(b, text), 30);
  ASSERT_TRUE(b.rewind(2 * kPage + 30 - WindowPlan::kUbatch).isOk());
  EXPECT_EQ(append(b, {9}), 1);
}

// A short sequence that is rewound to its beginning still holds a ring.
TEST_F(RingsTest, TakingACheckpointReturnsTheOwnRing) {
  Engine &engine = open();
  Tokens text = textOf(4, 2 * kPage + 30);
  Sequence a = engine.sequence();
  append(a, text);
  for (int i = 0; i < 10; ++i) { // More rounds than there are slots.
    Sequence b = engine.sequence();
    append(b, {1, 2, 3});
    ASSERT_TRUE(b.rewind(0).isOk());
    EXPECT_EQ(append(b, text), 30);
  }
}

// After its last whole page, the prompt has fewer tokens than a ring has spare
// rows.
TEST_F(RingsTest, APromptNeedNotStopForItsCheckpoint) {
  Engine &engine = open(WindowPlan::kLargeUbatch);
  Tokens text = textOf(4, 2 * kPage + 30);
  Sequence a = engine.sequence();
  append(a, text);
  EXPECT_EQ(steps_, 2);
  append(a, textOf(5, 3));
  Sequence b = engine.sequence();
  EXPECT_EQ(append(b, text), 30);
  Tokens other(text.begin(), text.begin() + 2 * kPage);
  other.push_back(11);
  Sequence c = engine.sequence();
  EXPECT_EQ(append(c, other), 1);
  EXPECT_EQ(append(c, textOf(6, 70)), 70);
  // The sequence has rows of the first text, as many as that text's checkpoint.
  Sequence d = engine.sequence();
  append(d, other);
  ASSERT_TRUE(d.rewind(2 * kPage + 30 - WindowPlan::kLargeUbatch).isOk());
  EXPECT_EQ(append(d, {1}), 1);
  ASSERT_TRUE(d.rewind(2 * kPage + 30 - WindowPlan::kLargeUbatch - 1).isOk());
  EXPECT_GT(append(d, {1}), 1);
}

TEST_F(RingsTest, ACancelledStepNeedNotBeEvaluatedAgain) {
  Engine &engine = open();
  std::atomic<bool> cancel = false;
  Sequence a = engine.sequence();
  append(a, textOf(2, 2 * kPage));
  a.setCancel(&cancel);
  cancel = true;
  EXPECT_EQ(engine.append(a, textOf(3, 60)).status().code(),
            StatusCode::Cancelled);
  cancel = false;
  int steps = 0;
  engine.setObserver([&](const PhaseRun &) { cancel = ++steps == 1; });
  EXPECT_EQ(engine.append(a, textOf(3, 60)).status().code(),
            StatusCode::Cancelled);
  countEvaluated();
  cancel = false;
  EXPECT_EQ(append(a, {1}), 1);
}

// The file does not say which other rows the ring has, so a rewind evaluates
// everything again.
TEST_F(RingsTest, ASavedSequenceGoesOn) {
  Engine &engine = open();
  std::string file = folder_.path() + "/text.seq";
  Sequence a = engine.sequence({/*sharePrefixes=*/false});
  append(a, textOf(6, 2 * kPage + 9));
  ASSERT_TRUE(a.rewind(2 * kPage).isOk());
  ASSERT_TRUE(a.save(file).isOk());
  auto b = engine.restore(file, {/*sharePrefixes=*/false});
  ASSERT_TRUE(b.isOk()) << b.status().message();
  EXPECT_EQ(append(*b, {3}), 1);
  ASSERT_TRUE(b->rewind(2 * kPage - 1).isOk());
  EXPECT_EQ(append(*b, {3}), 2 * kPage);
}

using Refusal = moetest::Refusal<WindowPlan>;

class RingProofTest : public testing::TestWithParam<Refusal> {};

TEST_P(RingProofTest, Refuses) {
  WindowPlan plan("ref");
  GetParam().damage(plan);
  moetest::expectRefused(plan.builder, GetParam().message);
}

auto setRing(int64_t elements) {
  return [=](WindowPlan &plan) { plan.builder.plan.kv[1]->width = elements; };
}
constexpr int64_t kRow =
    moek::gqaKvWidth(1, WindowPlan::kDim, WindowPlan::kDim);

constexpr const char *kTooShort =
    "the cache's rings hold the window of every token of a step";

INSTANTIATE_TEST_SUITE_P(
    Plans, RingProofTest,
    testing::Values(
        // With steps of 24 tokens, one page just suffices.
        Refusal{"OneRowShort", kTooShort,
                [](WindowPlan &plan) {
                  for (auto &phase : plan.builder.plan.phases)
                    for (auto &inst : phase->instructions)
                      if (inst->ints.size() > 5 &&
                          inst->ints[5] == WindowPlan::kWindow)
                        ++inst->ints[5];
                }},
        Refusal{"LongerWindow", kTooShort, setInt("attention", 5, kPage + 1)},
        Refusal{"NoWindow", "the cache has a row per position",
                setInt("attention", 5, 0)},
        Refusal{"HalfAPage", "the cache's rings are whole pages of rows",
                setRing(kPage / 2 * kRow)},
        Refusal{"HalfARow", "the cache's rings are whole pages of rows",
                setRing(kPage *kRow - 1)},
        Refusal{"NoRow", "the cache's rings are whole pages of rows",
                setRing(1)},
        Refusal{"Nothing", "width", setRing(0)},
        Refusal{"Large", "ends beyond the device's",
                setRing(2 * kPage * kRow)}),
    Refusal::nameOf);

} // namespace
