// Tokens that are drafted by prompt lookup, verified beside others' tokens.
#include "runtime/serve/DraftPolicy.h"
#include "runtime/serve/PromptLookup.h"
#include "runtime/serve/PrefillShares.h"
#include "test/unit/SchedulerTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moetest;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {
constexpr int32_t kPage = moek::kKvPage;

TEST(PromptLookup, DraftsWhatFollowedTheLastOccurrence) {
  PromptLookup lookup;
  std::vector<int32_t> text = {1, 2, 3, 4, 5, 1, 2, 3, 6, 7, 8, 9};
  EXPECT_THAT(lookup.draft(text, 4), IsEmpty());
  text.insert(text.end(), {1, 2, 3});
  EXPECT_THAT(lookup.draft(text, 3), ElementsAre(6, 7, 8));
  text.push_back(6);
  EXPECT_THAT(lookup.draft(text, 9), ElementsAre(7, 8, 9, 1, 2, 3, 6));
  EXPECT_THAT(lookup.draft(text, 0), IsEmpty());
  PromptLookup other;
  EXPECT_THAT(other.draft(std::vector<int32_t>{4, 4}, 5), IsEmpty());
  EXPECT_THAT(other.draft(std::vector<int32_t>{4, 4, 4}, 5), IsEmpty());
  EXPECT_THAT(other.draft(std::vector<int32_t>{4, 4, 4, 4}, 5), ElementsAre(4));
}

TEST(DraftPolicy, ComparesTokensPerSecond) {
  DraftPolicy policy(/*mostRows=*/4);
  // Nothing was measured: the first step has no draft.
  EXPECT_EQ(policy.choose(1, 3, 1), 0);
  policy.observe(1, 1.0);
  // More rows are assumed to cost nothing, at most as many as there are.
  EXPECT_EQ(policy.choose(1, 9, 0.5), 3);
  EXPECT_EQ(policy.choose(3, 9, 0.5), 1);
  policy.observe(4, 2.0);
  // 1 + 0.5 + 0.25 tokens in a second, or 1.875 in two.
  EXPECT_EQ(policy.choose(1, 3, 0.5), 2);
  policy.observe(2, 1.6);
  policy.observe(3, 1.9);
  EXPECT_EQ(policy.choose(1, 3, 0.5), 0);
  EXPECT_EQ(policy.choose(1, 3, 0.9), 3);
  // A number that was measured once is tried again at some time.
  for (int i = 0; i < 5000; ++i)
    policy.observe(1, 1.0);
  EXPECT_GT(policy.choose(1, 3, 0.5), 0);
}

TEST(DraftAcceptance, FollowsWhatComesTrue) {
  DraftAcceptance acceptance;
  EXPECT_EQ(acceptance.rate(), 0.5);
  for (int i = 0; i < 40; ++i)
    acceptance.observe(false);
  EXPECT_LT(acceptance.rate(), 0.05);
  for (int i = 0; i < 40; ++i)
    acceptance.observe(true);
  EXPECT_GT(acceptance.rate(), 0.9);
}

class SpeculationTest : public SchedulerFixture<SamplePlan> {
protected:
  void open(int32_t pages = 16) {
    openOn(bestIsa(), SamplePlan::Room{4 * kPage, pages, /*sequences=*/4,
                                       /*ubatch=*/24});
    SchedulerOptions options;
    options.speculation = Speculation::Always;
    start(options);
  }
  /// A prompt that repeats itself, so that there always is a draft.
  static Tokens repeated(uint32_t seed, int32_t count) {
    Tokens part = textOf(seed, 9), text;
    while (int32_t(text.size()) < count)
      text.insert(text.end(), part.begin(), part.end());
    text.resize(size_t(count));
    return text;
  }
};

TEST_F(SpeculationTest, TextsAreAsWithoutIt) {
  open();
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) {
    requests.push_back(
        greedy(repeated(i, 20 + int32_t(i) * 13), 40 + int32_t(i)));
    if (i % 2 == 1) {
      requests.back().sampling.temperature = 0.4f;
      requests.back().sampling.seed = i;
      requests.back().sampling.frequencyPenalty = 0.1f;
    }
    if (i % 3 == 0)
      requests.back().topLogprobs = 2;
  }
  // One by one, with three rows for drafts, and all together.
  for (size_t together : {size_t(1), requests.size()})
    for (size_t first = 0; first < requests.size(); first += together) {
      std::vector<Received> received(together);
      for (size_t i = 0; i < together; ++i)
        submit(requests[first + i], received[i]);
      for (size_t i = 0; i < together; ++i) {
        SCOPED_TRACE(first + i);
        const GenerationRequest &request = requests[first + i];
        EXPECT_EQ(received[i].reply().tokens, alone(request));
        EXPECT_EQ(received[i].stats().generatedTokens, request.reply.maxTokens);
        EXPECT_EQ(received[i].text(), received[i].reply().text);
        if (request.topLogprobs > 0) {
          EXPECT_EQ(received[i].logprobs().size(),
                    received[i].reply().tokens.size());
        }
      }
    }
  waitForAll();
  SchedulerStats stats = scheduler_->stats();
  // Greedy texts of the sample model repeat themselves.
  EXPECT_GT(stats.acceptedTokens, 8u);
  EXPECT_GT(stats.draftedTokens, stats.acceptedTokens);
  EXPECT_LT(stats.steps, stats.generatedTokens);
  expectNoPageIsLost();
}

// What is kept of a text that ended inside a draft is what was generated.
TEST_F(SpeculationTest, TextsGoOnWhereTheyEnded) {
  open();
  for (int32_t count : {5, 6, 7, 8, 30}) {
    SCOPED_TRACE(count);
    GenerationRequest request = greedy(repeated(3, 50), count);
    auto first = complete(request);
    Tokens text = request.prompt;
    const Tokens &reply = first->reply().tokens;
    text.insert(text.end(), reply.begin(), reply.end());
    text.push_back(7);
    auto second = complete(greedy(text, 10));
    EXPECT_EQ(second->reply().tokens, alone(greedy(text, 10)));
    EXPECT_EQ(second->stats().cachedTokens, int32_t(text.size()) - kPromptEnd);
  }
  waitForAll();
  expectNoPageIsLost();
}

TEST_F(SpeculationTest, FullCacheDoesNotFailDrafts) {
  open(/*pages=*/5);
  std::vector<GenerationRequest> requests;
  std::vector<Received> received(4);
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(greedy(repeated(i, 30), 90));
    submit(requests.back(), received[i]);
  }
  for (uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(received[i].reply().tokens, alone(requests[i])) << i;
  waitForAll();
  expectNoPageIsLost();
}

TEST_F(SpeculationTest, TextEndsAtTheContext) {
  open();
  GenerationRequest request = greedy(repeated(2, 4 * kPage - 20), -1);
  auto received = complete(request);
  EXPECT_EQ(received->reply().reason, StopReason::ContextFull);
  EXPECT_EQ(received->reply().tokens, alone(request));
}

TEST_F(SpeculationTest, OffMeansNoDraft) {
  open();
  SchedulerOptions options;
  options.speculation = Speculation::Off;
  start(options);
  complete(greedy(repeated(2, 60), 30));
  waitForAll();
  EXPECT_EQ(scheduler_->stats().draftedTokens, 0u);
}

TEST_F(SpeculationTest, EngineRefusesMoreTogetherThanTheBatchPhaseTakes) {
  openOn(bestIsa(), SamplePlan::Room{4 * kPage, 16, 4, 24});
  Sequence sequence = engine_->sequence();
  Tokens text = textOf(1, 5);
  Request request{&sequence, text};
  request.together = true;
  ASSERT_TRUE(engine_->step({&request, 1}, nullptr).isOk());
  EXPECT_THAT(request.status.message(),
              testing::HasSubstr("5 tokens are to be evaluated together; the "
                                 "plan's limit is 4"));
}

} // namespace
