// Schedulers of models whose layers keep states or windows: what they generate,
// and what they evaluate again.
#include "test/unit/DeltaPlan.h"
#include "test/unit/SchedulerTestSupport.h"
#include "test/unit/WindowPlan.h"

using namespace moert;
using namespace moetest;

namespace {

/// A window whose ring holds more than a page beside it.
class LargeWindowPlan : public WindowPlan {
public:
  explicit LargeWindowPlan(const std::string &isa, int32_t pages = 15)
      : WindowPlan(isa, /*slots=*/6, WindowPlan::kLargeUbatch, pages) {}
};

template <typename PlanT>
class SchedulerStatesTest : public SchedulerFixture<PlanT> {
protected:
  void open() { this->openOn(this->bestIsa()); }
  /// Opens an engine with pages for less than two whole contexts.
  void openSmall() {
    if constexpr (std::is_same_v<PlanT, DeltaPlan>)
      this->openOn(this->bestIsa(), 6, true, 7);
    else if constexpr (std::is_same_v<PlanT, WindowPlan>)
      this->openOn(this->bestIsa(), 6, WindowPlan::kUbatch, 8);
    else
      this->openOn(this->bestIsa(), 8);
  }
  /// Completes a request and returns how many tokens were evaluated.
  int evaluatedBy(GenerationRequest request, Received *&received) {
    this->evaluated_ = 0;
    all_.push_back(this->complete(std::move(request)));
    received = all_.back().get();
    return this->evaluated_;
  }

  std::vector<std::unique_ptr<Received>> all_;
};

using Plans = testing::Types<DeltaPlan, WindowPlan, LargeWindowPlan>;
TYPED_TEST_SUITE(SchedulerStatesTest, Plans);

TYPED_TEST(SchedulerStatesTest, ManyTogetherGenerateWhatEachDoesAlone) {
  this->open();
  this->start();
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < 9; ++i)
    requests.push_back(this->greedy(this->textOf(i, 1 + int32_t(i * 29 % 130)),
                                    1 + int32_t(i * 7 % 40)));
  std::vector<Received> received(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    this->submit(requests[i], received[i]);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(received[i].reply().tokens, this->alone(requests[i])) << i;
  this->expectNoPageIsLost();
}

TYPED_TEST(SchedulerStatesTest, ASecondTurnEvaluatesTheNewPartAlone) {
  this->open();
  this->start();
  std::vector<int32_t> text = this->textOf(4, kPage + 20);
  Received *received = nullptr;
  EXPECT_EQ(this->evaluatedBy(this->greedy(text, 30), received),
            kPage + 20 + 29);
  const std::vector<int32_t> reply = received->reply().tokens;
  text.insert(text.end(), reply.begin(), reply.end());
  for (int32_t token : this->textOf(5, 12))
    text.push_back(token);
  const GenerationRequest request = this->greedy(text, 6);
  EXPECT_EQ(this->evaluatedBy(request, received), 1 + 12 + 5);
  EXPECT_EQ(received->stats().cachedTokens, int32_t(text.size()) - 12 - 1);
  EXPECT_EQ(received->reply().tokens, this->alone(request));
  // A second time, evaluation begins at the last full page of the prompt.
  EXPECT_LE(this->evaluatedBy(request, received), kPage + 5);
  EXPECT_EQ(received->reply().tokens, this->alone(request));
  this->expectNoPageIsLost();
}

TYPED_TEST(SchedulerStatesTest, AStoppedReplyGoesOnWithoutEvaluation) {
  this->open();
  this->start();
  std::vector<int32_t> text = this->textOf(4, kPage + 20);
  GenerationId id = 0;
  Gate started;
  Received first([&](const GenerationEvent &event) {
    started.pass();
    if (!event.isEnd && event.logprobs.size() == 1)
      this->scheduler_->cancel(id);
  });
  GenerationRequest request = this->greedy(text, -1);
  // Token 6 has a text, so that each token gives an event.
  request.sampling.logitBias[6] = 1000;
  request.topLogprobs = 0;
  id = this->submit(request, first);
  started.open();
  EXPECT_EQ(first.reply().reason, StopReason::Cancelled);
  for (int32_t token : first.reply().tokens)
    text.push_back(token);
  text.push_back(7);
  Received *received = nullptr;
  // The last generated token, and the new one.
  EXPECT_LE(this->evaluatedBy(this->greedy(text, 1), received), 2);
  EXPECT_EQ(received->reply().tokens, this->alone(this->greedy(text, 1)));
}

// Prompts are cut, and their checkpoints are where they would be otherwise.
TYPED_TEST(SchedulerStatesTest, EqualPromptsAreEvaluatedOnce) {
  this->open();
  this->start({.prefillChunk = 20});
  const std::vector<int32_t> prompt = this->textOf(3, 2 * kPage + 10);
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); });
  this->submit(this->greedy({5}, 1), first);
  gate.waitUntilReached();
  std::vector<Received> received(3);
  for (Received &each : received)
    this->submit(this->greedy(prompt, 3), each);
  gate.open();
  const std::vector<int32_t> expected = this->alone(this->greedy(prompt, 3));
  for (Received &each : received)
    EXPECT_EQ(each.reply().tokens, expected);
  this->waitForAll();
  EXPECT_EQ(this->scheduler_->stats().cachedTokens, 2u * 2 * kPage);
  EXPECT_EQ(this->evaluated_, 1 + 2 * kPage + 3 * 10 + 3 * 2);
}

TYPED_TEST(SchedulerStatesTest, ThoseThatArePutBackGoOnAsIfNothingHappened) {
  this->openSmall();
  this->start({.assumedTokens = 10});
  std::vector<GenerationRequest> requests;
  std::vector<Received> received(5);
  for (uint32_t i = 0; i < 5; ++i) {
    requests.push_back(this->greedy(this->textOf(i, 20 + 30 * int32_t(i)), -1));
    this->submit(requests.back(), received[i]);
  }
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(received[i].reply().reason, StopReason::ContextFull) << i;
    EXPECT_EQ(received[i].reply().tokens, this->alone(requests[i])) << i;
  }
  EXPECT_GT(this->scheduler_->stats().preempted, 0u);
  this->expectNoPageIsLost();
}

} // namespace
