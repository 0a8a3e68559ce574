#include "test/kernels/KernelTest.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(RouterTest, Router);
MOE_KERNEL_SUITE(SplitChoicesTest, SplitChoices);

struct Routing {
  int32_t experts, topK, groups = 1, groupsUsed = 1, groupBest = 1;
  Scoring scoring = Scoring::Softmax;
  bool bias = false, normalize = false;
  float scale = 1;
  bool expertScale = false; ///< Explained at scaleOf().
};

float scaleOf(int expert) { return 0.5f + 0.25f * float(expert); }

struct Choice {
  std::vector<int> ids;
  std::vector<double> weights;
};

/// Computes the choice as the architectures' papers define it, in float64.
Choice expectedChoice(const Routing &s, const float *logits,
                      const float *bias) {
  std::vector<double> score(static_cast<size_t>(s.experts));
  std::vector<double> select = score;
  double most = *std::max_element(logits, logits + s.experts), sum = 0;
  for (int e = 0; e < s.experts; ++e)
    sum += std::exp(logits[e] - most);
  for (int e = 0; e < s.experts; ++e) {
    score[e] = s.scoring == Scoring::Sigmoid ? 1 / (1 + std::exp(-logits[e]))
               : s.scoring == Scoring::Softmax
                   ? std::exp(logits[e] - most) / sum
               : s.scoring == kSqrtSoftplus
                   ? std::sqrt(std::log1p(std::exp(double(logits[e]))))
                   : logits[e];
    select[e] = score[e] + (s.bias ? bias[e] : 0);
  }
  if (s.groups > 1) {
    int size = s.experts / s.groups;
    std::vector<std::pair<double, int>> order;
    for (int g = 0; g < s.groups; ++g) {
      std::vector<double> in(select.begin() + g * size,
                             select.begin() + (g + 1) * size);
      std::sort(in.rbegin(), in.rend());
      order.emplace_back(-(s.groupBest > 1 ? in[0] + in[1] : in[0]), g);
    }
    std::sort(order.begin(), order.end());
    for (int i = s.groupsUsed; i < s.groups; ++i)
      for (int e = 0; e < size; ++e)
        select[order[i].second * size + e] = -INFINITY;
  }
  std::vector<int> order(static_cast<size_t>(s.experts));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return select[a] > select[b]; });
  Choice c;
  double total = 0, topSum = 0;
  for (int j = 0; j < s.topK; ++j) {
    c.ids.push_back(order[j]);
    topSum += std::exp(score[order[j]] - score[order[0]]);
  }
  for (int e : c.ids)
    c.weights.push_back(s.scoring == Scoring::SoftmaxTopK
                            ? std::exp(score[e] - score[c.ids[0]]) / topSum
                            : score[e]);
  for (double w : c.weights)
    total += w;
  for (double &w : c.weights)
    w = (s.normalize ? w / total : w) * s.scale;
  for (size_t j = 0; s.expertScale && j < c.ids.size(); ++j)
    c.weights[j] *= scaleOf(c.ids[j]);
  return c;
}

void check(const KernelInfo &kernel, const Routing &s, int32_t tokens) {
  Random random(7);
  Matrix<float> logits(tokens, s.experts, 5), bias(1, s.experts);
  logits.fill(random, 2);
  bias.fill(random, 0.3f);
  Matrix<int32_t> ids(tokens, s.topK);
  Matrix<float> weights(tokens, s.topK);
  RouterArgs args{logits.data(), logits.stride, s.bias ? bias.data() : nullptr,
                  nullptr,       ids.data(),    weights.data(),
                  s.experts,     s.topK,        s.groups,
                  s.groupsUsed,  s.groupBest,   s.scoring,
                  s.normalize,   s.scale};
  Matrix<float> expertScale(1, s.experts);
  for (int32_t e = 0; e < s.experts; ++e)
    expertScale.at(0, e) = scaleOf(e);
  if (s.expertScale)
    args.expertScale = expertScale.data();
  runKernel(kernel, &args, {tokens, 3}, size_t(routerScratchBytes(s.experts)),
            {&ids, &weights});
  std::vector<Choice> want;
  for (int32_t t = 0; t < tokens; ++t) {
    want.push_back(expectedChoice(s, logits.row(t), bias.data()));
    for (int32_t j = 0; j < s.topK; ++j)
      ASSERT_EQ(ids.at(t, j), want.back().ids[size_t(j)])
          << "token " << t << ", choice " << j;
  }
  expectClose(weights, [&](int64_t t, int64_t j) {
    double w = want[size_t(t)].weights[size_t(j)];
    return Wanted{w, 16 * kEps * std::fabs(w)};
  });
}

TEST_P(RouterTest, SoftmaxPicksTheLargest) {
  check(GetParam(), {.experts = 64, .topK = 6}, 9);
  check(GetParam(), {.experts = 7, .topK = 7}, 2);
  check(GetParam(), {.experts = 1, .topK = 1}, 1);
}

TEST_P(RouterTest, ScaleMultipliesWeights) {
  check(GetParam(), {.experts = 64, .topK = 6, .scale = 16}, 3);
}

TEST_P(RouterTest, ScalesOfExpertsMultiplyNormalizedWeights) {
  check(GetParam(),
        {.experts = 32, .topK = 4, .normalize = true, .expertScale = true}, 5);
}

TEST_P(RouterTest, NormalizedWeightsAddUpToTheScale) {
  check(GetParam(),
        {.experts = 32, .topK = 4, .normalize = true, .scale = 2.5f}, 5);
}

TEST_P(RouterTest, BiasSelectsButDoesNotWeigh) {
  Routing s{
      .experts = 32, .topK = 6, .scoring = Scoring::Sigmoid, .bias = true};
  check(GetParam(), s, 8);
  s.normalize = true;
  check(GetParam(), s, 8);
  s.scoring = Scoring::Softmax;
  check(GetParam(), s, 8);
}

TEST_P(RouterTest, GroupsCompeteByTheirBest) {
  check(GetParam(),
        {.experts = 160, .topK = 6, .groups = 8, .groupsUsed = 3, .scale = 16},
        9);
}

TEST_P(RouterTest, GroupsCompeteByTheirBestTwo) {
  check(GetParam(),
        {.experts = 256,
         .topK = 8,
         .groups = 8,
         .groupsUsed = 4,
         .groupBest = 2,
         .scoring = Scoring::Sigmoid,
         .bias = true,
         .normalize = true,
         .scale = 2.5f},
        9);
  check(
      GetParam(),
      {.experts = 64, .topK = 4, .groups = 8, .groupsUsed = 2, .groupBest = 2},
      9);
}

TEST_P(RouterTest, SoftmaxTopKIsOverTheSelected) {
  check(GetParam(), {.experts = 8, .topK = 2, .scoring = Scoring::SoftmaxTopK},
        5);
}

TEST_P(RouterTest, SquareRootsOfSoftplus) {
  check(GetParam(),
        {.experts = 9,
         .topK = 3,
         .scoring = kSqrtSoftplus,
         .bias = true,
         .normalize = true,
         .scale = 1.5f},
        6);
}

/// Runs one token and returns its choice.
Choice route(const KernelInfo &kernel, const Routing &s,
             const std::vector<float> &logits) {
  Matrix<int32_t> ids(1, s.topK);
  Matrix<float> weights(1, s.topK);
  RouterArgs args{logits.data(), s.experts,      nullptr,     nullptr,
                  ids.data(),    weights.data(), s.experts,   s.topK,
                  s.groups,      s.groupsUsed,   s.groupBest, s.scoring,
                  s.normalize,   s.scale};
  runKernel(kernel, &args, {1, 0}, size_t(routerScratchBytes(s.experts)),
            {&ids, &weights});
  return {{ids.data(), ids.data() + s.topK},
          {weights.data(), weights.data() + s.topK}};
}

TEST_P(RouterTest, TiesGoToTheLowerIndex) {
  Choice c = route(GetParam(), {.experts = 6, .topK = 3}, {1, 2, 2, 0, 2, 1});
  EXPECT_EQ(c.ids, (std::vector<int>{1, 2, 4}));
}

TEST_P(RouterTest, ASparseMixerWeighsAgainstWhatIsNear) {
  // 2 % of the larger size: 4.92 and 4.95 are near 5, 4.8 is near 4.9 only.
  const std::vector<float> logits{4.92f, -3, 5, 4.8f, 4.95f, 1, -5.2f, 0};
  auto total = [&](double best, std::initializer_list<int> near) {
    double sum = 0;
    for (int e : near)
      sum += std::exp(double(logits[size_t(e)]) - best);
    return sum;
  };
  Choice c = route(GetParam(),
                   {.experts = 8, .topK = 3, .scoring = kSparseMixer}, logits);
  EXPECT_EQ(c.ids, (std::vector<int>{2, 4, 0}));
  EXPECT_NEAR(c.weights[0], 1 / total(logits[2], {2, 4, 0}), 1e-6);
  EXPECT_NEAR(c.weights[1], 1 / total(logits[4], {4, 0}), 1e-6);
  EXPECT_NEAR(c.weights[2], 1 / total(logits[0], {0}), 1e-6);
  // Below 0, every logit is compared with a part of its own size.
  c = route(GetParam(), {.experts = 3, .topK = 1, .scoring = kSparseMixer},
            {-2, -2.01f, -2.1f});
  EXPECT_NEAR(c.weights[0], 1 / (1 + std::exp(-0.01)), 1e-6);
}

TEST_P(RouterTest, SigmoidsThatRoundToOneStillRank) {
  Choice c =
      route(GetParam(), {.experts = 4, .topK = 2, .scoring = Scoring::Sigmoid},
            {18, 19, 17, 20});
  EXPECT_EQ(c.ids, (std::vector<int>{3, 1}));
}

TEST_P(RouterTest, HugeLogitsDoNotOverflow) {
  Choice c = route(GetParam(), {.experts = 3, .topK = 2}, {3e38f, -3e38f, 0});
  EXPECT_EQ(c.ids[0], 0);
  EXPECT_EQ(c.weights[0], 1);
  EXPECT_EQ(c.weights[1], 0);
}

TEST_P(RouterTest, NaNsGiveValidDistinctIds) {
  for (Scoring scoring : {Scoring::Softmax, Scoring::Sigmoid,
                          Scoring::SoftmaxTopK, kSqrtSoftplus, kSparseMixer})
    for (int groups : {1, 4})
      for (unsigned mask = 1; mask < 256; mask = mask * 2 + 1) {
        std::vector<float> logits{1, 5, 2, 3, 0, 4, -INFINITY, 2};
        for (size_t e = 0; e < 8; ++e)
          if (mask >> e & 1)
            logits[e] = NAN;
        Choice c = route(GetParam(),
                         {.experts = 8,
                          .topK = 4,
                          .groups = groups,
                          .groupsUsed = 2,
                          .scoring = scoring},
                         logits);
        std::set<int> distinct(c.ids.begin(), c.ids.end());
        EXPECT_EQ(distinct.size(), 4u);
        EXPECT_GE(*distinct.begin(), 0);
        EXPECT_LT(*distinct.rbegin(), 8);
        for (double weight : c.weights)
          EXPECT_TRUE(std::isnan(weight));
      }
}

// Ranking a NaN last would silently choose among the other experts.
TEST_P(RouterTest, ANaNThatIsNotChosenMakesTheWeightsNaN) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    Choice c = route(GetParam(),
                     {.experts = 4, .topK = 2, .scoring = Scoring::Sigmoid},
                     {bad, 1, NAN, 2});
    EXPECT_TRUE(std::isnan(c.weights[0]) && std::isnan(c.weights[1]));
  }
}

/// The operands and results of a SplitChoices.
struct Split {
  Split(int32_t tokens, int32_t topK, int32_t last)
      : firstIds(tokens, topK - last), lastIds(tokens, last),
        firstWeights(tokens, topK - last), lastWeights(tokens, last) {}
  Matrix<int32_t> firstIds, lastIds;
  Matrix<float> firstWeights, lastWeights;

  void run(const KernelInfo &kernel, const Matrix<int32_t> &ids,
           const Matrix<float> &weights) {
    SplitChoicesArgs args{ids.data(),        weights.data(),
                          firstIds.data(),   firstWeights.data(),
                          lastIds.data(),    lastWeights.data(),
                          int32_t(ids.cols), int32_t(lastIds.cols)};
    runKernel(kernel, &args, {int32_t(ids.rows), 0}, 0,
              {&firstIds, &firstWeights, &lastIds, &lastWeights});
  }
  /// All choices of a token in order.
  std::vector<std::pair<int, float>> choices(int64_t token) const {
    std::vector<std::pair<int, float>> all;
    for (int64_t j = 0; j < firstIds.cols; ++j)
      all.emplace_back(firstIds.at(token, j), firstWeights.at(token, j));
    for (int64_t j = 0; j < lastIds.cols; ++j)
      all.emplace_back(lastIds.at(token, j), lastWeights.at(token, j));
    return all;
  }
};

TEST_P(SplitChoicesTest, TheLeastWeightsAreLast) {
  Random random(31);
  for (int32_t topK : {2, 8, 37})
    for (int32_t last : {1, topK / 2, topK - 1})
      for (int32_t tokens : {1, 9}) {
        Matrix<int32_t> ids(tokens, topK);
        Matrix<float> weights(tokens, topK);
        weights.fill(random);
        std::vector<std::vector<std::pair<int, float>>> want;
        for (int32_t t = 0; t < tokens; ++t) {
          for (int32_t j = 0; j < topK; ++j)
            ids.at(t, j) = random.below(1000);
          // Equal weights keep the router's order.
          weights.at(t, topK - 1) = weights.at(t, 0);
          auto &row = want.emplace_back();
          for (int32_t j = 0; j < topK; ++j)
            row.emplace_back(ids.at(t, j), weights.at(t, j));
          std::stable_sort(row.begin(), row.end(), [](auto &a, auto &b) {
            return a.second > b.second;
          });
        }
        Split split(tokens, topK, last);
        split.run(GetParam(), ids, weights);
        for (int32_t t = 0; t < tokens; ++t)
          EXPECT_EQ(split.choices(t), want[size_t(t)])
              << "token " << t << ", " << last << " of " << topK;
      }
}

// Ids are used as indices, so they must be valid whatever the weights are.
TEST_P(SplitChoicesTest, NaNsKeepEveryId) {
  for (unsigned mask = 1; mask < 64; ++mask) {
    Matrix<int32_t> ids(1, 6);
    Matrix<float> weights(1, 6);
    for (int32_t j = 0; j < 6; ++j) {
      ids.at(0, j) = 10 + j;
      weights.at(0, j) = mask >> j & 1 ? NAN : j % 2 ? -INFINITY : float(j);
    }
    Split split(1, 6, 2);
    split.run(GetParam(), ids, weights);
    std::set<int> kept;
    for (auto [id, weight] : split.choices(0)) {
      kept.insert(id);
      EXPECT_EQ(std::isnan(weight), bool(mask >> (id - 10) & 1));
    }
    EXPECT_EQ(kept, (std::set<int>{10, 11, 12, 13, 14, 15})) << mask;
  }
}

} // namespace
