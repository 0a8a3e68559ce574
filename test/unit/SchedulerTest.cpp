// Generations that share an engine: what they generate, who gets what, and what
// becomes of the cache.
#include "runtime/serve/PrefillShares.h"
#include "test/unit/SchedulerTestSupport.h"

#include <algorithm>
#include <deque>
#include <gmock/gmock.h>

using namespace moert;
using namespace moetest;
using testing::HasSubstr;

namespace {
constexpr int32_t kPage = moek::kKvPage;

class SchedulerTest : public SchedulerFixture<SamplePlan> {
protected:
  Engine &open(int32_t context = 4 * kPage, int32_t pages = 16,
               int32_t sequences = 4, int32_t ubatch = 24) {
    return openOn(bestIsa(),
                  SamplePlan::Room{context, pages, sequences, ubatch});
  }
};

TEST_F(SchedulerTest, ManyTogetherGenerateWhatEachDoesAlone) {
  open();
  start();
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < 12; ++i)
    requests.push_back(
        greedy(textOf(i, 1 + int32_t(i * 17 % 90)), 1 + int32_t(i * 7 % 30)));
  std::vector<Received> received(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    submit(requests[i], received[i]);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(received[i].reply().tokens, alone(requests[i]));
    EXPECT_EQ(received[i].reply().reason, StopReason::Length);
    EXPECT_TRUE(received[i].end().status.isOk());
    EXPECT_TRUE(received[i].hasEndEvent());
    EXPECT_EQ(received[i].text(), received[i].reply().text);
    EXPECT_EQ(received[i].stats().promptTokens,
              int32_t(requests[i].prompt.size()));
    EXPECT_EQ(received[i].stats().generatedTokens,
              int32_t(received[i].reply().tokens.size()));
  }
  waitForAll();
  SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.finished, 12u);
  EXPECT_EQ(stats.failed + stats.cancelled + stats.refused, 0u);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.mostRunning, 4);
  EXPECT_EQ(stats.freePages, stats.pages);
  expectNoPageIsLost();
}

TEST_F(SchedulerTest, SeedsDecideBesideOthersToo) {
  open();
  start();
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(greedy(textOf(i, 20), 25));
    requests.back().sampling.temperature = 1;
    requests.back().sampling.presencePenalty = 0.5f;
    requests.back().sampling.seed = i;
  }
  std::vector<Received> received(requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    submit(requests[i], received[i]);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(received[i].reply().tokens, alone(requests[i])) << i;
}

TEST_F(SchedulerTest, WhatCanNeverRunIsRefused) {
  open(/*context=*/kPage);
  Scheduler &scheduler = start();
  auto refusal = [&](GenerationRequest request) {
    auto id = scheduler.submit(std::move(request), [](GenerationEvent) {
      ADD_FAILURE() << "a refused request has no events";
    });
    EXPECT_FALSE(id.isOk());
    EXPECT_EQ(id.status().code(), StatusCode::Usage);
    return id.status().message();
  };
  EXPECT_THAT(refusal(greedy({}, 1)), HasSubstr("the prompt has no tokens"));
  EXPECT_THAT(refusal(greedy({1, 2, 40}, 1)),
              HasSubstr("the prompt's token at index 2, 40 is outside the "
                        "vocabulary of 40 tokens"));
  EXPECT_THAT(refusal(greedy({-1}, 1)), HasSubstr("index 0, -1 is outside"));
  EXPECT_THAT(refusal(greedy(textOf(1, kPage + 1), 1)),
              HasSubstr("the prompt of 65 tokens does not fit the context of "
                        "64"));
  GenerationRequest request = greedy({1}, 1);
  request.sampling.topP = 2;
  EXPECT_THAT(refusal(request), HasSubstr("top-p is 2"));
  request = greedy({1}, 1);
  request.sampling.logitBias[99] = 1;
  EXPECT_THAT(refusal(request), HasSubstr("logit bias's token 99 is outside"));
  request = greedy({1}, 1);
  request.reply.stops = {""};
  refusal(request);
  request = greedy({1}, 1);
  request.topLogprobs = 41;
  EXPECT_THAT(refusal(request), HasSubstr("41 alternatives"));
  EXPECT_EQ(scheduler.stats().refused, 8u);
}

TEST_F(SchedulerTest, OptionsOutOfRangeAreRefused) {
  Engine &engine = open();
  auto message = [&](SchedulerOptions options) {
    auto made = Scheduler::create(engine, *tokenizer_, options);
    EXPECT_FALSE(made.isOk());
    EXPECT_EQ(made.status().code(), StatusCode::Usage);
    return made.status().message();
  };
  EXPECT_THAT(message({.queue = 0}),
              HasSubstr("queue is 0; expected at least"));
  EXPECT_THAT(message({.sequences = -1}), HasSubstr("number of sequences is"));
  EXPECT_THAT(message({.stepFactor = 1}), HasSubstr("step factor is 1"));
}

// The last token belongs to the text, whatever ends it.
TEST_F(SchedulerTest, TextsEndAsTheyDoAlone) {
  open(/*context=*/kPage);
  start();
  GenerationRequest full = greedy(textOf(1, kPage - 5), -1);
  auto received = complete(full);
  EXPECT_EQ(received->reply().reason, StopReason::ContextFull);
  EXPECT_EQ(received->reply().tokens, alone(full));
  auto whole = complete(greedy(textOf(2, kPage), 7));
  EXPECT_EQ(whole->reply().reason, StopReason::ContextFull);
  EXPECT_EQ(whole->stats().generatedTokens, 1);
  auto none = complete(greedy({1, 2, 3}, 0));
  EXPECT_EQ(none->reply().reason, StopReason::Length);
  EXPECT_EQ(none->stats().generatedTokens, 0);
  EXPECT_TRUE(none->hasEndEvent());
  // The end-of-generation token, made the most likely one.
  GenerationRequest eos = greedy({5, 6}, 9);
  eos.reply.ignoreEos = false;
  eos.sampling.logitBias[1] = 1000;
  EXPECT_EQ(complete(eos)->reply().reason, StopReason::EndOfText);
  GenerationRequest stop = greedy({5, 6}, 9);
  stop.sampling.logitBias[6] = 1000; // Generates only token 6, which is "a".
  stop.reply.stops = {"aa"};
  auto stopped = complete(stop);
  EXPECT_EQ(stopped->reply().reason, StopReason::StopString);
  EXPECT_EQ(stopped->text(), "");
  EXPECT_EQ(stopped->stats().generatedTokens, 2);
}

TEST_F(SchedulerTest, CancellationFreesPagesWithinAStep) {
  open();
  Scheduler &scheduler = start();
  // The generation cancels itself from its own sink, as a server does that
  // cannot write.
  GenerationId id = 0;
  Gate started;
  Received received([&](const GenerationEvent &event) {
    started.pass();
    if (!event.isEnd)
      scheduler.cancel(id);
  });
  GenerationRequest request = greedy(textOf(1, kPage + 3), -1);
  // Token 6 has a text, so that each token gives an event.
  request.sampling.logitBias[6] = 1000;
  id = submit(request, received);
  started.open();
  EXPECT_EQ(received.reply().reason, StopReason::Cancelled);
  EXPECT_TRUE(received.end().status.isOk());
  EXPECT_EQ(received.stats().generatedTokens, 1);
  scheduler.cancel(id);
  scheduler.cancel(12345);
  waitForAll();
  SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.cancelled, 1u);
  EXPECT_EQ(stats.freePages, stats.pages);
  EXPECT_EQ(received.ends(), 1);
  expectNoPageIsLost();
}

TEST_F(SchedulerTest, WaitingOnesAreCancelledToo) {
  open(4 * kPage, 16, /*sequences=*/1);
  Scheduler &scheduler = start();
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); }), second;
  GenerationRequest request = greedy({5}, 3);
  request.sampling.logitBias[6] = 1000;
  submit(request, first);
  gate.waitUntilReached();
  GenerationId id = submit(greedy({6}, 3), second);
  scheduler.cancel(id);
  EXPECT_FALSE(second.hasEnded());
  gate.open();
  EXPECT_EQ(second.reply().reason, StopReason::Cancelled);
  EXPECT_EQ(second.stats().generatedTokens, 0);
  EXPECT_TRUE(second.hasEndEvent());
  EXPECT_EQ(first.reply().tokens.size(), 3u);
}

TEST_F(SchedulerTest, AFullQueueRefusesAtOnce) {
  open(4 * kPage, 16, /*sequences=*/1);
  Scheduler &scheduler = start({.queue = 3, .queuePerClient = 2});
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); });
  submit(greedy({5}, 1), first);
  gate.waitUntilReached();
  std::vector<Received> waiting(3);
  submit(greedy({5}, 1, "a"), waiting[0]);
  submit(greedy({5}, 1, "a"), waiting[1]);
  auto none = [](GenerationEvent) { ADD_FAILURE(); };
  auto third = scheduler.submit(greedy({5}, 1, "a"), none);
  ASSERT_FALSE(third.isOk());
  EXPECT_EQ(third.status().code(), StatusCode::DoesNotFit);
  EXPECT_THAT(
      third.status().message(),
      HasSubstr("2 requests of this client wait already; try again in"));
  submit(greedy({5}, 1, "b"), waiting[2]);
  auto fourth = scheduler.submit(greedy({5}, 1, "c"), none);
  ASSERT_FALSE(fourth.isOk());
  EXPECT_EQ(fourth.status().code(), StatusCode::DoesNotFit);
  EXPECT_THAT(fourth.status().message(), HasSubstr("3 requests wait already"));
  EXPECT_GE(scheduler.retryAfterSeconds(), 1);
  EXPECT_LE(scheduler.retryAfterSeconds(), 300);
  gate.open();
  for (Received &each : waiting)
    EXPECT_TRUE(each.end().status.isOk());
  EXPECT_EQ(scheduler.stats().refused, 2u);
  // After that, there is room again.
  complete(greedy({5}, 1, "a"));
}

TEST_F(SchedulerTest, FurtherChoicesDoNotCountInTheQueue) {
  open();
  start({.queue = 1, .queuePerClient = 1});
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); });
  submit(greedy({3, 4}, 4), first);
  gate.waitUntilReached();
  std::deque<Received> others(20);
  for (Received &each : others) {
    GenerationRequest request = greedy({3, 4}, 4);
    request.isFurtherChoice = true;
    submit(std::move(request), each);
  }
  Received refused;
  EXPECT_EQ(
      scheduler_->submit(greedy({3, 4}, 4), refused.sink()).status().code(),
      StatusCode::DoesNotFit);
  gate.open();
  first.end();
  for (Received &each : others)
    EXPECT_EQ(each.reply().tokens.size(), 4u);
}

TEST_F(SchedulerTest, DrainingLetsThemEndAndTakesNoMore) {
  open();
  Scheduler &scheduler = start();
  std::vector<Received> received(6);
  for (Received &each : received)
    submit(greedy({5, 7}, 20), each);
  waitForAll();
  for (Received &each : received) {
    ASSERT_TRUE(each.hasEnded());
    EXPECT_EQ(each.reply().reason, StopReason::Length);
  }
  auto refused = scheduler.submit(greedy({5}, 1), [](GenerationEvent) {});
  ASSERT_FALSE(refused.isOk());
  EXPECT_EQ(refused.status().code(), StatusCode::Cancelled);
  EXPECT_TRUE(scheduler.stats().isDraining);
}

TEST_F(SchedulerTest, TheDeadlineOfADrainCancels) {
  open();
  Scheduler &scheduler = start();
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); }), second;
  GenerationRequest request = greedy({5}, -1);
  request.sampling.logitBias[6] = 1000;
  submit(request, first);
  gate.waitUntilReached();
  submit(greedy({6}, -1), second);
  std::thread opener([&] {
    while (!scheduler.stats().isDraining)
      std::this_thread::yield();
    gate.open();
  });
  EXPECT_FALSE(scheduler.drain(std::chrono::steady_clock::now()));
  opener.join();
  EXPECT_EQ(first.reply().reason, StopReason::Cancelled);
  EXPECT_EQ(second.reply().reason, StopReason::Cancelled);
}

TEST_F(SchedulerTest, DestructionCancelsAll) {
  open();
  Scheduler &scheduler = start();
  std::vector<Received> received(9);
  for (Received &each : received)
    submit(greedy({5, 7}, -1), each);
  (void)scheduler;
  expectNoPageIsLost();
  for (Received &each : received)
    EXPECT_EQ(each.ends(), 1);
}

TEST_F(SchedulerTest, ANaNFailsOnlyItsGeneration) {
  plan_.emplace(bestIsa(), SamplePlan::Room{kPage, 8, 4, 8});
  plan_->fillRow("embed", 0, 39, NAN);
  reopen();
  start();
  Received good, bad;
  submit(greedy({5, 6, 7}, 20), good);
  submit(greedy({5, 39, 7}, 20), bad);
  EXPECT_EQ(bad.end().status.code(), StatusCode::InvalidFile);
  EXPECT_THAT(bad.end().status.message(), HasSubstr("embed"));
  EXPECT_TRUE(bad.hasEndEvent());
  EXPECT_TRUE(good.end().status.isOk());
  EXPECT_EQ(good.reply().tokens.size(), 20u);
  waitForAll();
  EXPECT_EQ(scheduler_->stats().failed, 1u);
  expectNoPageIsLost();
}

// Of equal requests that come together, one computes the prompt.
TEST_F(SchedulerTest, EqualPromptsAreEvaluatedOnce) {
  open();
  start();
  std::vector<int32_t> prompt = textOf(3, 2 * kPage + 10);
  std::vector<Received> received(4);
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); });
  submit(greedy({5}, 1), first);
  gate.waitUntilReached();
  for (Received &each : received)
    submit(greedy(prompt, 5), each);
  gate.open();
  std::vector<int32_t> expected = alone(greedy(prompt, 5));
  int32_t cached = 0;
  for (Received &each : received) {
    EXPECT_EQ(each.reply().tokens, expected);
    cached += each.stats().cachedTokens;
  }
  // The end of the other prompts is evaluated again.
  const int32_t most = 2 * kPage + 10 - kPromptEnd;
  EXPECT_EQ(cached, 3 * most);
  waitForAll();
  SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.cachedTokens, uint64_t(cached));
  // Each evaluates the rest of its prompt and four of its five tokens.
  EXPECT_EQ(stats.evaluatedTokens, 1 + uint64_t(most) + 4 * kPromptEnd + 4 * 4);
  EXPECT_EQ(stats.promptTokens, 1 + 4u * prompt.size());
  EXPECT_EQ(stats.generatedTokens, 1 + 4u * 5);
}

// Logits after a prompt do not depend on what the cache held of it: its last
// token always passes the prefill phase, also where an ubatch would end before.
// What one group asked is not found by another: neither full pages, nor what is
// kept, nor what another prompt is about to evaluate.
TEST_F(SchedulerTest, GroupsShareNothing) {
  open();
  start();
  const std::vector<int32_t> prompt = textOf(5, 2 * kPage + 9);
  auto of = [&](const char *group, std::vector<int32_t> text) {
    GenerationRequest request = greedy(std::move(text), 3, group);
    request.group = group;
    return request;
  };
  EXPECT_EQ(complete(of("a", prompt))->stats().cachedTokens, 0);
  EXPECT_EQ(complete(of("b", prompt))->stats().cachedTokens, 0);
  EXPECT_GT(complete(of("a", prompt))->stats().cachedTokens, kPage);
  EXPECT_EQ(complete(of("c", prompt))->stats().cachedTokens, 0);
  EXPECT_GT(complete(of("b", prompt))->stats().cachedTokens, kPage);
  // Two requests at the same time.
  const std::vector<int32_t> other = textOf(8, 2 * kPage + 9);
  Received a, b, c;
  submit(of("a", other), a);
  submit(of("b", other), b);
  submit(of("a", other), c);
  EXPECT_EQ(a.stats().cachedTokens, 0);
  EXPECT_EQ(b.stats().cachedTokens, 0);
  EXPECT_GT(c.stats().cachedTokens, kPage);
  EXPECT_EQ(a.reply().tokens, b.reply().tokens);
}

TEST_F(SchedulerTest, PrefillEvaluatesTheLastTokenOfAPrompt) {
  open(/*context=*/4 * kPage, /*pages=*/16, /*sequences=*/4, /*ubatch=*/24);
  int32_t decoded = 0;
  engine_->setObserver([&](const PhaseRun &run) {
    if (run.phase == PhaseKind::Decode || run.phase == PhaseKind::Batch)
      decoded += run.step.tokens;
  });
  start();
  for (int32_t count : {2, 24, 25, 49, kPage + 1, kPage + 2}) {
    for (int time = 0; time < 2; ++time)
      complete(greedy(textOf(uint32_t(count), count), 1));
    EXPECT_EQ(decoded, 0) << count;
  }
}

TEST_F(SchedulerTest, SomeStepsAreMeasuredByDevice) {
  open();
  int32_t runs = 0;
  double seconds = 0;
  engine_->setObserver([&](const PhaseRun &run) {
    ++runs;
    seconds += run.seconds;
  });
  start();
  complete(greedy(textOf(1, 5), 1));
  EXPECT_EQ(scheduler_->stats().measuredSeconds, 0);
  complete(greedy(textOf(2, 5), 30));
  waitForAll();
  SchedulerStats stats = scheduler_->stats();
  ASSERT_EQ(stats.devices.size(), 1u);
  EXPECT_EQ(stats.devices[0].name,
            engine_->plan().table().devices()->Get(0)->name()->str());
  EXPECT_GT(stats.devices[0].run, 0);
  EXPECT_LE(stats.devices[0].run + stats.devices[0].wait,
            stats.measuredSeconds);
  EXPECT_LT(stats.measuredSeconds, seconds);
  // The observer that was set before is still called.
  EXPECT_GT(runs, 30);
}

TEST_F(SchedulerTest, ASecondTurnEvaluatesTheNewPartAlone) {
  open();
  start();
  std::vector<int32_t> text = textOf(4, kPage + 20);
  auto first = complete(greedy(text, 30));
  const std::vector<int32_t> reply = first->reply().tokens;
  text.insert(text.end(), reply.begin(), reply.end());
  for (int32_t token : textOf(5, 12))
    text.push_back(token);
  auto second = complete(greedy(text, 6));
  EXPECT_EQ(second->stats().cachedTokens, int32_t(text.size()) - kPromptEnd);
  EXPECT_EQ(second->reply().tokens, alone(greedy(text, 6)));
  // A second time, only the end of the prompt is evaluated, by the prefill
  // phase as before.
  auto again = complete(greedy(text, 6));
  EXPECT_EQ(again->stats().cachedTokens, int32_t(text.size()) - kPromptEnd);
  EXPECT_EQ(again->reply().tokens, second->reply().tokens);
  // Another reply to the first question.
  text.resize(size_t(kPage) + 20 + 5);
  text.push_back(7);
  auto other = complete(greedy(text, 6));
  EXPECT_EQ(other->stats().cachedTokens, int32_t(text.size()) - kPromptEnd);
  EXPECT_EQ(other->reply().tokens, alone(greedy(text, 6)));
  expectNoPageIsLost();
}

// A conversation that grows stays in the cache, although what comes between its
// turns needs more than the rest of the cache.
TEST_F(SchedulerTest, AConversationOutlivesWhatComesBetweenItsTurns) {
  open(/*context=*/8 * kPage, /*pages=*/12, /*sequences=*/2);
  start();
  std::vector<int32_t> text = textOf(1, kPage);
  uint32_t other = 100;
  for (int turn = 0; turn < 7; ++turn) {
    const auto before = int32_t(text.size());
    for (int32_t token : textOf(uint32_t(turn), 40))
      text.push_back(token);
    auto done = complete(greedy(text, 10));
    if (turn > 0) {
      EXPECT_GE(done->stats().cachedTokens, before * 95 / 100) << turn;
    }
    for (int32_t token : done->reply().tokens)
      text.push_back(token);
    // A title first, which finds the conversation still young.
    for (int i = 0; i < (turn == 0 ? 1 : 5); ++i)
      complete(greedy(textOf(other++, 2 * kPage), 5));
  }
  expectNoPageIsLost();
}

// Texts that grow beyond what was assumed are put back when no page is left.
TEST_F(SchedulerTest, ThoseThatArePutBackGoOnAsIfNothingHappened) {
  open(/*context=*/4 * kPage, /*pages=*/5, /*sequences=*/3);
  start({.assumedTokens = 10});
  std::vector<GenerationRequest> requests;
  std::vector<Received> received(3);
  for (uint32_t i = 0; i < 3; ++i) {
    requests.push_back(greedy(textOf(i, 20), -1));
    requests.back().sampling.temperature = 1;
    requests.back().sampling.seed = i;
    requests.back().topLogprobs = 0;
    submit(requests.back(), received[i]);
  }
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(received[i].end().status.isOk())
        << received[i].end().status.message();
    EXPECT_EQ(received[i].reply().reason, StopReason::ContextFull);
    EXPECT_EQ(received[i].reply().tokens, alone(requests[i]));
    EXPECT_EQ(received[i].text(), received[i].reply().text);
    EXPECT_EQ(received[i].logprobs().size(), received[i].reply().tokens.size());
    EXPECT_EQ(received[i].ends(), 1);
  }
  EXPECT_GT(scheduler_->stats().preempted, 0u);
  expectNoPageIsLost();
}

// With limits of their own, they wait instead.
TEST_F(SchedulerTest, AGenerationBeginsWhereItFits) {
  open(/*context=*/4 * kPage, /*pages=*/5, /*sequences=*/3);
  start();
  std::vector<GenerationRequest> requests;
  std::vector<Received> received(4);
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(greedy(textOf(i, 20), 3 * kPage - 20));
    submit(requests.back(), received[i]);
  }
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(received[i].reply().tokens, alone(requests[i])) << i;
  EXPECT_EQ(scheduler_->stats().preempted, 0u);
  expectNoPageIsLost();
}

TEST_F(SchedulerTest, ClientsTakeTurnsAndPrioritiesGoFirst) {
  open(4 * kPage, 16, /*sequences=*/1);
  start();
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); });
  submit(greedy({5}, 1), first);
  gate.waitUntilReached();
  std::vector<std::string> order;
  struct Want {
    const char *name, *client;
    int32_t priority;
  };
  const Want wants[] = {{"a1", "a", 0}, {"a2", "a", 0}, {"a3", "a", 0},
                        {"a4", "a", 1}, {"b1", "b", 0}, {"b2", "b", 0}};
  std::vector<std::unique_ptr<Received>> received;
  for (const Want &want : wants) {
    received.push_back(std::make_unique<Received>(
        [&order, want](const GenerationEvent &event) {
          if (event.isEnd)
            order.push_back(want.name);
        }));
    // Each costs more than a turn.
    GenerationRequest request = greedy(textOf(9, 3 * kPage), 60, want.client);
    request.prompt[0] = int32_t(received.size());
    request.prompt[1] = want.client[0] - 'a';
    request.priority = want.priority;
    submit(request, *received.back());
  }
  gate.open();
  for (auto &each : received)
    each->end();
  EXPECT_EQ(order,
            (std::vector<std::string>{"a4", "b1", "a1", "b2", "a2", "a3"}));
}

// The time is over with the first token, and a text ends at the end of a line.
TEST_F(SchedulerTest, ATextEndsAfterALineOnceItsTimeIsOver) {
  open();
  start();
  GenerationRequest request = greedy({5, 8}, 20);
  request.mostDecodeTime = std::chrono::milliseconds(0);
  request.sampling.logitBias[6] = 1000; // Generates only token 6, which is "a".
  EXPECT_EQ(complete(request)->reply().tokens.size(), 20u);
  request.sampling.logitBias = {{SamplePlan::kLineEnd, 1000}};
  auto ended = complete(request);
  EXPECT_EQ(ended->reply().text, "\n");
  EXPECT_EQ(ended->reply().reason, StopReason::Length);
  request.mostDecodeTime = std::chrono::hours(1);
  EXPECT_EQ(complete(request)->reply().tokens.size(), 20u);
}

TEST_F(SchedulerTest, EventsHaveTheTokensSinceTheLastOne) {
  open();
  start();
  std::vector<int32_t> tokens;
  Received received([&](const GenerationEvent &event) {
    tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  });
  submit(greedy({5, 8}, 20), received);
  EXPECT_EQ(received.reply().tokens, tokens);
}

TEST_F(SchedulerTest, AClientHasNoMoreThanItsLimit) {
  open();
  start({.runningPerClient = 1});
  std::vector<Received> received(3);
  Gate gate;
  int most = 0;
  Received watch([&](const GenerationEvent &) {
    gate.pass();
    int running = 0;
    for (const GenerationRow &row : scheduler_->stats().rows)
      running +=
          row.client == "a" && row.state != GenerationRow::State::Waiting;
    most = std::max(most, running);
  });
  GenerationRequest request = greedy({5}, 30, "b");
  request.sampling.logitBias[6] = 1000;
  submit(request, watch);
  gate.waitUntilReached();
  for (Received &each : received)
    submit(greedy({5, 8}, 5, "a"), each);
  gate.open();
  for (Received &each : received)
    each.end();
  watch.end();
  EXPECT_EQ(most, 1);
}

// A long prompt is cut so that others go on, and a short one comes between.
TEST_F(SchedulerTest, AShortPromptIsAnsweredBesideALongOne) {
  open(/*context=*/8 * kPage, /*pages=*/32, /*sequences=*/4, /*ubatch=*/16);
  start({.prefillChunk = 16});
  std::vector<std::string> order;
  auto noteEnd = [&](const char *name) {
    return [&order, name](const GenerationEvent &event) {
      if (event.isEnd)
        order.push_back(name);
    };
  };
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); });
  submit(greedy({5}, 1), first);
  gate.waitUntilReached();
  Received longOne(noteEnd("long")), shortOne(noteEnd("short"));
  submit(greedy(textOf(1, 7 * kPage), 1), longOne);
  submit(greedy(textOf(2, 20), 5), shortOne);
  gate.open();
  longOne.end();
  shortOne.end();
  EXPECT_EQ(order, (std::vector<std::string>{"short", "long"}));
  // Both begin in the first step. The short one gets a slice of a chunk of 16,
  // then its end together. Then 7 pages go on, 16 tokens a step.
  EXPECT_EQ(shortOne.stats().queueSteps, 0);
  EXPECT_EQ(shortOne.stats().promptSteps, 2);
  EXPECT_GE(longOne.stats().promptSteps, 7 * kPage / 16);
}

// With a place that is free, a short prompt is answered two steps after its
// own evaluation could be, whatever others evaluate and generate.
TEST_F(SchedulerTest, FirstTokensComeWithinTwoSteps) {
  open(/*context=*/8 * kPage, /*pages=*/32, /*sequences=*/4, /*ubatch=*/64);
  start({.prefillChunk = 32});
  std::vector<std::unique_ptr<Received>> others;
  for (uint32_t i = 0; i < 3; ++i) {
    others.push_back(std::make_unique<Received>());
    submit(greedy(textOf(i + 1, 5 * kPage), 100), *others.back());
  }
  for (uint32_t i = 0; i < 5; ++i) {
    auto probe = complete(greedy(textOf(i + 10, 12), 1));
    EXPECT_EQ(probe->stats().queueSteps, 0);
    EXPECT_LE(probe->stats().promptSteps, 1 + 2);
  }
  for (auto &other : others)
    other->end();
}

TEST_F(SchedulerTest, LogprobsAreThoseOfTheModel) {
  open();
  start();
  GenerationRequest request = greedy(textOf(7, 9), 6);
  request.topLogprobs = 3;
  request.sampling.temperature = 1.5f;
  request.sampling.repetitionPenalty = 1.3f;
  request.sampling.logitBias[4] = 1;
  auto received = complete(request);
  std::vector<TokenLogprob> logprobs = received->logprobs();
  ASSERT_EQ(logprobs.size(), 6u);
  std::vector<int32_t> text = request.prompt;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    std::vector<double> logits = plan_->reference(text).back();
    double sum = 0;
    for (double logit : logits)
      sum += std::exp(logit);
    auto expected = [&](int32_t token) {
      return logits[size_t(token)] - std::log(sum);
    };
    EXPECT_EQ(logprobs[i].token, received->reply().tokens[i]);
    EXPECT_NEAR(logprobs[i].logprob, expected(logprobs[i].token), 1e-4);
    ASSERT_EQ(logprobs[i].top.size(), 3u);
    EXPECT_NEAR(logprobs[i].top[0].second,
                *std::ranges::max_element(logits) - std::log(sum), 1e-4);
    for (auto [token, logprob] : logprobs[i].top)
      EXPECT_NEAR(logprob, expected(token), 1e-4);
    EXPECT_GE(logprobs[i].top[0].second, logprobs[i].top[1].second);
    text.push_back(logprobs[i].token);
  }
}

TEST_F(SchedulerTest, PromptsReportTheirProgress) {
  open(/*context=*/4 * kPage, /*pages=*/16, /*sequences=*/4, /*ubatch=*/24);
  start();
  GenerationRequest request = greedy(textOf(5, 100), 3);
  request.reportsProgress = true;
  std::vector<int32_t> done;
  bool areTimesOfNow = true;
  Received received([&](const GenerationEvent &event) {
    if (event.promptDone > 0)
      done.push_back(event.promptDone);
    areTimesOfNow &= event.stats.promptTokens == 100 &&
                     event.stats.promptSeconds > 0;
  });
  submit(request, received);
  EXPECT_EQ(received.reply().tokens, alone(request));
  EXPECT_TRUE(areTimesOfNow);
  EXPECT_GE(done.size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_LT(done.back(), 100);
}

// Beside others, and whatever the cache has of the prompt.
TEST_F(SchedulerTest, LogprobsOfPromptsAreThoseOfTheModel) {
  open();
  start();
  const std::vector<int32_t> prompt = textOf(7, 2 * kPage + 9);
  (void)complete(greedy(prompt, 2));
  Received beside;
  submit(greedy(textOf(3, 40), 60), beside);
  for (bool isAlone : {false, true}) {
    if (isAlone)
      (void)beside.end();
    GenerationRequest request = greedy(prompt, isAlone ? 0 : 4);
    request.topLogprobs = 2;
    request.promptLogprobs = true;
    std::vector<TokenLogprob> logprobs;
    Received received([&](const GenerationEvent &event) {
      logprobs.insert(logprobs.end(), event.promptLogprobs.begin(),
                      event.promptLogprobs.end());
    });
    submit(request, received);
    EXPECT_EQ(received.reply().tokens, alone(request));
    EXPECT_EQ(received.stats().cachedTokens, 0);
    ASSERT_EQ(logprobs.size(), prompt.size() - 1);
    const auto reference = plan_->reference(prompt);
    for (size_t i = 0; i < logprobs.size(); ++i) {
      double sum = 0;
      for (double logit : reference[i])
        sum += std::exp(logit);
      EXPECT_EQ(logprobs[i].token, prompt[i + 1]);
      EXPECT_NEAR(logprobs[i].logprob,
                  reference[i][size_t(prompt[i + 1])] - std::log(sum), 1e-4)
          << i;
      ASSERT_EQ(logprobs[i].top.size(), 2u);
      EXPECT_NEAR(logprobs[i].top[0].second,
                  *std::ranges::max_element(reference[i]) - std::log(sum),
                  1e-4);
    }
  }
}

} // namespace
