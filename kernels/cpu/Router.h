//===- Router.h - Selection and mixing weights of experts -------*- C++ -*-===//

#ifndef MOE_KERNELS_CPU_ROUTER_H
#define MOE_KERNELS_CPU_ROUTER_H

#include "kernels/Abi.h"
#include "kernels/Scratch.h"
#include "kernels/cpu/Simd.h"

#include <cmath>
#include <limits>

namespace moek {

/// Scores are double, because in float all sigmoids above 17 are equal. NaNs
/// rank last, where no choice would reveal them, so `poison` carries them into
/// the weights.
template <class S> class TokenRouter {
public:
  TokenRouter(const RouterArgs &args, std::byte *scratch)
      : a(args), score(reinterpret_cast<double *>(scratch)),
        rank(score + scratchFloats(args.experts)),
        groupRank(rank + scratchFloats(args.experts)) {}

  void route(const float *logits, int32_t *ids, float *weights) {
    scoreAll(logits);
    poison = 0;
    for (int32_t e = 0; e < a.experts; ++e) {
      double bias = a.bias ? double(a.bias[e]) : 0;
      rank[e] = ordered(score[e] + bias);
      poison += 0 * (double(logits[e]) + bias);
    }
    if (a.groups > 1)
      dropGroups();
    selectBest(rank, a.experts, a.topK,
               [&](int32_t choice, int32_t e) { ids[choice] = e; });
    mix(logits, ids, weights);
  }

  /// Routes a token to the experts `chosen`, if these are valid and distinct.
  void routeTo(const int32_t *chosen, const float *logits, int32_t *ids,
               float *weights) {
    scoreAll(logits);
    poison = 0;
    for (int32_t e = 0; e < a.experts; ++e) {
      poison += 0 * double(logits[e]);
      rank[e] = 0;
    }
    bool valid = true;
    for (int32_t j = 0; j < a.topK; ++j) {
      valid &= chosen[j] >= 0 && chosen[j] < a.experts;
      valid = valid && ++rank[chosen[j]] == 1;
    }
    if (!valid)
      poison = std::numeric_limits<double>::quiet_NaN();
    for (int32_t j = 0; j < a.topK; ++j)
      ids[j] = valid ? chosen[j] : j;
    mix(logits, ids, weights);
  }

private:
  void scoreAll(const float *logits) {
    if (a.scoring == Scoring::Softmax)
      return softmax(logits, a.experts, [](int32_t e) { return e; });
    for (int32_t e = 0; e < a.experts; ++e) {
      double x = double(logits[e]);
      score[e] = a.scoring == Scoring::Sigmoid ? 1 / (1 + std::exp(-x))
                 : a.scoring == kSqrtSoftplus  ? std::sqrt(softplusOf(x))
                                               : x;
    }
  }
  /// ln(1 + e^x)
  static double softplusOf(double x) {
    return (x > 0 ? x : 0) + std::log1p(std::exp(x > 0 ? -x : x));
  }

  /// The lowest rank of an expert that may be chosen, and the rank of others.
  static constexpr double kLowest = std::numeric_limits<double>::lowest();
  static constexpr double kDropped = -std::numeric_limits<double>::infinity();

  static double ordered(double x) { return x >= kLowest ? x : kLowest; }

  /// score[at(i)] = softmax of logits[at(i)] over i < n.
  template <class At> void softmax(const float *logits, int32_t n, At at) {
    double most = kDropped, sum = 0;
    for (int32_t i = 0; i < n; ++i)
      most = logits[at(i)] > most ? double(logits[at(i)]) : most;
    for (int32_t i = 0; i < n; ++i)
      sum += score[at(i)] = std::exp(double(logits[at(i)]) - most);
    for (int32_t i = 0; i < n; ++i)
      score[at(i)] /= sum;
  }

  /// Calls take(i, index) for the `n` largest of `values` in descending order
  /// (equal ones by ascending index) and marks them as taken. If fewer are
  /// left, it takes dropped ones that were not taken before, so that indices
  /// stay distinct.
  template <class Take>
  void selectBest(double *values, int32_t count, int32_t n, Take take) {
    constexpr double kTaken = std::numeric_limits<double>::quiet_NaN();
    for (int32_t i = 0; i < n; ++i) {
      int32_t best = -1;
      for (int32_t e = 0; e < count; ++e)
        if (values[e] == values[e] && (best < 0 || values[e] > values[best]))
          best = e;
      take(i, best);
      values[best] = kTaken;
    }
  }

  /// Drops the experts outside the `groupsUsed` best groups.
  void dropGroups() {
    int32_t size = a.experts / a.groups;
    for (int32_t g = 0; g < a.groups; ++g) {
      double first = kDropped, second = kDropped;
      for (int32_t e = g * size; e < (g + 1) * size; ++e)
        if (rank[e] > first) {
          second = first;
          first = rank[e];
        } else if (rank[e] > second) {
          second = rank[e];
        }
      groupRank[g] = a.groupBest > 1 ? ordered(first + second) : first;
    }
    selectBest(groupRank, a.groups, a.groupsUsed, [](int32_t, int32_t) {});
    for (int32_t g = 0; g < a.groups; ++g)
      if (groupRank[g] == groupRank[g]) // A NaN marks a group that was taken.
        for (int32_t e = g * size; e < (g + 1) * size; ++e)
          rank[e] = kDropped;
  }

  void mix(const float *logits, const int32_t *ids, float *weights) {
    if (a.scoring == Scoring::SoftmaxTopK)
      softmax(logits, a.topK, [&](int32_t i) { return ids[i]; });
    if (a.scoring == kSparseMixer)
      mixSparsely(logits, ids);
    double sum = 0;
    for (int32_t j = 0; j < a.topK; ++j)
      sum += score[ids[j]];
    double factor = a.normalize ? double(a.scale) / sum : double(a.scale);
    for (int32_t j = 0; j < a.topK; ++j)
      weights[j] = float(score[ids[j]] * factor * expertScale(ids[j]) + poison);
  }

  /// score[ids[j]] = the weight of choice j (kSparseMixer). Ranks are free now:
  /// they mark the experts that are left.
  void mixSparsely(const float *logits, const int32_t *ids) {
    for (int32_t e = 0; e < a.experts; ++e)
      rank[e] = 1;
    for (int32_t j = 0; j < a.topK; ++j) {
      const double best = logits[ids[j]];
      double sum = 0;
      for (int32_t e = 0; e < a.experts; ++e) {
        const double x = logits[e], size = std::fabs(x);
        bool isFar = (best - x) / (size > best ? size : best) > kMixerShare;
        if (rank[e] == 1 && !isFar)
          sum += std::exp(x - best);
      }
      score[ids[j]] = 1 / sum;
      rank[ids[j]] = 0;
    }
  }

  double expertScale(int32_t e) const {
    return a.expertScale ? double(a.expertScale[e]) : 1;
  }

  const RouterArgs &a;
  double *score, *rank, *groupRank;
  double poison = 0; ///< NaN if a logit or a bias is not finite, else 0.
};

template <class S>
void run(const RouterArgs &a, const Step &step, const Worker &worker) {
  TokenRouter<S> router(a, worker.scratch);
  Range tokens = shareOf(step.tokens, 1, worker);
  for (int64_t t = tokens.begin; t < tokens.end; ++t)
    router.route(a.logits + t * a.stride, a.ids + t * a.topK,
                 a.weights + t * a.topK);
}

template <class S>
void run(const HashRouterArgs &a, const Step &step, const Worker &worker) {
  RouterArgs r{};
  r.logits = a.logits, r.stride = a.stride, r.expertScale = a.expertScale;
  r.ids = a.ids, r.weights = a.weights;
  r.experts = a.experts, r.topK = a.topK, r.scoring = a.scoring;
  r.normalize = a.normalize, r.scale = a.scale;
  TokenRouter<S> router(r, worker.scratch);
  Range tokens = shareOf(step.tokens, 1, worker);
  for (int64_t t = tokens.begin; t < tokens.end; ++t)
    router.routeTo(a.table + int64_t(a.tokens[t]) * a.topK,
                   a.logits + t * a.stride, a.ids + t * a.topK,
                   a.weights + t * a.topK);
}

/// Returns how many of `topK` weights are ranked before that of choice `j`.
/// Each choice gets a different number, whatever the weights are.
template <class S>
int32_t placeByWeight(const float *weights, int32_t topK, int32_t j) {
  auto sorted = [](float x) {
    return x == x ? x : -std::numeric_limits<float>::infinity();
  };
  float own = sorted(weights[j]);
  int32_t before = 0;
  for (int32_t i = 0; i < topK; ++i) {
    float other = sorted(weights[i]);
    before += other > own || (other == own && i < j);
  }
  return before;
}

template <class S>
void run(const SplitChoicesArgs &a, const Step &step, const Worker &worker) {
  Range tokens = shareOf(step.tokens, 1, worker);
  int32_t first = a.topK - a.last;
  for (int64_t t = tokens.begin; t < tokens.end; ++t) {
    const float *weights = a.weights + t * a.topK;
    for (int32_t j = 0; j < a.topK; ++j) {
      int32_t place = placeByWeight<S>(weights, a.topK, j);
      bool isFirst = place < first;
      int64_t at = isFirst ? t * first + place : t * a.last + place - first;
      (isFirst ? a.firstIds : a.lastIds)[at] = a.ids[t * a.topK + j];
      (isFirst ? a.firstWeights : a.lastWeights)[at] = weights[j];
    }
  }
}

} // namespace moek

#endif // MOE_KERNELS_CPU_ROUTER_H
