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

/// Best first; ids decide between equals, so that the order is total and the
/// result the same whatever the library's selection algorithm.
struct IsBetter {
  template <typename Candidate>
  bool operator()(const Candidate &a, const Candidate &b) const {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
};

Status outOfRange(std::string_view name, float value, std::string_view range) {
  return {StatusCode::Usage,
          fmt::format("{} is {}; expected {}", name, value, range)};
}

} // namespace

StatusOr<Sampler> Sampler::create(const SamplerParams &params) {
  // Written so that NaN fails every check.
  if (!(params.repetitionPenalty > 0) ||
      !std::isfinite(params.repetitionPenalty))
    return outOfRange("repetition penalty", params.repetitionPenalty,
                      "a finite number above 0 (1 is off)");
  if (params.repetitionWindow > 1u << 20)
    return Status(StatusCode::Usage,
                  fmt::format("repetition window is {}; expected at most {} "
                              "tokens",
                              params.repetitionWindow, 1u << 20));
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
  if (recent_.size() < params_.repetitionWindow) {
    recent_.push_back(id);
  } else if (!recent_.empty()) {
    recent_[nextRecent_] = id;
    nextRecent_ = (nextRecent_ + 1) % recent_.size();
  }
}

/// Fills candidates_, indexed by id, and checks every logit.
Status Sampler::gather(std::span<const float> logits) {
  candidates_.resize(logits.size());
  bool anyLeft = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    float logit = logits[id];
    if (!(logit < std::numeric_limits<float>::infinity()))
      return {StatusCode::Internal,
              fmt::format("the logit of token {} is {}; the model's weights "
                          "or a kernel are damaged",
                          id, logit)};
    anyLeft |= logit > minusInfinity;
    candidates_[id] = {logit, static_cast<int32_t>(id)};
  }
  if (!anyLeft)
    return {StatusCode::Internal,
            fmt::format("none of the {} logits is above minus infinity, so "
                        "there is no token to choose",
                        logits.size())};
  sorted_ = 0;
  return Status::ok();
}

void Sampler::penalise() {
  if (params_.repetitionPenalty == 1.0f)
    return;
  // Once per distinct token, however often it occurred.
  std::vector<int32_t> distinct = recent_;
  std::ranges::sort(distinct);
  distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
  for (int32_t id : distinct) {
    if (id < 0 || static_cast<size_t>(id) >= candidates_.size())
      continue;
    float &logit = candidates_[id].logit;
    float scaled = logit > 0 ? logit / params_.repetitionPenalty
                             : logit * params_.repetitionPenalty;
    // An extreme penalty must not turn a finite logit into an infinite one.
    if (logit > minusInfinity)
      logit = std::clamp(scaled, -largest, largest);
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

void Sampler::keepTopK() {
  if (params_.topK == 0 || params_.topK >= candidates_.size())
    return;
  sortFirst(params_.topK);
  candidates_.resize(params_.topK);
}

void Sampler::keepTopP() {
  if (params_.topP >= 1)
    return;
  float best =
      std::ranges::max_element(candidates_, {}, &Candidate::logit)->logit;
  double total = 0;
  for (const Candidate &candidate : candidates_)
    total += std::exp(double(candidate.logit) - best);

  // The nucleus is mostly small: sort only as far as it reaches.
  double enough = params_.topP * total;
  double sum = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i == sorted_)
      sortFirst(std::max<size_t>(64, 4 * sorted_));
    sum += std::exp(double(candidates_[i].logit) - best);
    if (sum >= enough) {
      candidates_.resize(i + 1);
      sorted_ = i + 1;
      return;
    }
  }
}

void Sampler::keepMinP() {
  if (params_.minP <= 0)
    return;
  // p >= minP * pMax  <=>  logit >= logitMax + ln(minP).
  float best =
      std::ranges::max_element(candidates_, {}, &Candidate::logit)->logit;
  double least = best + std::log(double(params_.minP));
  // Keeps the order of what stays, hence also sorted_ up to its length.
  std::erase_if(candidates_,
                [&](const Candidate &c) { return c.logit < least; });
  sorted_ = std::min(sorted_, candidates_.size());
}

int32_t Sampler::draw() {
  float best =
      std::ranges::max_element(candidates_, {}, &Candidate::logit)->logit;
  auto weight = [&](const Candidate &candidate) {
    return std::exp((double(candidate.logit) - best) / params_.temperature);
  };
  double total = 0;
  for (const Candidate &candidate : candidates_)
    total += weight(candidate);
  double target = random_.nextUnit() * total;
  int32_t chosen = -1;
  for (const Candidate &candidate : candidates_) {
    double w = weight(candidate);
    if (w == 0)
      continue;
    chosen = candidate.id; // Also where rounding leaves target at the end.
    target -= w;
    if (target < 0)
      break;
  }
  return chosen;
}

StatusOr<int32_t> Sampler::sample(std::span<const float> logits) {
  MOE_RETURN_IF_ERROR(gather(logits));
  penalise();
  if (params_.temperature == 0)
    return std::ranges::max_element(candidates_, {}, &Candidate::logit)->id;
  keepTopK();
  keepTopP();
  keepMinP();
  return draw();
}

} // namespace moert
