// Hidden states of tokens and the embeddings that are made of them, against the
// sample model in float64.
#include "test/unit/SchedulerTestSupport.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace moert;
using namespace moetest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class EmbeddingTest : public SchedulerFixture<SamplePlan> {
protected:
  Engine &open(int32_t sequences = 4, int32_t pages = 16) {
    return openOn(bestIsa(),
                  SamplePlan::Room{std::min(4, pages) * int32_t(moek::kKvPage),
                                   pages, sequences, /*ubatch=*/24});
  }
  /// The embedding of a text in float64, at length 1.
  std::vector<double> expected(const Tokens &text, Pooling pooling) {
    std::vector<std::vector<double>> states = plan_->hiddenReference(text);
    std::vector<double> sum = states.back();
    if (pooling == Pooling::Mean)
      for (size_t t = 0; t + 1 < states.size(); ++t)
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] += states[t][i];
    double squares = 0;
    for (double value : sum)
      squares += value * value;
    for (double &value : sum)
      value /= std::sqrt(squares);
    return sum;
  }
  static void expectNear(const std::vector<float> &actual,
                         const std::vector<double> &expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], 1e-5) << "element " << i;
  }
  static GenerationRequest embed(Tokens text, Pooling pooling) {
    GenerationRequest request;
    request.prompt = std::move(text);
    request.embed = pooling;
    return request;
  }
};

TEST_F(EmbeddingTest, HiddenStatesMatchFloat64) {
  // 60 tokens are steps of 24, 24 and 12; 49 would leave a step of one token.
  for (int32_t count : {1, 2, 24, 48, 49, 60}) {
    SCOPED_TRACE(count);
    Engine &engine = open();
    Tokens text = textOf(uint32_t(count), count);
    auto states = plan_->hiddenReference(text);
    text.push_back(0);
    Sequence sequence = engine.sequence();
    int32_t next = 0;
    Request request{&sequence, text};
    request.hidden = [&](int32_t position, std::span<const float> state) {
      ASSERT_EQ(position, next++);
      ASSERT_EQ(state.size(), size_t(engine.hidden()));
      for (size_t i = 0; i < state.size(); ++i)
        ASSERT_NEAR(state[i], states[size_t(position)][i], 2e-5)
            << "position " << position << ", element " << i;
    };
    while (request.isOpen()) {
      Status status = engine.step({&request, 1}, [](auto &&...) {
        ADD_FAILURE() << "logits were computed";
        return Status::ok();
      });
      ASSERT_TRUE(status.isOk()) << status.message();
    }
    EXPECT_TRUE(request.status.isOk()) << request.status.message();
    EXPECT_EQ(next, count);
  }
}

// A limit of one token per step would only leave the decode phase, which gives
// no hidden state.
TEST_F(EmbeddingTest, StepsHaveAtLeastTwoTokens) {
  Engine &engine = open();
  Tokens text = textOf(3, 7);
  Sequence sequence = engine.sequence();
  int32_t states = 0;
  Request request{&sequence, text};
  request.most = 1;
  request.hidden = [&](int32_t, std::span<const float>) { ++states; };
  for (int step = 0; request.isOpen() && step < 10; ++step)
    ASSERT_TRUE(engine.step({&request, 1}, nullptr).isOk());
  EXPECT_FALSE(request.isOpen());
  EXPECT_EQ(states, 6);
}

// If there is no prefill phase, a decode phase without a head gives hidden
// states.
TEST_F(EmbeddingTest, DecodePhaseGivesHiddenStatesToo) {
  openOn(bestIsa());
  std::erase_if(plan_->builder.plan.phases,
                [](const auto &phase) { return phase->name == "prefill"; });
  Engine &engine = reopen();
  Tokens text = textOf(3, 7);
  auto states = plan_->hiddenReference(text);
  Sequence sequence = engine.sequence();
  Request request{&sequence, text};
  request.hidden = [&](int32_t position, std::span<const float> state) {
    for (size_t i = 0; i < state.size(); ++i)
      ASSERT_NEAR(state[i], states[size_t(position)][i], 2e-5);
  };
  while (request.isOpen())
    ASSERT_TRUE(engine.step({&request, 1}, nullptr).isOk());
  EXPECT_TRUE(request.status.isOk()) << request.status.message();
  EXPECT_EQ(sequence.position(), 6);
}

TEST_F(EmbeddingTest, VectorsMatchFloat64) {
  open();
  start();
  for (Pooling pooling : {Pooling::Mean, Pooling::Last})
    for (int32_t count : {1, 2, 25, 90}) {
      SCOPED_TRACE(count);
      Tokens text = textOf(uint32_t(count), count);
      auto received = complete(embed(text, pooling));
      ASSERT_TRUE(received->end().status.isOk())
          << received->end().status.message();
      expectNear(received->end().embedding, expected(text, pooling));
      EXPECT_EQ(received->stats().promptTokens, count);
      EXPECT_EQ(received->stats().generatedTokens, 0);
      EXPECT_EQ(received->text(), "");
    }
  waitForAll();
  expectNoPageIsLost();
}

// The same beginnings are in the cache, whose hidden states are not.
TEST_F(EmbeddingTest, TextsBesideGenerationsAreEmbeddedAsAlone) {
  open();
  start();
  std::vector<Received> texts(6), vectors(6);
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(greedy(textOf(i % 2, 70), 20));
    submit(requests.back(), texts[i]);
    submit(embed(textOf(i % 2, 70 + int32_t(i)), Pooling::Mean), vectors[i]);
  }
  for (uint32_t i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(texts[i].reply().tokens, alone(requests[i]));
    expectNear(vectors[i].end().embedding,
               expected(textOf(i % 2, 70 + int32_t(i)), Pooling::Mean));
  }
  waitForAll();
  expectNoPageIsLost();
}

TEST_F(EmbeddingTest, TextWithoutRoomIsRefused) {
  open(/*sequences=*/1, /*pages=*/1);
  Scheduler &scheduler = start();
  auto id =
      scheduler.submit(embed(textOf(1, moek::kKvPage), Pooling::Mean),
                       [](GenerationEvent) { ADD_FAILURE() << "an event"; });
  ASSERT_FALSE(id.isOk());
  EXPECT_THAT(id.status().message(), HasSubstr("does not fit the context"));
  // There is room for one token less.
  auto received = complete(embed(textOf(1, moek::kKvPage - 1), Pooling::Last));
  EXPECT_TRUE(received->end().status.isOk());
  EXPECT_EQ(received->end().embedding.size(), size_t(SamplePlan::kHidden));
}

TEST_F(EmbeddingTest, CancelledTextHasNoVector) {
  open(/*sequences=*/1);
  start();
  Gate gate;
  Received first([&](const GenerationEvent &) { gate.pass(); }), second;
  submit(greedy(textOf(1, 5), 3), first);
  gate.waitUntilReached();
  auto id = submit(embed(textOf(2, 30), Pooling::Mean), second);
  scheduler_->cancel(id);
  gate.open();
  EXPECT_EQ(second.reply().reason, StopReason::Cancelled);
  EXPECT_THAT(second.end().embedding, IsEmpty());
  first.end();
}

TEST(PooledState, IsMeanOrLastAtLengthOne) {
  const std::vector<float> a = {3, 0}, b = {3, 8};
  PooledState mean(Pooling::Mean), last(Pooling::Last);
  EXPECT_THAT(mean.vector(), IsEmpty());
  for (PooledState *state : {&mean, &last}) {
    state->add(a);
    state->add(b);
  }
  EXPECT_THAT(mean.vector(), ElementsAre(0.6f, 0.8f));
  EXPECT_THAT(last.vector(), ElementsAre(float(3 / std::sqrt(73.0)),
                                         float(8 / std::sqrt(73.0))));
  mean.clear();
  mean.add(std::vector<float>{0, 0});
  EXPECT_THAT(mean.vector(), ElementsAre(0, 0));
}

} // namespace
