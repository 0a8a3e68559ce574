#include "runtime/device/cpu/TeamPolicy.h"

#include <algorithm>
#include <cmath>

namespace moert {

bool TeamPolicy::ran(const StepKind &kind, double begin, double end) {
  if (least_ == full_)
    return false;
  now_ = end;
  double seconds = std::max(end - begin, 1e-9);
  auto cost = std::ranges::find(costs_, kind, &Cost::kind);
  if (cost == costs_.end()) {
    // There is nothing to compare the step with yet, and the first step of its
    // kind finds caches cold.
    if (costs_.size() < kKinds)
      costs_.push_back({kind, seconds, seconds});
    else
      costs_[nextCost_++ % kKinds] = {kind, seconds, seconds};
    open_ = false;
    return true;
  }
  cost->fastest = std::min(cost->fastest, seconds);
  if (!open_)
    return true;
  seconds_ += seconds;
  work_ += cost->weight;
  return seconds_ >= kWindowSeconds;
}

void TeamPolicy::decide(double queued) {
  bool complete = open_;
  Sample sample;
  if (complete)
    sample = {team_, seconds_, work_ / seconds_,
              (queued - queuedBefore_) / seconds_};
  open_ = true;
  seconds_ = work_ = 0;
  queuedBefore_ = queued;
  if (complete)
    judge(sample);
  if (!isSearching_)
    for (Cost &cost : costs_)
      cost.weight = cost.fastest;
}

void TeamPolicy::judge(const Sample &sample) {
  bool disturbed = sample.missing >= kMissing;
  if (!isSearching_) {
    if (now_ < nextSearch_ || (sample.team == full_ && !disturbed))
      return;
    isSearching_ = true;
    searchSeconds_ = 0;
    teamBefore_ = team_;
    best_ = {};
    if (sample.team != full_) {
      team_ = full_;
      return;
    }
    // The full team has just been measured.
  }
  searchSeconds_ += sample.seconds;
  if (sample.speed > best_.speed)
    best_ = sample;
  // A single shared core delays all other workers, so leaving out too few
  // workers may be no better than leaving out none.
  if (disturbed && sample.team > least_)
    team_ = smallerThan(sample);
  else
    settle();
}

void TeamPolicy::settle() {
  isSearching_ = false;
  team_ = best_.team;
  if (team_ == full_ && best_.missing < kMissing) {
    nextSearch_ = now_; // Not disturbed: new load is noticed at once.
    patience_ = 1;
    return;
  }
  patience_ = team_ == teamBefore_ ? std::min(2 * patience_, kMaxPatience) : 1;
  nextSearch_ =
      now_ + patience_ * std::max(kHoldSeconds, kHoldSearches * searchSeconds_);
}

/// Returns a size below that of the sample. A busy core keeps its worker
/// waiting half of the time, so there are twice as many busy cores as missing
/// workers.
int32_t TeamPolicy::smallerThan(const Sample &sample) const {
  double busy = std::clamp(std::round(2 * sample.missing), 1.0,
                           double(sample.team - least_));
  return sample.team - int32_t(busy);
}

} // namespace moert
