#include "runtime/device/cpu/TeamSearch.h"

#include <algorithm>
#include <cmath>

namespace moert {

/// Returns the variance of the mean of the windows' speeds, in units of the
/// squared mean. A window varies by a twentieth at least, as far as one knows
/// from a few.
double TeamSearch::Arm::relativeVariance() const {
  constexpr double kLeast = 0.05 * 0.05;
  auto count = double(speeds.size());
  double mean = 0, squares = 0;
  for (double speed : speeds)
    mean += speed / count;
  for (double speed : speeds)
    squares += (speed / mean - 1) * (speed / mean - 1);
  // A prior of three windows of the least variance.
  return (squares + 3 * kLeast) / (count + 2) / count;
}

TeamSearch::TeamSearch(const TeamSample &base, Candidates candidates)
    : candidates_(std::move(candidates)), team_(base.team) {
  armOf(base.team);
  add(base);
}

TeamSearch::Arm &TeamSearch::armOf(int32_t team) {
  auto found = std::ranges::find(arms_, team, &Arm::team);
  return found != arms_.end() ? *found : arms_.emplace_back(Arm{team});
}

void TeamSearch::add(const TeamSample &sample) {
  Arm &arm = armOf(sample.team);
  arm.seconds += sample.seconds;
  arm.work += sample.speed * sample.seconds;
  arm.missing += sample.missing * sample.seconds;
  arm.speeds.push_back(sample.speed);
  next(sample);
}

TeamSample TeamSearch::total(int32_t team) const {
  auto arm = std::ranges::find(arms_, team, &Arm::team);
  if (arm == arms_.end() || arm->seconds == 0)
    return {team};
  return {team, arm->seconds, arm->speed(), arm->missing / arm->seconds,
          int(arm->speeds.size())};
}

/// Chooses the team to look at after `last`.
void TeamSearch::next(const TeamSample &last) {
  if (taken_ < candidates_.teams.size()) {
    team_ = candidates_.teams[taken_++];
    return;
  }
  if (arms_.size() <= taken_ + 1 || descends_) {
    // A single shared core delays all other workers, so leaving out too few
    // workers may be no better than leaving out none.
    bool isNew = armOf(last.team).speeds.size() == 1;
    descends_ =
        isNew && last.missing >= kMissing && last.team > candidates_.least;
    if (descends_) {
      // A busy core keeps its worker waiting half of the time, so there are
      // twice as many busy cores as missing workers.
      double busy = std::clamp(std::round(2 * last.missing), 1.0,
                               double(last.team - candidates_.least));
      team_ = last.team - int32_t(busy);
      return;
    }
  }
  const Arm &base = arms_.front();
  if (arms_.size() == 1) {
    isDone_ = true;
    return;
  }
  const Arm &challenger = *std::max_element(
      arms_.begin() + 1, arms_.end(),
      [](const Arm &a, const Arm &b) { return a.speed() < b.speed(); });
  Verdict verdict = compare(base, challenger);
  isDone_ = verdict != Verdict::Unclear;
  if (isDone_)
    team_ = verdict == Verdict::Base ? base.team : challenger.team;
  else if (base.speeds.size() != challenger.speeds.size())
    team_ = base.speeds.size() < challenger.speeds.size() ? base.team
                                                          : challenger.team;
  else
    team_ = last.team == base.team ? challenger.team : base.team;
}

TeamSearch::Verdict TeamSearch::compare(const Arm &base,
                                        const Arm &challenger) {
  double ratio = challenger.speed() / base.speed();
  if (ratio >= kPlain)
    return Verdict::Challenger;
  if (ratio <= 1 / kPlain)
    return Verdict::Base;
  double error =
      std::sqrt(base.relativeVariance() + challenger.relativeVariance());
  size_t rounds = std::min(base.speeds.size(), challenger.speeds.size());
  // An early verdict needs three standard errors, the last one half as many.
  double margin = (rounds < kRounds ? 3 : 1.5) * error;
  if (ratio > 1 + std::max(kGain, margin))
    return Verdict::Challenger;
  if (rounds >= kRounds || ratio < 1 - margin)
    return Verdict::Base;
  return Verdict::Unclear;
}

double TeamSearch::lostSeconds() const {
  double best = std::max(arms_.front().speed(), total(team_).speed);
  double lost = 0;
  for (size_t i = 1; i < arms_.size(); ++i)
    if (arms_[i].team != team_ && arms_[i].seconds > 0)
      lost += arms_[i].seconds * std::max(0.0, 1 - arms_[i].speed() / best);
  return lost;
}

} // namespace moert
