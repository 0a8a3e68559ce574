// Sequences of others beside a scheduler: they use the engine between steps.
#include "test/unit/SchedulerTestSupport.h"

using namespace moert;
using namespace moetest;

namespace {
constexpr int32_t kPage = moek::kKvPage;

class SchedulerGuestTest : public SchedulerFixture<SamplePlan> {
protected:
  void SetUp() override {
    SchedulerFixture::SetUp();
    openOn(bestIsa(), SamplePlan::Room{/*context=*/4 * kPage, /*pages=*/6,
                                       /*sequences=*/4, /*ubatch=*/24});
  }

  /// Appends tokens when no step runs; gives the logits after the last one.
  Status append(Sequence &sequence, const std::vector<int32_t> &tokens,
                int32_t pages, std::vector<float> *logits = nullptr) {
    return scheduler_->withEngine(pages, [&]() -> Status {
      MOE_ASSIGN_OR_RETURN(std::span<const float> last,
                           engine_->append(sequence, tokens));
      if (logits)
        logits->assign(last.begin(), last.end());
      return Status::ok();
    });
  }
};

TEST_F(SchedulerGuestTest, BothGetWhatTheyGetAlone) {
  start();
  std::vector<Received> received(3);
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < received.size(); ++i)
    requests.push_back(greedy(textOf(i, 5), 20));
  Sequence own = engine_->sequence({.sharePrefixes = false});
  std::vector<int32_t> text = textOf(9, 8), begun;
  for (size_t i = 0; i < requests.size(); ++i)
    submit(requests[i], received[i]);
  for (int32_t token : text) {
    std::vector<float> logits;
    ASSERT_TRUE(append(own, {token}, 1, &logits).isOk());
    begun.push_back(token);
    expectLogits(logits, begun);
  }
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(received[i].reply().tokens, alone(requests[i])) << i;
  ASSERT_TRUE(scheduler_->withEngine(0, [&] { return own.rewind(0); }).isOk());
  expectNoPageIsLost();
}

// The generation begins as soon as the sequence has given its pages back, and
// may be cancelled before.
TEST_F(SchedulerGuestTest, AGenerationWaitsForPages) {
  start();
  std::optional<Sequence> own;
  ASSERT_TRUE(scheduler_->withEngine(0, [&]() -> Status {
    own.emplace(engine_->sequence({.sharePrefixes = false}));
    return Status::ok();
  }));
  ASSERT_TRUE(append(*own, textOf(3, 4 * kPage), 4).isOk());
  Received first, second;
  GenerationRequest request = greedy(textOf(1, 2 * kPage + 1), 3);
  GenerationId cancelled = submit(request, first);
  submit(request, second);
  scheduler_->cancel(cancelled);
  EXPECT_EQ(first.reply().reason, StopReason::Cancelled);
  EXPECT_FALSE(second.hasEnded());
  ASSERT_TRUE(scheduler_->withEngine(0, [&]() -> Status {
    own.reset();
    return Status::ok();
  }));
  EXPECT_EQ(second.reply().tokens, alone(request));
}

// Finished texts that nobody needs do not keep others from the cache.
TEST_F(SchedulerGuestTest, FinishedSequencesMakeRoom) {
  start();
  complete(greedy(textOf(1, 2 * kPage + 1), 3));
  complete(greedy(textOf(2, 2 * kPage + 1), 3));
  std::optional<Sequence> own(engine_->sequence({.sharePrefixes = false}));
  EXPECT_EQ(append(*own, textOf(3, kPage + 1), 0).code(),
            StatusCode::DoesNotFit);
  EXPECT_TRUE(append(*own, textOf(3, kPage + 1), 2).isOk());
  ASSERT_TRUE(scheduler_->withEngine(0, [&]() -> Status {
    own.reset();
    return Status::ok();
  }));
  expectNoPageIsLost();
}
} // namespace
