//===- Sampler.cpp --------------------------------------------------------===//

#include "runtime/text/Sampler.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace moert {
namespace {

constexpr float minusInfinity = -std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

/// Orders the best candidates first. Ids decide between equals, so the order is
/// total and does not depend on the library's selection algorithm.
struct IsBetter {
  template <typename Candidate>
  bool operator()(const Candidate &a, const Candidate &b) const {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
};

/// Returns the id of the largest logit, the lowest among equals, if all logits
/// are valid.
StatusOr<int32_t> checkedBest(std::span<const float> logits) {
  float best = minusInfinity;
  size_t bestId = logits.size();
  for (size_t id = 0; id < logits.size(); ++id) {
    // The comparison is also true for NaN.
    if (!(logits[id] <= best)) {
      if (!(logits[id] <= largest))
        return Status(StatusCode::Internal,
                      fmt::format("the logit of token {} is {}; the model's "
                                  "weights or a kernel are damaged",
                                  id, logits[id]));
      best = logits[id];
      bestId = id;
    }
  }
  if (bestId == logits.size())
    return Status(StatusCode::Internal,
                  fmt::format("none of the {} logits is above minus infinity, "
                              "so there is no token to choose",
                              logits.size()));
  return static_cast<int32_t>(bestId);
}

/// An extreme bias or penalty must not turn a finite logit into an infinite
/// one.
float finite(double logit) {
  return static_cast<float>(
      std::clamp(logit, -double(largest), double(largest)));
}

/// Excludes the tokens whose bit is not set. Returns whether any is left.
bool keepAllowed(std::span<const uint64_t> allowed, std::span<float> logits) {
  bool isAnyLeft = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    bool isAllowed =
        id / 64 < allowed.size() && (allowed[id / 64] >> (id % 64) & 1) != 0;
    if (!isAllowed)
      logits[id] = minusInfinity;
    isAnyLeft |= logits[id] > minusInfinity;
  }
  return isAnyLeft;
}

Status outOfRange(std::string_view name, float value, std::string_view range) {
  return {StatusCode::Usage,
          fmt::format("{} is {}; expected {}", name, value, range)};
}

} // namespace

StatusOr<Sampler> Sampler::create(const SamplerParams &params) {
  // The comparisons are false for NaN.
  if (!(params.repetitionPenalty > 0) ||
      !std::isfinite(params.repetitionPenalty))
    return outOfRange("repetition penalty", params.repetitionPenalty,
                      "a finite number above 0 (1 is off)");
  if (params.repetitionWindow > 1u << 20)
    return Status(StatusCode::Usage,
                  fmt::format("repetition window is {}; expected at most {} "
                              "tokens",
                              params.repetitionWindow, 1u << 20));
  for (auto [id, bias] : params.logitBias)
    if (!std::isfinite(bias))
      return outOfRange(fmt::format("logit bias of token {}", id), bias,
                        "a finite number");
  if (!std::isfinite(params.presencePenalty))
    return outOfRange("presence penalty", params.presencePenalty,
                      "a finite number (0 is off)");
  if (!std::isfinite(params.frequencyPenalty))
    return outOfRange("frequency penalty", params.frequencyPenalty,
                      "a finite number (0 is off)");
  if (!(params.topP > 0 && params.topP <= 1))
    return outOfRange("top-p", params.topP,
                      "a number above 0 and at most 1 (1 is off)");
  if (!(params.minP >= 0 && params.minP <= 1))
    return outOfRange("min-p", params.minP, "a number from 0 to 1 (0 is off)");
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature))
    return outOfRange("temperature", params.temperature,
                      "a finite number of at least 0 (0 is greedy)");
  return Sampler(params);
}

Sampler::Sampler(const SamplerParams &params)
    : params_(params), random_(params.seed) {}

void Sampler::accept(int32_t id) {
  acceptPrompt(id);
  if (params_.presencePenalty != 0 || params_.frequencyPenalty != 0)
    ++generated_[id];
}

void Sampler::acceptPrompt(int32_t id) {
  if (recent_.size() < params_.repetitionWindow) {
    recent_.push_back(id);
  } else if (!recent_.empty()) {
    recent_[nextRecent_] = id;
    nextRecent_ = (nextRecent_ + 1) % recent_.size();
  }
}

Sampler::State Sampler::state() const {
  State state{random_.state(), {}, generated_};
  for (size_t i = 0; i < recent_.size(); ++i)
    state.recent.push_back(recent_[(nextRecent_ + i) % recent_.size()]);
  return state;
}

void Sampler::resume(const State &state) {
  random_ = SplitMix64(state.random);
  recent_.clear();
  nextRecent_ = 0;
  for (int32_t id : state.recent)
    acceptPrompt(id);
  generated_ = state.generated;
}

bool Sampler::changesLogits() const {
  return !params_.logitBias.empty() || !generated_.empty() ||
         (params_.repetitionPenalty != 1.0f && !recent_.empty());
}

void Sampler::change(std::span<const float> logits) {
  changed_.assign(logits.begin(), logits.end());
  auto add = [&](int32_t id, double amount) {
    if (id < 0 || static_cast<size_t>(id) >= changed_.size())
      return;
    float &logit = changed_[static_cast<size_t>(id)];
    if (logit > minusInfinity)
      logit = finite(logit + amount);
  };
  for (auto [id, bias] : params_.logitBias)
    add(id, bias);
  if (params_.repetitionPenalty != 1.0f)
    applyRepetitionPenalty();
  for (auto [id, count] : generated_)
    add(id,
        -(params_.presencePenalty + double(count) * params_.frequencyPenalty));
}

void Sampler::applyRepetitionPenalty() {
  // Applied once per distinct token, however often it occurred.
  std::vector<int32_t> distinct = recent_;
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  for (int32_t id : distinct) {
    if (id < 0 || static_cast<size_t>(id) >= changed_.size())
      continue;
    float &logit = changed_[static_cast<size_t>(id)];
    double scaled = logit > 0 ? double(logit) / params_.repetitionPenalty
                              : double(logit) * params_.repetitionPenalty;
    if (logit > minusInfinity)
      logit = finite(scaled);
  }
}

void Sampler::sortFirst(size_t count) {
  count = std::min(count, candidates_.size());
  if (count <= sorted_)
    return;
  auto begin = candidates_.begin() + static_cast<ptrdiff_t>(sorted_);
  auto middle = candidates_.begin() + static_cast<ptrdiff_t>(count);
  if (middle != candidates_.end())
    std::nth_element(begin, middle, candidates_.end(), IsBetter{});
  std::sort(begin, middle, IsBetter{});
  sorted_ = count;
}

void Sampler::keepTopK(std::span<const float> logits) {
  size_t count = params_.topK == 0 ? logits.size() : params_.topK;
  // With room for twice as many, a linear-time selection happens at most once
  // per `count` candidates. A logit that does not exceed the threshold loses
  // against `count` candidates that are better, or equal with a lower id.
  float threshold = minusInfinity;
  candidates_.clear();
  sorted_ = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!(logits[id] > threshold))
      continue;
    candidates_.push_back({logits[id], static_cast<int32_t>(id)});
    if (candidates_.size() == 2 * count) {
      auto last = candidates_.begin() + static_cast<ptrdiff_t>(count) - 1;
      std::nth_element(candidates_.begin(), last, candidates_.end(),
                       IsBetter{});
      threshold = last->logit;
      candidates_.resize(count);
    }
  }
  if (candidates_.size() > count) {
    sortFirst(count);
    candidates_.resize(count);
  }
}

void Sampler::keepTopP(float best) {
  if (params_.topP >= 1)
    return;
  double total = 0;
  for (const Candidate &candidate : candidates_)
    total += std::exp(candidate.logit - best);

  // All n candidates of weight below (1 - p) * total / n together weigh less
  // than may be left out, so none of them is needed. (Half of that, as a margin
  // for rounding.)
  double negligible = 0.5 * (1 - double(params_.topP)) * total /
                      static_cast<double>(candidates_.size());
  double least = best + std::log(negligible);
  if (sorted_ == 0)
    std::erase_if(candidates_,
                  [&](const Candidate &c) { return c.logit < least; });

  // Sort only as far as the nucleus reaches.
  double enough = params_.topP * total;
  double sum = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i == sorted_)
      sortFirst(std::max<size_t>(64, 4 * sorted_));
    sum += std::exp(candidates_[i].logit - best);
    if (sum >= enough) {
      candidates_.resize(i + 1);
      sorted_ = i + 1;
      return;
    }
  }
}

void Sampler::keepMinP(float best) {
  if (params_.minP <= 0)
    return;
  // p >= minP * pMax  <=>  logit >= logitMax + ln(minP).
  double least = best + std::log(double(params_.minP));
  std::erase_if(candidates_,
                [&](const Candidate &c) { return c.logit < least; });
}

int32_t Sampler::draw(float best) {
  double total = 0;
  for (Candidate &candidate : candidates_) {
    // From here on, `logit` holds the weight.
    candidate.logit = static_cast<float>(
        std::exp((double(candidate.logit) - best) / params_.temperature));
    total += candidate.logit;
  }
  double target = random_.nextUnit() * total;
  int32_t chosen = -1;
  for (const Candidate &candidate : candidates_) {
    if (candidate.logit == 0)
      continue;
    // The last one remains if rounding leaves some of `target`.
    chosen = candidate.id;
    target -= candidate.logit;
    if (target < 0)
      break;
  }
  return chosen;
}

StatusOr<int32_t> Sampler::sample(std::span<const float> logits,
                                  std::span<const uint64_t> allowed) {
  MOE_ASSIGN_OR_RETURN(int32_t bestId, checkedBest(logits));
  const bool changes = changesLogits();
  if (changes)
    change(logits);
  if (!allowed.empty()) {
    if (!changes)
      changed_.assign(logits.begin(), logits.end());
    if (!keepAllowed(allowed, changed_))
      return Status(StatusCode::Unsupported,
                    "none of the tokens that are allowed next can be chosen: "
                    "the model excludes all of them");
  }
  if (changes || !allowed.empty()) {
    logits = changed_;
    MOE_ASSIGN_OR_RETURN(bestId, checkedBest(logits));
  }
  if (params_.temperature == 0)
    return bestId;
  float best = logits[bestId];
  keepTopK(logits);
  keepTopP(best);
  keepMinP(best);
  return draw(best);
}

} // namespace moert
