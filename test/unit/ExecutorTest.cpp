// The executor by itself: timing of instructions, and cancelling.
#include "runtime/Executor.h"

#include "runtime/schema/plan_generated.h"
#include "test/support/SamplePlan.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

/// The sample plan's decode phase, bound by hand.
class ExecutorTest : public ::testing::Test {
protected:
  void SetUp() override {
    StatusOr<Plan> plan = Plan::load(sample_.builder.write(folder_));
    ASSERT_TRUE(plan.isOk()) << plan.status().message();
    plan_.emplace(*std::move(plan));
    StatusOr<WeightFiles> files = WeightFiles::open(*plan_, {});
    ASSERT_TRUE(files.isOk()) << files.status().message();
    files_.emplace(*std::move(files));
    const fb::Device &device = *plan_->table().devices()->Get(0);
    arena_ = *HostMemory::allocate(device.arena_bytes(), "activations");
    kv_ = *HostMemory::allocate(device.kv_bytes(), "the cache");
    StatusOr<BoundPhase> phase =
        bindPhase(*plan_, *plan_->table().phases()->Get(0),
                  {arena_.data(), kv_.data()}, *files_);
    ASSERT_TRUE(phase.isOk()) << phase.status().message();
    phase_.emplace(*std::move(phase));
    StatusOr<Executor> executor =
        Executor::create(*WorkerPool::create(1), device.scratch_bytes());
    ASSERT_TRUE(executor.isOk()) << executor.status().message();
    executor_.emplace(*std::move(executor));
  }

  TempDir folder_;
  SamplePlan sample_;
  std::optional<Plan> plan_;
  std::optional<WeightFiles> files_;
  HostMemory arena_, kv_;
  std::optional<BoundPhase> phase_;
  std::optional<Executor> executor_;
};

TEST_F(ExecutorTest, TimesEveryInstruction) {
  std::vector<InstructionTime> times(phase_->instructions.size());
  for (int32_t position = 0; position < 3; ++position)
    ASSERT_TRUE(executor_->run(*phase_, {1, position}, nullptr, times).isOk());
  double sum = 0;
  for (const InstructionTime &time : times) {
    EXPECT_GE(time.run, 0);
    EXPECT_GE(time.wait, 0);
    sum += time.run + time.wait;
  }
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 10);
}

TEST_F(ExecutorTest, RunsTheListToItsEnd) {
  float *output = phase_->output;
  std::fill_n(output, SamplePlan::kHidden, 1e30f);
  ASSERT_TRUE(executor_->run(*phase_, {1, 0}).isOk());
  for (int i = 0; i < SamplePlan::kHidden; ++i)
    EXPECT_LT(std::abs(output[i]), 1e6f);
}

TEST_F(ExecutorTest, ACancelledRunTouchesNothing) {
  std::fill_n(phase_->output, SamplePlan::kHidden, 7.0f);
  std::atomic<bool> cancel = true;
  EXPECT_EQ(executor_->run(*phase_, {1, 0}, &cancel).code(),
            StatusCode::Cancelled);
  EXPECT_EQ(phase_->output[0], 7.0f);
}

TEST_F(ExecutorTest, ArgumentsStayWhereTheyAre) {
  ArgumentStore store;
  std::vector<const void *> kept;
  for (int i = 0; i < 1000; ++i) {
    moek::RouterArgs args{};
    args.topK = i;
    kept.push_back(store.keep(args));
  }
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(static_cast<const moek::RouterArgs *>(kept[size_t(i)])->topK, i);
}

} // namespace
