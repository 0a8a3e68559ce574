// What an engine computes, against the sample model in float64, and how it
// manages its context.

#include "kernels/Registry.h"
#include "runtime/device/cpu/ThreadCount.h"
#include "test/support/OneSequence.h"
#include "test/support/SamplePlan.h"
#include "tools/common/Remedies.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>

using namespace moert;
using moetest::OneSequence;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

const std::vector<int32_t> tokens = {3, 17, 39, 0, 8, 8, 21, 30, 5, 11, 2, 26};

EngineOptions withThreads(int threads) {
  EngineOptions options;
  options.threads = threads;
  return options;
}

class EngineTest : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (!moek::hostSupports(*moek::isaFromName(GetParam())))
      GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  OneSequence open(int threads = 1) {
    auto one =
        OneSequence::open(sample_.builder.write(folder_), withThreads(threads));
    EXPECT_TRUE(one.isOk()) << one.status().message();
    return *std::move(one);
  }

  std::atomic<bool> cancel_ = false;
  TempDir folder_;
  SamplePlan sample_{GetParam()};
};

/// Compares a row, relative to its largest logit.
void expectRow(std::span<const float> actual,
               const std::vector<double> &expected, size_t position) {
  ASSERT_EQ(actual.size(), expected.size());
  double scale = 0;
  for (double value : expected)
    scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * scale)
        << "position " << position << ", token " << i;
}

TEST_P(EngineTest, PrefillInUbatchesMatchesFloat64) {
  auto one = open();
  auto expected = sample_.reference(tokens);
  // 12 tokens are steps of 5, 5 and 2, with logits in pieces of 3.
  int32_t next = 0;
  Status status = one.engine->appendAll(
      one.sequence, tokens,
      [&](size_t, int32_t position, std::span<const float> logits) {
        EXPECT_EQ(position, next++);
        expectRow(logits, expected[size_t(position)], size_t(position));
        return Status::ok();
      });
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(next, int32_t(tokens.size()));
  EXPECT_EQ(one.sequence.position(), next);
}

TEST_P(EngineTest, DecodeMatchesFloat64) {
  auto one = open();
  auto expected = sample_.reference(tokens);
  for (size_t t = 0; t < tokens.size(); ++t) {
    StatusOr<std::span<const float>> logits = one.append(tokens[t]);
    ASSERT_TRUE(logits.isOk()) << logits.status().message();
    expectRow(*logits, expected[t], t);
  }
}

// 11 tokens leave a last step of 1, below the prefill phase's minimum.
TEST_P(EngineTest, PrefillThenDecode) {
  auto one = open();
  auto expected = sample_.reference(tokens);
  StatusOr<std::span<const float>> logits = one.append({tokens.data(), 11});
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, expected[10], 10);
  logits = one.append(tokens[11]);
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, expected[11], 11);
}

TEST_P(EngineTest, ThreadsDoNotChangeBits) {
  int most = readCpuBudget().cpus;
  auto single = open(1);
  StatusOr<std::span<const float>> expected = single.append(tokens);
  ASSERT_TRUE(expected.isOk());
  for (int threads = 2; threads <= std::min(most, 3); ++threads) {
    auto one = open(threads);
    EXPECT_EQ(one.engine->threads(), threads);
    StatusOr<std::span<const float>> logits = one.append(tokens);
    ASSERT_TRUE(logits.isOk());
    EXPECT_TRUE(std::equal(logits->begin(), logits->end(), expected->begin()))
        << threads << " threads";
  }
}

TEST_P(EngineTest, RewindForgets) {
  auto one = open();
  auto expected = sample_.reference(tokens);
  ASSERT_TRUE(one.append(tokens).isOk());
  ASSERT_TRUE(one.sequence.rewind(4).isOk());
  StatusOr<std::span<const float>> logits = one.append({tokens.data() + 4, 3});
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, expected[6], 6);
  EXPECT_EQ(one.sequence.rewind(8).code(), StatusCode::Usage);
  EXPECT_EQ(one.sequence.rewind(-1).code(), StatusCode::Usage);
}

TEST_P(EngineTest, ContextLimitNamesTheFlagAndTheNumber) {
  auto one = open();
  std::vector<int32_t> text(SamplePlan::kContext, 1);
  ASSERT_TRUE(one.append(text).isOk());
  EXPECT_EQ(one.sequence.position(), one.engine->context());
  StatusOr<std::span<const float>> full = one.append(1);
  ASSERT_FALSE(full.isOk());
  EXPECT_EQ(full.status().code(), StatusCode::DoesNotFit);
  // The suggested context is twice as long.
  std::string shown = moetool::fullMessage(full.status());
  EXPECT_NE(shown.find("--ctx 48 "), std::string::npos) << shown;
  EXPECT_EQ(one.sequence.position(), one.engine->context());
}

TEST_P(EngineTest, TokensOutsideTheVocabularyAreRefused) {
  auto one = open();
  for (int32_t bad : {-1, SamplePlan::kVocab, INT32_MAX, INT32_MIN}) {
    std::vector<int32_t> text = {1, bad};
    StatusOr<std::span<const float>> logits = one.append(text);
    ASSERT_FALSE(logits.isOk());
    EXPECT_EQ(logits.status().code(), StatusCode::Usage);
    EXPECT_EQ(one.append(bad).status().code(), StatusCode::Usage);
  }
  EXPECT_EQ(one.append(std::span<const int32_t>()).status().code(),
            StatusCode::Usage);
  EXPECT_EQ(one.sequence.position(), 0);
}

TEST_P(EngineTest, CancelEndsTheCallAndKeepsTheSequenceUsable) {
  auto one = open();
  cancel_ = true;
  one.sequence.setCancel(&cancel_);
  EXPECT_EQ(one.append(tokens).status().code(), StatusCode::Cancelled);
  EXPECT_EQ(one.sequence.position(), 0);
  cancel_ = false;
  StatusOr<std::span<const float>> logits = one.append(tokens);
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, sample_.reference(tokens).back(), tokens.size() - 1);
}

// The flag is set while workers are between barriers. All must leave at the
// same barrier, or the next run would hang.
TEST_P(EngineTest, CancelFromAnotherThread) {
  auto one = open(std::min(2, readCpuBudget().cpus));
  one.sequence.setCancel(&cancel_);
  for (int i = 0; i < 20; ++i) {
    cancel_ = false;
    std::thread other([&, i] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * i));
      cancel_ = true;
    });
    Status status;
    while (status.isOk()) {
      ASSERT_TRUE(one.sequence.rewind(0).isOk());
      status = one.append(tokens).status();
    }
    other.join();
    EXPECT_EQ(status.code(), StatusCode::Cancelled);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, EngineTest,
                         ::testing::Values("ref", "avx2", "avx512"));

} // namespace
