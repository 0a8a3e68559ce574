// Random schedules: generations of all kinds that come and are cancelled at any
// time. Whatever happens, each ends exactly once, what it generated is what it
// generates alone, and the cache loses no page.
#include "test/unit/SchedulerTestSupport.h"

#include <random>
#include <thread>

using namespace moert;
using namespace moetest;

namespace {
constexpr int32_t kPage = moek::kKvPage;

class SchedulerStressTest : public SchedulerFixture<SamplePlan>,
                            public testing::WithParamInterface<uint32_t> {
protected:
  /// A few beginnings that texts share.
  std::vector<int32_t> promptOf(std::mt19937 &random) {
    std::vector<int32_t> prompt = textOf(random() % 3, int32_t(random() % 150));
    for (int32_t token : textOf(10 + random() % 4, 1 + int32_t(random() % 20)))
      prompt.push_back(token);
    return prompt;
  }
  GenerationRequest requestOf(std::mt19937 &random) {
    GenerationRequest request =
        greedy(promptOf(random), int32_t(random() % 40),
               std::string(1, char('a' + random() % 3)));
    if (random() % 8 == 0)
      request.reply.maxTokens = -1;
    if (random() % 2 == 0) {
      request.sampling.temperature = 1;
      request.sampling.seed = random();
    }
    request.reply.ignoreEos = random() % 2 == 0;
    request.priority = int32_t(random() % 3);
    if (random() % 4 == 0)
      request.topLogprobs = 2;
    return request;
  }
};

TEST_P(SchedulerStressTest, EveryGenerationEndsOnce) {
  // Few pages, so that some are put back.
  openOn(bestIsa(), SamplePlan::Room{4 * kPage, 9, 3, 24});
  Scheduler &scheduler = start({.queue = 1000,
                                .queuePerClient = 1000,
                                .assumedTokens = 8,
                                .keptSequences = 4});
  constexpr int kThreads = 3, kEach = 40;
  struct Sent {
    GenerationRequest request;
    GenerationId id = 0;
    bool wasCancelled = false;
    Received received;
  };
  std::vector<std::unique_ptr<Sent>> sent[kThreads];
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(GetParam() * 100 + t);
      for (int i = 0; i < kEach; ++i) {
        auto each = std::make_unique<Sent>();
        each->request = requestOf(random);
        each->id = submit(each->request, each->received);
        sent[t].push_back(std::move(each));
        if (random() % 3 == 0) {
          Sent &some = *sent[t][random() % sent[t].size()];
          scheduler.cancel(some.id);
          some.wasCancelled = true;
        }
        if (random() % 4 == 0)
          sent[t][random() % sent[t].size()]->received.end();
        (void)scheduler.stats();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  waitForAll();
  uint64_t generated = 0;
  for (auto &ofThread : sent)
    for (auto &each : ofThread) {
      SCOPED_TRACE(each->id);
      ASSERT_EQ(each->received.ends(), 1);
      EXPECT_TRUE(each->received.end().status.isOk())
          << each->received.end().status.message();
      EXPECT_TRUE(each->received.hasEndEvent());
      EXPECT_EQ(each->received.text(), each->received.reply().text);
      const std::vector<int32_t> &tokens = each->received.reply().tokens;
      generated += tokens.size();
      if (each->request.topLogprobs >= 0) {
        EXPECT_EQ(each->received.logprobs().size(), tokens.size());
      }
      std::vector<int32_t> expected = alone(each->request);
      if (each->received.reply().reason == StopReason::Cancelled) {
        EXPECT_TRUE(each->wasCancelled);
        ASSERT_LE(tokens.size(), expected.size());
        expected.resize(tokens.size());
      }
      EXPECT_EQ(tokens, expected);
    }
  SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.finished + stats.cancelled, uint64_t(kThreads * kEach));
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_EQ(stats.generatedTokens, generated);
  EXPECT_EQ(stats.freePages, stats.pages);
  EXPECT_GT(stats.cachedTokens, 0u);
  expectNoPageIsLost();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerStressTest, testing::Range(0u, 4u));

} // namespace
