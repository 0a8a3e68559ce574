// What a session computes, against the sample model in float64, and how it
// manages its context.
#include "runtime/Session.h"

#include "kernels/Registry.h"
#include "runtime/device/cpu/ThreadCount.h"
#include "test/support/SamplePlan.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>

using namespace moert;
using moetest::SamplePlan;
using moetest::TempDir;

namespace {

const std::vector<int32_t> tokens = {3, 17, 39, 0, 8, 8, 21, 30, 5, 11, 2, 26};

SessionOptions withThreads(int threads) {
  SessionOptions options;
  options.threads = threads;
  return options;
}

class SessionTest : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (!moek::hostSupports(*moek::isaFromName(GetParam())))
      GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  std::unique_ptr<Session> open(int threads = 1) {
    StatusOr<std::unique_ptr<Session>> session =
        Session::open(sample_.builder.write(folder_), withThreads(threads));
    EXPECT_TRUE(session.isOk()) << session.status().message();
    return *std::move(session);
  }

  std::atomic<bool> cancel_ = false;
  TempDir folder_;
  SamplePlan sample_{GetParam()};
};

/// Relative to the row's largest logit.
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

TEST_P(SessionTest, PrefillInUbatchesMatchesFloat64) {
  auto session = open();
  auto expected = sample_.reference(tokens);
  size_t next = 0;
  // 12 tokens are steps of 5, 5 and 2, with logits in pieces of 3.
  Status status = session->prefillAll(
      tokens, [&](size_t first, size_t rows, std::span<const float> logits) {
        EXPECT_EQ(first, next);
        EXPECT_LE(rows, size_t(SamplePlan::kLogitRows));
        next += rows;
        for (size_t row = 0; row < rows; ++row)
          expectRow(
              logits.subspan(row * SamplePlan::kVocab, SamplePlan::kVocab),
              expected[first + row], first + row);
        return Status::ok();
      });
  EXPECT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(next, tokens.size());
  EXPECT_EQ(session->position(), int32_t(tokens.size()));
}

TEST_P(SessionTest, DecodeMatchesFloat64) {
  auto session = open();
  auto expected = sample_.reference(tokens);
  for (size_t t = 0; t < tokens.size(); ++t) {
    StatusOr<std::span<const float>> logits = session->decode(tokens[t]);
    ASSERT_TRUE(logits.isOk()) << logits.status().message();
    expectRow(*logits, expected[t], t);
  }
}

// 11 tokens leave a rest of 1, below the prefill phase's smallest step.
TEST_P(SessionTest, PrefillThenDecode) {
  auto session = open();
  auto expected = sample_.reference(tokens);
  StatusOr<std::span<const float>> logits =
      session->prefill({tokens.data(), 11});
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, expected[10], 10);
  logits = session->decode(tokens[11]);
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, expected[11], 11);
}

TEST_P(SessionTest, ThreadsDoNotChangeBits) {
  int most = readCpuBudget().cpus;
  auto one = open(1);
  StatusOr<std::span<const float>> expected = one->prefill(tokens);
  ASSERT_TRUE(expected.isOk());
  for (int threads = 2; threads <= std::min(most, 3); ++threads) {
    auto session = open(threads);
    EXPECT_EQ(session->threads(), threads);
    StatusOr<std::span<const float>> logits = session->prefill(tokens);
    ASSERT_TRUE(logits.isOk());
    EXPECT_TRUE(std::equal(logits->begin(), logits->end(), expected->begin()))
        << threads << " threads";
  }
}

TEST_P(SessionTest, RewindForgets) {
  auto session = open();
  auto expected = sample_.reference(tokens);
  ASSERT_TRUE(session->prefill(tokens).isOk());
  ASSERT_TRUE(session->rewind(4).isOk());
  StatusOr<std::span<const float>> logits =
      session->prefill({tokens.data() + 4, 3});
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, expected[6], 6);
  EXPECT_EQ(session->rewind(8).code(), StatusCode::Usage);
  EXPECT_EQ(session->rewind(-1).code(), StatusCode::Usage);
}

TEST_P(SessionTest, ContextLimitNamesTheFlagAndTheNumber) {
  auto session = open();
  std::vector<int32_t> text(SamplePlan::kContext, 1);
  ASSERT_TRUE(session->prefill(text).isOk());
  EXPECT_EQ(session->position(), session->context());
  StatusOr<std::span<const float>> full = session->decode(1);
  ASSERT_FALSE(full.isOk());
  EXPECT_EQ(full.status().code(), StatusCode::DoesNotFit);
  // Twice as much as before.
  EXPECT_NE(full.status().message().find("--ctx 48 "), std::string::npos)
      << full.status().message();
  EXPECT_EQ(session->position(), session->context());
}

TEST_P(SessionTest, TokensOutsideTheVocabularyAreRefused) {
  auto session = open();
  for (int32_t bad : {-1, SamplePlan::kVocab, INT32_MAX, INT32_MIN}) {
    std::vector<int32_t> text = {1, bad};
    StatusOr<std::span<const float>> logits = session->prefill(text);
    ASSERT_FALSE(logits.isOk());
    EXPECT_EQ(logits.status().code(), StatusCode::Usage);
    EXPECT_EQ(session->decode(bad).status().code(), StatusCode::Usage);
  }
  EXPECT_EQ(session->prefill({}).status().code(), StatusCode::Usage);
  EXPECT_EQ(session->position(), 0);
}

TEST_P(SessionTest, CancelEndsTheCallAndKeepsTheSessionUsable) {
  auto session = open();
  cancel_ = true;
  session->setCancel(&cancel_);
  EXPECT_EQ(session->prefill(tokens).status().code(), StatusCode::Cancelled);
  EXPECT_EQ(session->position(), 0);
  cancel_ = false;
  StatusOr<std::span<const float>> logits = session->prefill(tokens);
  ASSERT_TRUE(logits.isOk());
  expectRow(*logits, sample_.reference(tokens).back(), tokens.size() - 1);
}

// The flag rises while workers are between barriers: they must all leave at the
// same one, or the next run would hang.
TEST_P(SessionTest, CancelFromAnotherThread) {
  auto session = open(std::min(2, readCpuBudget().cpus));
  session->setCancel(&cancel_);
  for (int i = 0; i < 20; ++i) {
    cancel_ = false;
    std::thread other([&, i] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * i));
      cancel_ = true;
    });
    Status status;
    while (status.isOk()) {
      ASSERT_TRUE(session->rewind(0).isOk());
      status = session->prefill(tokens).status();
    }
    other.join();
    EXPECT_EQ(status.code(), StatusCode::Cancelled);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, SessionTest,
                         ::testing::Values("ref", "avx2", "avx512"));

} // namespace
