// The choice of a ladder's rung, the reasons that are given, and the ladders
// that are refused.
#include "runtime/base/HostCpu.h"
#include "runtime/engine/Engine.h"
#include "runtime/engine/RungChoice.h"
#include "runtime/plan/PlanTokenizer.h"
#include "runtime/plan/Recompile.h"
#include "runtime/schema/plan_generated.h"
#include "test/support/SampleLadder.h"
#include "tools/common/Remedies.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace moert;
using moetest::SampleLadder;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

constexpr uint64_t kGiB = uint64_t(1) << 30;

void expectIn(const std::string &part, const std::string &text) {
  EXPECT_NE(text.find(part), std::string::npos)
      << "got:      " << text << "\nexpected: " << part;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

class RungChoiceTest : public ::testing::Test {
protected:
  RungChoice choose(RungRequest wish = {}) {
    auto choice = chooseRung(rungs_, free_, wish);
    EXPECT_TRUE(choice.isOk()) << choice.status().message();
    return choice ? *choice : RungChoice();
  }

  std::vector<RungNeed> rungs_ = {{4096, 2 * kGiB, {4 * kGiB}},
                                  {32768, 3 * kGiB, {8 * kGiB}},
                                  {131072, 5 * kGiB, {20 * kGiB}}};
  FreeMemory free_{64 * kGiB, {24 * kGiB}};
};

TEST_F(RungChoiceTest, TheLargestContextThatFits) {
  EXPECT_EQ(choose().number, 3u);
  EXPECT_TRUE(choose().fits);
  EXPECT_EQ(choose().why,
            "rung 3 of 3, with a context of 131072 tokens, the largest");
  free_.gpus = {20 * kGiB}; // Exactly the bytes that the rung needs.
  EXPECT_EQ(choose().number, 3u);
  free_.gpus = {20 * kGiB - 1};
  EXPECT_EQ(choose().number, 2u);
}

TEST_F(RungChoiceTest, SaysWhyLargerRungsAreNotUsed) {
  free_.gpus = {11 * kGiB};
  EXPECT_EQ(choose().why,
            "rung 2 of 3, with a context of 32768 tokens: rung 3 (131072 "
            "tokens) needs 20.00 GiB of gpu0, which has 11.00 GiB free");
  free_ = {4 * kGiB, {24 * kGiB}};
  EXPECT_EQ(choose().why, "rung 2 of 3, with a context of 32768 tokens: rung 3 "
                          "(131072 tokens) needs 5.00 GiB of the host's "
                          "memory, of which 4.00 GiB are free");
  free_ = {2 * kGiB, {7 * kGiB}};
  EXPECT_EQ(choose().number, 1u);
  expectIn("rung 3 (131072 tokens) needs 20.00 GiB of gpu0, which has 7.00 GiB "
           "free; rung 2 (32768 tokens) needs 8.00 GiB of gpu0",
           choose().why);
}

TEST_F(RungChoiceTest, EveryGpuCounts) {
  for (RungNeed &rung : rungs_)
    rung.gpus.push_back(6 * kGiB);
  free_.gpus = {24 * kGiB, 6 * kGiB};
  EXPECT_EQ(choose().number, 3u);
  free_.gpus = {24 * kGiB, 5 * kGiB};
  rungs_[0].gpus[1] = 5 * kGiB;
  EXPECT_EQ(choose().number, 1u);
  free_.gpus = {24 * kGiB};
  rungs_[0].gpus.pop_back();
  EXPECT_EQ(choose().number, 1u);
  expectIn("6.00 GiB of gpu1, which is not there", choose().why);
}

TEST_F(RungChoiceTest, TheSmallestThatHoldsTheRequestedContext) {
  EXPECT_EQ(choose({.context = 1}).number, 1u);
  EXPECT_EQ(choose({.context = 4096}).number, 1u);
  EXPECT_EQ(choose({.context = 4097}).number, 2u);
  EXPECT_EQ(choose({.context = 4097}).why,
            "rung 2 of 3, with a context of 32768 tokens, which holds the "
            "requested context");
  EXPECT_EQ(choose({.context = 131072}).number, 3u);
  auto none = chooseRung(rungs_, free_, {.context = 131073});
  ASSERT_FALSE(none.isOk());
  EXPECT_EQ(none.status().code(), StatusCode::DoesNotFit);
  expectIn("its largest rung holds 131072 tokens, and 131073 were requested",
           none.status().message());
}

// A longer context with less GPU memory may fit where a shorter one with more
// does not.
TEST_F(RungChoiceTest, BudgetsOfOneContext) {
  rungs_ = {{4096, 9 * kGiB, {8 * kGiB}},
            {4096, 2 * kGiB, {16 * kGiB}},
            {8192, 9 * kGiB, {8 * kGiB}},
            {8192, 2 * kGiB, {16 * kGiB}}};
  EXPECT_EQ(choose().number, 4u);
  EXPECT_EQ(choose({.context = 4000}).number, 2u);
  free_.gpus = {10 * kGiB};
  EXPECT_EQ(choose().number, 3u);
  EXPECT_EQ(choose({.context = 4000}).number, 1u);
  expectIn("rung 2 (4096 tokens) needs 16.00 GiB", choose({.context = 1}).why);
  rungs_[0].gpus = {12 * kGiB};
  EXPECT_EQ(choose({.context = 4000}).number, 3u);
}

TEST_F(RungChoiceTest, ARequestedNumberIsUsed) {
  free_ = {1, {1}};
  EXPECT_EQ(choose({.number = 3}).number, 3u);
  EXPECT_EQ(choose({.number = 3}).why,
            "rung 3 of 3, with a context of 131072 tokens, as requested");
  EXPECT_EQ(choose({.number = 2, .context = 32768}).number, 2u);
  auto both = chooseRung(rungs_, free_, {.number = 1, .context = 5000});
  ASSERT_FALSE(both.isOk());
  EXPECT_EQ(both.status().code(), StatusCode::DoesNotFit);
  expectIn("--rung 1 holds 4096 tokens, and 5000 were requested",
           both.status().message());
}

TEST_F(RungChoiceTest, IfNoneFitsTheSmallestIsChosen) {
  free_ = {kGiB, {24 * kGiB}};
  EXPECT_EQ(choose().number, 1u);
  EXPECT_FALSE(choose().fits);
  expectIn("rung 1 of 3, with a context of 4096 tokens, though none fits: rung "
           "3 (131072 tokens) needs",
           choose().why);
  EXPECT_EQ(choose({.context = 5000}).number, 2u);
  EXPECT_FALSE(choose({.context = 5000}).fits);
}

TEST_F(RungChoiceTest, UnknownMemoryCountsAsEnough) {
  free_.host = 0;
  EXPECT_EQ(choose().number, 3u);
}

TEST(FreeHostBytesTest, WhatOthersLeaveOfTheLimit) {
  TempDir folder;
  std::filesystem::create_directories(folder.file("fs/cgroup"));
  folder.write("meminfo", "MemTotal:       64 kB\nMemAvailable:   4096 kB\n");
  folder.write("fs/cgroup/memory.max", "8000000");
  EXPECT_EQ(freeHostBytes(folder.path(), folder.path()), 4096u * 1024);
  folder.write("fs/cgroup/memory.max", "4000000");
  EXPECT_EQ(freeHostBytes(folder.path(), folder.path()), 4000000u);
  folder.write("meminfo", "MemTotal:       64 kB\n");
  EXPECT_EQ(freeHostBytes(folder.path(), folder.path()), 4000000u);
}

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

class LadderEngineTest : public ::testing::Test {
protected:
  LadderEngineTest() {
    std::filesystem::create_directories(folder_.file("fs/cgroup"));
    path_ = ladder_.write(folder_);
    options_.threads = 1;
  }

  StatusOr<std::unique_ptr<Engine>> open(RungRequest wish = {}) {
    options_.rung = wish;
    return Engine::open(path_, options_);
  }
  /// Total memory that a rung needs.
  uint64_t need(uint32_t number) {
    auto plan = Plan::load(path_);
    plan->choose(number);
    return memoryFit(*plan, 1, false, {}).need.total();
  }
  void limit(uint64_t bytes) {
    folder_.write("fs/cgroup/memory.max", std::to_string(bytes));
    options_.systemRoot = folder_.path();
  }

  TempDir folder_;
  SampleLadder ladder_{{24, 100, 200}};
  std::string path_;
  EngineOptions options_;
};

TEST_F(LadderEngineTest, RunsTheRungThatFits) {
  auto engine = open();
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  EXPECT_EQ((*engine)->context(), 200);
  expectIn("rung 3 of 3", (*engine)->rungNote());
  limit(need(3) - 1);
  engine = open();
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  EXPECT_EQ((*engine)->context(), 100);
  expectIn("rung 3 (200 tokens) needs", (*engine)->rungNote());
  // The smallest rung that holds it, of which it takes as much as was asked for.
  engine = open({.context = 20});
  EXPECT_EQ((*engine)->plan().rungName(), "rung 1 of 3");
  EXPECT_EQ((*engine)->context(), 20);
  engine = open({.number = 1});
  EXPECT_EQ((*engine)->context(), 24);
}

TEST_F(LadderEngineTest, IfNoneFitsTheFailureNamesTheRung) {
  limit(need(1) - 1);
  Status status = open().status();
  EXPECT_EQ(status.code(), StatusCode::DoesNotFit);
  expectIn("rung 1 of 3: ", status.message());
  expectIn("--allow-paging runs it all the same", status.message());
  // Weights then need not fit, so the longest context fits.
  options_.allowPaging = true;
  auto engine = open();
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  EXPECT_EQ((*engine)->context(), 200);
}

TEST_F(LadderEngineTest, EachComputesWhatItsPlanComputesAlone) {
  std::vector<int32_t> tokens = {3, 17, 0, 8, 2, 5, 9, 30, 11};
  for (uint32_t number = 1; number <= 3; ++number) {
    auto engine = open({.number = number});
    ASSERT_TRUE(engine.isOk()) << engine.status().message();
    Sequence sequence = (*engine)->sequence();
    auto logits = (*engine)->append(sequence, tokens);
    ASSERT_TRUE(logits.isOk());
    SamplePlan sample("ref", {.context = (*engine)->context()});
    TempDir folder;
    auto alone =
        Engine::open(sample.builder.write(folder), EngineOptions{.threads = 1});
    ASSERT_TRUE(alone.isOk()) << alone.status().message();
    Sequence same = (*alone)->sequence();
    auto expected = (*alone)->append(same, tokens);
    ASSERT_TRUE(expected.isOk());
    EXPECT_TRUE(std::ranges::equal(*logits, *expected)) << number;
  }
}

TEST_F(LadderEngineTest, ALongerTextSuggestsALongerRung) {
  auto engine = open({.number = 1});
  ASSERT_TRUE(engine.isOk());
  Sequence sequence = (*engine)->sequence();
  std::vector<int32_t> tokens(30, 3);
  Status status = (*engine)->append(sequence, tokens).status();
  EXPECT_EQ(status.code(), StatusCode::DoesNotFit);
  expectIn("; rung 2 of the plan holds 100 tokens: give --rung 2",
           status.message());
}

TEST_F(LadderEngineTest, ContextsThatNoneHolds) {
  for (fb::PlanT *rung : {&ladder_.rung(0), &ladder_.rung(1), &ladder_.rung(2)})
    rung->options = "--target native --ladder 24,100,200";
  path_ = ladder_.write(folder_);
  Status status = open({.context = 5000}).status();
  EXPECT_EQ(status.code(), StatusCode::DoesNotFit);
  expectIn("plan.fb: its largest rung holds 200 tokens, and 5000 were "
           "requested; recompile with a larger context",
           status.message());
  expectIn(" --ladder 24,100,200,5000 ", moetool::fullMessage(status));
  status = open({.number = 4}).status();
  EXPECT_EQ(status.code(), StatusCode::Usage);
  expectIn("has 3 rungs, and --rung is 4", status.message());
}

TEST_F(LadderEngineTest, SavedTextsAreOfARung) {
  auto engine = open({.number = 2});
  ASSERT_TRUE(engine.isOk());
  Sequence sequence = (*engine)->sequence();
  std::vector<int32_t> tokens = {3, 4, 5};
  ASSERT_TRUE((*engine)->append(sequence, tokens).isOk());
  std::string saved = folder_.file("a.seq");
  ASSERT_TRUE(sequence.save(saved).isOk());
  EXPECT_TRUE((*engine)->restore(saved).isOk());
  auto other = open({.number = 3});
  ASSERT_TRUE(other.isOk());
  Status status = (*other)->restore(saved).status();
  EXPECT_EQ(status.code(), StatusCode::WrongMachine);
  expectIn("another plan or rung than rung 3 of 3 of ", status.message());
}

TEST_F(LadderEngineTest, PlansWithoutRungs) {
  TempDir folder;
  SamplePlan sample;
  path_ = sample.builder.write(folder);
  auto engine = open({.context = 24});
  ASSERT_TRUE(engine.isOk()) << engine.status().message();
  EXPECT_EQ((*engine)->rungNote(), "");
  Status status = open({.number = 1}).status();
  EXPECT_EQ(status.code(), StatusCode::Usage);
  expectIn("is one plan without rungs; leave out --rung", status.message());
  status = open({.context = 25}).status();
  EXPECT_EQ(status.code(), StatusCode::DoesNotFit);
  expectIn(
      "holds a context of 24 tokens, and 25 were requested; recompile with "
      "a larger context",
      status.message());
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

class LadderVerifyTest : public ::testing::Test {
protected:
  StatusOr<Plan> load() { return Plan::fromBytes(ladder_.bytes(), "plan.fb"); }
  void expectRefused(const std::string &message) {
    auto plan = load();
    ASSERT_FALSE(plan.isOk()) << "expected: " << message;
    EXPECT_EQ(plan.status().code(), StatusCode::InvalidFile);
    expectIn("plan.fb: " + message, plan.status().message());
  }

  SampleLadder ladder_{{24, 100, 200}};
};

TEST_F(LadderVerifyTest, TheLastRungIsReadUntilOneIsChosen) {
  auto plan = load();
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  EXPECT_EQ(plan->rungs(), 3u);
  EXPECT_EQ(plan->chosen(), 3u);
  EXPECT_EQ(plan->table().context(), 200);
  uint64_t before = plan->fingerprint();
  plan->choose(1);
  EXPECT_EQ(plan->table().context(), 24);
  EXPECT_EQ(plan->rungName(), "rung 1 of 3");
  EXPECT_NE(plan->fingerprint(), before);
  EXPECT_TRUE(planTokenizer(*plan).isOk());
}

TEST_F(LadderVerifyTest, DamagedRungsAreNamed) {
  ladder_.rung(1).weights[3]->file = 7;
  expectRefused("rung 2: weight 3 \"");
  ladder_.rung(1).weights[3]->file = 0;
  ladder_.rung(2).phases[0]->instructions[0]->queue = 9;
  expectRefused("rung 3: phase decode: instruction 0 ");
}

TEST_F(LadderVerifyTest, RungsOfRungs) {
  ladder_.rung(0).rungs.push_back(std::make_unique<fb::PlanT>(ladder_.rung(1)));
  expectRefused("rung 1: has rungs itself");
  // Ladders within ladders, 20 deep.
  SampleLadder deep({24});
  for (int i = 0; i < 20; ++i) {
    auto inner = std::make_unique<fb::PlanT>(std::move(deep.plan));
    deep.plan = fb::PlanT();
    deep.plan.schema_version = kSchemaVersion;
    deep.plan.rungs.push_back(std::move(inner));
  }
  auto plan = Plan::fromBytes(deep.bytes(), "plan.fb");
  ASSERT_FALSE(plan.isOk());
  EXPECT_EQ(plan.status().code(), StatusCode::InvalidFile);
}

TEST_F(LadderVerifyTest, OutOfOrder) {
  std::swap(ladder_.plan.rungs[0], ladder_.plan.rungs[1]);
  expectRefused("rung 2: has a context of 24, and the one before it 100");
}

TEST_F(LadderVerifyTest, GpusMemoryOutOfOrder) {
  ladder_ = SampleLadder({24, 24});
  for (size_t i : {0, 1}) {
    auto gpu = std::make_unique<fb::DeviceT>();
    gpu->name = "gpu0";
    gpu->kind = fb::DeviceKind::Cuda;
    gpu->isa = "cuda";
    gpu->memory_bytes = (2 - i) * kGiB;
    ladder_.rung(i).devices.push_back(std::move(gpu));
  }
  expectRefused("rung 2: has less memory of GPUs than the one before it");
  std::swap(ladder_.plan.rungs[0], ladder_.plan.rungs[1]);
  EXPECT_TRUE(load().isOk()) << load().status().message();
}

TEST_F(LadderVerifyTest, OtherModels) {
  ladder_.rung(1).model_hash = "other";
  expectRefused("rung 2: is of another model than rung 1");
}

TEST_F(LadderVerifyTest, FieldsThatLaddersMustNotHave) {
  ladder_.plan.notes.push_back("a note");
  expectRefused("has rungs, but also notes of its own");
  ladder_.plan.notes.clear();
  ladder_.plan.phases.push_back(
      std::make_unique<fb::PhaseT>(*ladder_.rung(0).phases[0]));
  expectRefused("has rungs, but also phases of its own");
}

TEST_F(LadderVerifyTest, OneTokenizer) {
  ladder_.rung(2).tokenizer =
      std::make_unique<fb::TokenizerT>(*ladder_.plan.tokenizer);
  expectRefused("rung 3: has a tokenizer, which belongs to the ladder");
  ladder_.rung(2).tokenizer.reset();
  ladder_.plan.tokenizer->bos = 1000;
  expectRefused("rung 1: tokenizer: has BOS token 1000");
}

TEST_F(LadderVerifyTest, OtherVersions) {
  ladder_.rung(1).schema_version = kSchemaVersion - 1;
  expectRefused("rung 2: has schema version");
  ladder_.plan.schema_version = kSchemaVersion + 1;
  ladder_.rung(0).options = "--target xeon --ladder 24,100,200";
  auto plan = load();
  ASSERT_FALSE(plan.isOk());
  EXPECT_EQ(plan.status().code(), StatusCode::WrongMachine);
  expectIn("--target xeon --ladder 24,100,200 -o plan.fb",
           moetool::fullMessage(plan.status()));
}

TEST_F(LadderVerifyTest, TooManyRungs) {
  ladder_ = SampleLadder(std::vector<int32_t>(65, 24));
  expectRefused("has 65 rungs, at most 64 are allowed");
}

TEST_F(LadderVerifyTest, TruncationAtEveryByte) {
  std::vector<uint8_t> bytes = ladder_.bytes();
  for (size_t length = 0; length + 8 < bytes.size(); length += 7) {
    std::vector<uint8_t> part(bytes.begin(), bytes.begin() + long(length));
    ASSERT_FALSE(Plan::fromBytes(part, "plan.fb").isOk()) << length;
  }
}

//===----------------------------------------------------------------------===//
// Hints
//===----------------------------------------------------------------------===//

std::string lineOf(const Plan &plan, std::vector<OptionChange> changes = {}) {
  return moetool::ending(recompile(Suggestion::LargerContext, plan.table(),
                                   "plan.fb", std::move(changes)));
}

TEST(LadderHintTest, KeepTheLadder) {
  SampleLadder ladder({24, 100});
  for (size_t i : {0, 1})
    ladder.rung(i).options =
        "--target 4090+xeon --ladder 24@8GiB,100@8GiB,100 --vram-limit 20GiB";
  auto plan = Plan::fromBytes(ladder.bytes(), "plan.fb");
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  expectIn("--vram-limit 20GiB --ladder 24@8GiB,100@8GiB,100 -o plan.fb",
           lineOf(*plan));
  OptionChange longer{"--ctx", "300"};
  expectIn("--vram-limit 20GiB --ladder 24@8GiB,100@8GiB,100,300 -o plan.fb",
           lineOf(*plan, {longer}));
  // Memory limits are for the GPUs of another machine.
  OptionChange native{"--target", "native"};
  expectIn("moec compile MODEL --ladder 24,100 -o plan.fb",
           lineOf(*plan, {native}));
  ladder.rung(0).options = "--target 4090+xeon --ladder 24@8GiB,24@16GiB";
  plan = Plan::fromBytes(ladder.bytes(), "plan.fb");
  plan->choose(1);
  expectIn("moec compile MODEL --ctx 24 -o plan.fb", lineOf(*plan, {native}));
}

} // namespace
