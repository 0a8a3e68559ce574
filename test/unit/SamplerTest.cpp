//===- SamplerTest.cpp - Choosing tokens ----------------------------------===//

#include "runtime/text/Sampler.h"

#include "runtime/text/Logprobs.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>
#include <random>

using namespace moert;
using testing::HasSubstr;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Draws in proportion to probability, without filters.
SamplerParams unfiltered() {
  return {.topK = 0, .topP = 1, .minP = 0, .temperature = 1};
}

Sampler make(const SamplerParams &params) {
  StatusOr<Sampler> sampler = Sampler::create(params);
  EXPECT_TRUE(sampler) << sampler.status().message();
  return *std::move(sampler);
}

int32_t sampleOne(Sampler &sampler, const std::vector<float> &logits) {
  StatusOr<int32_t> id = sampler.sample(logits);
  EXPECT_TRUE(id) << id.status().message();
  return id ? *id : -1;
}

/// Returns how often each id is drawn in `draws` draws.
std::map<int32_t, int> histogram(const SamplerParams &params,
                                 const std::vector<float> &logits,
                                 int draws = 20000) {
  Sampler sampler = make(params);
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i)
    ++counts[sampleOne(sampler, logits)];
  return counts;
}

std::vector<int32_t> idsOf(const std::map<int32_t, int> &counts) {
  std::vector<int32_t> ids;
  for (auto [id, count] : counts)
    ids.push_back(id);
  return ids;
}

std::vector<float> logs(std::vector<float> probabilities) {
  for (float &p : probabilities)
    p = std::log(p);
  return probabilities;
}

// The published reference values.
TEST(SplitMix64, KnownSequence) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
  for (int i = 0; i < 1000; ++i) {
    double unit = random.nextUnit();
    EXPECT_TRUE(unit >= 0 && unit < 1);
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  Sampler sampler = make({.temperature = 0});
  EXPECT_EQ(sampleOne(sampler, {1, 3, 2, 3}), 1);
  EXPECT_EQ(sampleOne(sampler, {-infinity, -5, -infinity}), 1);
}

TEST(Sampler, DrawsInProportion) {
  std::vector<float> p = {0.5f, 0.3f, 0.15f, 0.05f};
  auto counts = histogram(unfiltered(), logs(p));
  for (int32_t id = 0; id < 4; ++id)
    EXPECT_NEAR(counts[id] / 20000.0, p[id], 0.015)
        << id; // The tolerance is 4 standard deviations.
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplerParams params = unfiltered();
  params.temperature = 0.5f; // The temperature squares the odds: 0.7^2 : 0.3^2.
  auto counts = histogram(params, logs({0.7f, 0.3f}));
  EXPECT_NEAR(counts[0] / 20000.0, 0.49 / 0.58, 0.015);
  params.temperature = 1e-30f;
  EXPECT_THAT(idsOf(histogram(params, {1, 1.01f, 0}, 50)),
              testing::ElementsAre(1));
}

TEST(Sampler, TopK) {
  SamplerParams params = unfiltered();
  params.topK = 2;
  EXPECT_THAT(idsOf(histogram(params, {0, 2, 1, 2.5f}, 500)),
              testing::ElementsAre(1, 3));
  // Of two ids that tie for the last place, the lower one stays.
  params.topK = 3;
  EXPECT_THAT(idsOf(histogram(params, {1, 2, 1, 2.5f}, 500)),
              testing::ElementsAre(0, 1, 3));
  params.topK = 100;
  EXPECT_THAT(idsOf(histogram(params, {1, 1, 1}, 500)),
              testing::ElementsAre(0, 1, 2));
}

TEST(Sampler, TopKOfManyWithTies) {
  std::mt19937 random(9);
  for (uint32_t topK : {1u, 2u, 7u, 40u}) {
    std::vector<float> logits(200);
    for (float &logit : logits)
      logit = static_cast<float>(random() % 20);
    std::vector<int32_t> best(logits.size());
    std::iota(best.begin(), best.end(), 0);
    std::ranges::stable_sort(best, std::greater{},
                             [&](int32_t id) { return logits[id]; });
    best.resize(topK);

    SamplerParams params = unfiltered();
    params.topK = topK;
    // Nearly uniform, so that all remaining tokens show up.
    params.temperature = 1000;
    EXPECT_THAT(idsOf(histogram(params, logits, 3000)),
                testing::UnorderedElementsAreArray(best));
  }
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  SamplerParams params = unfiltered();
  std::vector<float> logits = logs({0.1f, 0.5f, 0.15f, 0.25f});
  params.topP = 0.45f;
  EXPECT_THAT(idsOf(histogram(params, logits, 500)), testing::ElementsAre(1));
  params.topP = 0.7f;
  EXPECT_THAT(idsOf(histogram(params, logits, 500)),
              testing::ElementsAre(1, 3));
  params.topP = 0.85f;
  EXPECT_THAT(idsOf(histogram(params, logits, 500)),
              testing::ElementsAre(1, 2, 3));
}

TEST(Sampler, TopPCountsAmongWhatTopKLeft) {
  SamplerParams params = unfiltered();
  params.topK = 2; // 0.5 and 0.25 remain, that is, 2/3 and 1/3.
  params.topP = 0.6f;
  EXPECT_THAT(idsOf(histogram(params, logs({0.1f, 0.5f, 0.15f, 0.25f}), 500)),
              testing::ElementsAre(1));
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  SamplerParams params = unfiltered();
  params.minP = 0.4f; // The threshold is 0.4 * 0.5 = 0.2.
  EXPECT_THAT(idsOf(histogram(params, logs({0.1f, 0.5f, 0.15f, 0.25f}), 500)),
              testing::ElementsAre(1, 3));
  params.minP = 1;
  EXPECT_THAT(idsOf(histogram(params, {2, 1, 2}, 500)),
              testing::ElementsAre(0, 2));
}

TEST(Sampler, FiltersComeBeforeTemperature) {
  SamplerParams params = unfiltered();
  params.topP = 0.6f;
  params.temperature = 100; // Applied first, it would spread the probabilities.
  EXPECT_THAT(idsOf(histogram(params, logs({0.65f, 0.2f, 0.15f}), 500)),
              testing::ElementsAre(0));
}

// Compares the partial selection with a full sort, for a vocabulary of real
// size.
TEST(Sampler, NucleusOfALargeVocabulary) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(130000);
  for (float &logit : logits)
    logit = normal(random);
  std::vector<float> sorted = logits;
  std::ranges::sort(sorted, std::greater{});
  double total = 0, sum = 0;
  for (float logit : sorted)
    total += std::exp(double(logit));
  size_t nucleus = 0;
  while (sum < 0.3f * total)
    sum += std::exp(double(sorted[nucleus++]));
  ASSERT_GT(nucleus, 256u) << "must take several rounds of selection";

  SamplerParams params = unfiltered();
  params.topP = 0.3f;
  // Nearly uniform, so that the last of the nucleus shows up.
  params.temperature = 50;
  Sampler sampler = make(params);
  float lowest = infinity;
  for (int i = 0; i < 150; ++i)
    lowest = std::min(lowest, logits[sampleOne(sampler, logits)]);
  EXPECT_GE(lowest, sorted[nucleus - 1]);
  EXPECT_LT(lowest, sorted[nucleus * 9 / 10]);
}

TEST(Sampler, SeedDecides) {
  auto draw = [](uint64_t seed) {
    SamplerParams params = unfiltered();
    params.seed = seed;
    Sampler sampler = make(params);
    std::vector<int32_t> ids;
    for (int i = 0; i < 40; ++i)
      ids.push_back(sampleOne(sampler, std::vector<float>(50, 0.0f)));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Sampler, RepetitionPenalty) {
  Sampler sampler =
      make({.repetitionPenalty = 2, .repetitionWindow = 2, .temperature = 0});
  std::vector<float> logits = {3, 2, -1};
  EXPECT_EQ(sampleOne(sampler, logits), 0);
  sampler.accept(0); // The penalty gives 3 / 2 < 2.
  EXPECT_EQ(sampleOne(sampler, logits), 1);
  sampler.accept(0); // A second occurrence changes nothing.
  EXPECT_EQ(sampleOne(sampler, {3, 1.4f, -1}), 0);
  sampler.accept(1);
  sampler.accept(1); // Both fill the window, so that 0 is forgotten.
  EXPECT_EQ(sampleOne(sampler, logits), 0);
  sampler.accept(2); // A negative logit is multiplied: -1 becomes -2.
  EXPECT_EQ(sampleOne(sampler, {-5, -6, -2.4f}), 2);
  EXPECT_EQ(sampleOne(sampler, {-5, -6, -2.6f}), 0);
  sampler.accept(-1);
  sampler.accept(1000);
  EXPECT_EQ(sampleOne(sampler, logits), 0) << "unknown ids penalise nothing";
}

TEST(Sampler, PresenceAndFrequencyCountWhatWasGenerated) {
  Sampler sampler = make({.presencePenalty = 1, .temperature = 0});
  sampler.acceptPrompt(0);
  EXPECT_EQ(sampleOne(sampler, {3, 2.5f, 0}), 0) << "the prompt is no text";
  sampler.accept(0); // The penalty gives 3 - 1 < 2.5.
  EXPECT_EQ(sampleOne(sampler, {3, 2.5f, 0}), 1);
  // The penalty does not depend on the number of occurrences.
  sampler.accept(0);
  EXPECT_EQ(sampleOne(sampler, {3.6f, 2.5f, 0}), 0);

  Sampler counts = make({.frequencyPenalty = 1, .temperature = 0});
  for (int32_t id : {0, 0, 1})
    counts.accept(id);
  EXPECT_EQ(sampleOne(counts, {3, 2.1f, 0}), 1); // After penalties: 1, 1.1.
  // After penalties: 1.2, 1.1.
  EXPECT_EQ(sampleOne(counts, {3.2f, 2.1f, 0}), 0);
  // Negative ones repeat; unknown ids change nothing.
  Sampler repeats = make({.frequencyPenalty = -1, .temperature = 0});
  for (int32_t id : {2, 2, 2, -1, 1000})
    repeats.accept(id);
  EXPECT_EQ(sampleOne(repeats, {2, 1, 0}), 2);
}

TEST(Sampler, AStateHasWhatWasGenerated) {
  SamplerParams params{.frequencyPenalty = 1, .temperature = 0};
  Sampler first = make(params), second = make(params);
  first.accept(0);
  first.acceptPrompt(1);
  second.accept(1);
  second.resume(first.state());
  EXPECT_EQ(sampleOne(second, {1.5f, 1, 0}), 1);
  EXPECT_EQ(second.state().generated, first.state().generated);
}

TEST(Sampler, BiasIsAddedFirst) {
  Sampler sampler = make({.logitBias = {{1, 5}, {2, -100}, {77, 3}, {-5, 3}},
                          .repetitionPenalty = 2,
                          .temperature = 0});
  EXPECT_EQ(sampleOne(sampler, {3, 0, 90}), 1);
  sampler.accept(1); // The logit 3 is greater than (0 + 5) / 2.
  EXPECT_EQ(sampleOne(sampler, {3, 0, 90}), 0);
  // Excluded tokens stay excluded, and extremes finite.
  Sampler extreme = make({.logitBias = {{0, 3e38f}, {1, 3e38f}}});
  EXPECT_EQ(sampleOne(extreme, {-infinity, 3e38f, 0}), 1);
}

TEST(Sampler, OnlyAllowedTokensAreChosen) {
  std::vector<float> logits(130, 0);
  logits[3] = 50;
  logits[65] = 20;
  logits[129] = 19;
  const std::vector<uint64_t> allowed = {0, 2 | 4, 2};
  Sampler greedy = make({.temperature = 0});
  auto id = greedy.sample(logits, allowed);
  ASSERT_TRUE(id.isOk());
  EXPECT_EQ(*id, 65);
  SamplerParams params = unfiltered();
  params.temperature = 100;
  Sampler any = make(params);
  std::map<int32_t, int> counts;
  for (int i = 0; i < 1000; ++i)
    ++counts[*any.sample(logits, allowed)];
  EXPECT_THAT(idsOf(counts), testing::ElementsAre(65, 66, 129));
  // Words beyond the mask allow nothing; a mask that leaves nothing fails.
  EXPECT_EQ(*greedy.sample(logits, std::vector<uint64_t>{1}), 0);
  for (const std::vector<uint64_t> &none :
       {std::vector<uint64_t>{0, 0, 0}, std::vector<uint64_t>{0}}) {
    auto failure = greedy.sample(logits, none);
    ASSERT_FALSE(failure.isOk());
    EXPECT_EQ(failure.status().code(), StatusCode::Unsupported);
  }
  logits[0] = -infinity;
  EXPECT_FALSE(greedy.sample(logits, std::vector<uint64_t>{1}).isOk());
  logits[5] = nan;
  EXPECT_EQ(greedy.sample(logits, allowed).status().code(),
            StatusCode::Internal);
}

// The softmax in double precision.
TEST(Logprobs, AreThoseOfTheSoftmax) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 30);
  std::vector<float> logits(5000);
  for (float &logit : logits)
    logit = normal(random);
  logits[7] = -infinity;
  logits[8] = logits[9] = 200;
  long double sum = 0;
  for (float logit : logits)
    sum += std::exp(static_cast<long double>(logit) - 200);
  Logprobs logprobs(logits);
  for (int32_t id : {0, 8, 9, 100, 4999}) {
    double expected = double(logits[size_t(id)] - 200 - std::log(sum));
    EXPECT_NEAR(logprobs.of(id), expected, 1e-6 * std::abs(expected)) << id;
  }
  EXPECT_EQ(logprobs.of(7), -infinity);
  auto top = logprobs.top(5);
  ASSERT_EQ(top.size(), 5u);
  EXPECT_EQ(top[0].first, 8);
  EXPECT_EQ(top[1].first, 9);
  for (size_t i = 1; i < top.size(); ++i) {
    EXPECT_LE(top[i].second, top[i - 1].second);
    EXPECT_EQ(top[i].second, logprobs.of(top[i].first));
  }
  EXPECT_TRUE(logprobs.top(0).empty());
  EXPECT_EQ(Logprobs(std::span(logits).first(3)).top(9).size(), 3u);
}

// Exponentials of these would overflow or vanish.
TEST(Logprobs, OfExtremeLogits) {
  std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_NEAR(Logprobs(logits).of(0), -std::log(2.0), 1e-6);
  std::vector<float> small = {-1e30f, -1e30f};
  EXPECT_NEAR(Logprobs(small).of(1), -std::log(2.0), 1e-6);
}

TEST(Sampler, ExtremePenaltiesStayFinite) {
  for (float penalty : {1e-38f, 1e38f}) {
    SamplerParams params = unfiltered();
    params.repetitionPenalty = penalty;
    Sampler sampler = make(params);
    sampler.accept(0);
    sampler.accept(1);
    EXPECT_GE(sampleOne(sampler, {10, -10}), 0);
  }
}

TEST(Sampler, DamagedLogitsAreErrors) {
  for (float temperature : {0.0f, 0.8f}) {
    Sampler sampler = make({.temperature = temperature});
    auto message = [&](const std::vector<float> &logits) {
      StatusOr<int32_t> id = sampler.sample(logits);
      EXPECT_FALSE(id);
      EXPECT_EQ(id.status().code(), StatusCode::Internal);
      return id.status().message();
    };
    EXPECT_THAT(message({0, 1, nan}), HasSubstr("token 2 is nan"));
    EXPECT_THAT(message({infinity, 1}), HasSubstr("token 0 is inf"));
    EXPECT_THAT(message({-infinity, -infinity}), HasSubstr("none of the 2"));
    EXPECT_THAT(message({}), HasSubstr("none of the 0"));
  }
}

TEST(Sampler, ExcludedTokensAreNeverDrawn) {
  EXPECT_THAT(idsOf(histogram(unfiltered(), {-infinity, 0, -infinity, 0}, 500)),
              testing::ElementsAre(1, 3));
}

TEST(Sampler, ParametersOutOfRange) {
  auto message = [](const SamplerParams &params) {
    StatusOr<Sampler> sampler = Sampler::create(params);
    EXPECT_FALSE(sampler);
    EXPECT_EQ(sampler.status().code(), StatusCode::Usage);
    return sampler.status().message();
  };
  for (float bad : {-1.0f, nan, infinity})
    EXPECT_THAT(message({.temperature = bad}), HasSubstr("temperature is"));
  for (float bad : {0.0f, -1.0f, nan, infinity})
    EXPECT_THAT(message({.repetitionPenalty = bad}),
                HasSubstr("repetition penalty is"));
  for (float bad : {nan, infinity, -infinity}) {
    EXPECT_THAT(message({.presencePenalty = bad}),
                HasSubstr("presence penalty is"));
    EXPECT_THAT(message({.frequencyPenalty = bad}),
                HasSubstr("frequency penalty is"));
    EXPECT_THAT(message({.logitBias = {{17, bad}}}),
                HasSubstr("logit bias of token 17 is"));
  }
  for (float bad : {0.0f, 1.5f, -0.1f, nan})
    EXPECT_THAT(message({.topP = bad}), HasSubstr("top-p is"));
  for (float bad : {-0.1f, 1.5f, nan})
    EXPECT_THAT(message({.minP = bad}), HasSubstr("min-p is"));
  EXPECT_THAT(message({.repetitionWindow = UINT32_MAX}),
              HasSubstr("repetition window is 4294967295"));
}

} // namespace
