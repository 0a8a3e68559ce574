#include "runtime/device/cpu/TeamPolicy.h"

#include <algorithm>

namespace moert {

bool TeamPolicy::ran(const StepKind &kind, double begin, double end) {
  if (range_.isFixed())
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
  ++steps_;
  return seconds_ >= windowSeconds();
}

double TeamPolicy::windowSeconds() const {
  bool isStopped =
      search_ ? isStopped_ : range_.unstopped > 0 && team_ > range_.unstopped;
  return isStopped ? kStoppedSeconds : kWindowSeconds;
}

void TeamPolicy::decide(const CpuLoad &load) {
  bool complete = open_;
  TeamSample sample;
  if (complete)
    sample = {team_, seconds_, work_ / seconds_,
              (load.queued - queuedBefore_) / seconds_};
  credit_ = std::min(credit_ + kLookShare * seconds_, kMostCredit);
  open_ = true;
  queuedBefore_ = load.queued;
  if (complete && search_) {
    search_->add(sample);
    team_ = search_->team();
    if (search_->isDone())
      settle();
  } else if (complete) {
    watch(sample, load.free);
  }
  seconds_ = work_ = 0;
  steps_ = 0;
  if (!search_)
    for (Cost &cost : costs_)
      cost.weight = cost.fastest;
}

/// Decides after a window without a search whether one begins.
void TeamPolicy::watch(const TeamSample &sample, double free) {
  bool isDisturbed = sample.missing >= TeamSearch::kMissing;
  disturbedWindows_ = isDisturbed ? disturbedWindows_ + 1 : 0;
  freeWindows_ = free >= 1 ? freeWindows_ + 1 : 0;
  bool hasSlowedDown = hasSlowed(sample);
  // A hiccup of a few milliseconds is no reason to change anything.
  bool lasts = disturbedWindows_ >= 2 || sample.seconds >= 2 * kWindowSeconds;
  if (isDisturbed && lasts && team_ > range_.least && now_ >= nextDown_)
    return begin(Cause::Disturbed, sample, {});
  if (team_ < home_) {
    isHinted_ = freeWindows_ >= kFreeWindows && now_ >= nextHint_;
    if (isHinted_ || now_ >= nextBack_)
      begin(Cause::Back, sample, {home_});
    return;
  }
  if (isDisturbed)
    return;
  if (!hasStarted_) {
    hasStarted_ = true;
    std::vector<int32_t> teams = range_.marks;
    teams.push_back(team_ - 1);
    return begin(Cause::Start, sample, std::move(teams));
  }
  if (hasSlowedDown && now_ >= nextDown_)
    return begin(Cause::Disturbed, sample, {team_ - 1, team_ - 2, team_ / 2});
  if (now_ >= nextLook_)
    lookAround(sample);
}

/// Looks at the next neighbour whose expected cost is affordable.
void TeamPolicy::lookAround(const TeamSample &sample) {
  std::vector<int32_t> all = neighbours();
  for (size_t i = 0; i < all.size(); ++i) {
    int32_t team = all[nextNeighbour_++ % all.size()];
    if (isAffordable(sample, team))
      return begin(Cause::Neighbour, sample, {team});
  }
}

/// Returns teams to try in the place of team_: a quarter less or more, one
/// worker, half as many less or more, and all marks.
std::vector<int32_t> TeamPolicy::neighbours() const {
  std::vector<int32_t> teams;
  for (int32_t stride : {team_ / 4, 1, team_ / 2})
    for (int32_t team : {team_ - stride, team_ + stride})
      teams.push_back(team);
  teams.insert(teams.end(), range_.marks.begin(), range_.marks.end());
  std::erase_if(teams, [&](int32_t team) {
    return team < range_.least || team > range_.most || team == team_;
  });
  return teams;
}

/// Returns whether a look at `team` may cost what it does if fewer workers are
/// slower in proportion, and more of them by a quarter.
bool TeamPolicy::isAffordable(const TeamSample &base, int32_t team) const {
  double window = base.seconds;
  if (range_.unstopped > 0 && std::max(team, team_) > range_.unstopped)
    window = std::max(window, kStoppedSeconds);
  double loss = team < base.team ? 1 - double(team) / base.team : 0.25;
  // A window ends with a step, and those of a slower team take longer.
  double longest = team < base.team ? double(base.team) / team : 1.25;
  double step = base.seconds / std::max(steps_, 1);
  return std::max(window, step * longest) * loss <= credit_;
}

/// Begins a search among those of `teams` that are possible and affordable.
/// Taken CPUs, and those that may be free again, are looked for at any price.
void TeamPolicy::begin(Cause cause, const TeamSample &base,
                       std::vector<int32_t> teams) {
  bool isPlanned = cause == Cause::Start || cause == Cause::Neighbour;
  auto isWanted = [&](int32_t team) {
    return cause == Cause::Back || isAffordable(base, team) ||
           (cause == Cause::Start && team == range_.unstopped);
  };
  TeamSearch::Candidates candidates{{}, isPlanned ? range_.most : range_.least};
  int32_t largest = base.team;
  for (int32_t team : teams)
    if (team >= range_.least && team <= range_.most && team != team_ &&
        std::ranges::find(candidates.teams, team) == candidates.teams.end() &&
        isWanted(team)) {
      candidates.teams.push_back(team);
      largest = std::max(largest, team);
    }
  cause_ = cause;
  isStopped_ = range_.unstopped > 0 && largest > range_.unstopped;
  search_.emplace(base, std::move(candidates));
  team_ = search_->team();
  if (search_->isDone())
    settle();
}

/// Ends the search, and determines when the next ones may begin.
void TeamPolicy::settle() {
  const TeamSample before = search_->base();
  const double lost = search_->lostSeconds();
  const bool isKept = team_ == before.team;
  credit_ = std::max(credit_ - lost, -kMostCredit);
  // The longer searches find the same, the rarer they become.
  auto later = [&](double &patience, double most) {
    patience = isKept ? std::min(2 * patience, most) : 1;
    return now_ + std::max(kHoldSeconds * patience, lost / kLookShare);
  };
  switch (cause_) {
  case Cause::Disturbed:
    nextDown_ = later(downPatience_, kMaxPatience);
    if (!isKept) {
      nextDown_ = nextHint_ = now_;
      // Cost of a look at the former team if nothing has changed.
      double loss = before.seconds / double(before.windows) *
                    (1 - before.speed / search_->total(team_).speed);
      nextBack_ = now_ + std::max(kHoldSeconds, loss / kLookShare);
      backPatience_ = 1;
    }
    break;
  case Cause::Back:
    nextBack_ = later(backPatience_, kMostBackPatience);
    // A hint that was wrong is not believed again soon.
    nextHint_ = isKept && isHinted_ ? nextBack_ : now_;
    if (search_->total(team_).missing >= TeamSearch::kMissing)
      nextDown_ = nextBack_; // Smaller teams were tried just now.
    break;
  case Cause::Start:
  case Cause::Neighbour:
    // The credit bounds what these cost.
    (void)later(patience_, kMaxPatience);
    nextLook_ = now_ + kHoldSeconds * patience_;
    if (!isKept) {
      home_ = before.missing < TeamSearch::kMissing ? team_
                                                    : std::max(home_, team_);
      nextNeighbour_ = 0;
    }
    break;
  }
  search_.reset();
  average_ = 0;
  slowWindows_ = disturbedWindows_ = freeWindows_ = 0;
}

/// Returns whether steps have become slower for a while.
bool TeamPolicy::hasSlowed(const TeamSample &sample) {
  constexpr double kAverageSeconds = 1;
  if (average_ == 0)
    average_ = sample.speed;
  if (sample.speed < kSlower * average_) {
    if (++slowWindows_ < kSlowWindows)
      return false;
    average_ = 0;
    slowWindows_ = 0;
    return true;
  }
  slowWindows_ = 0;
  average_ += (sample.speed - average_) *
              std::min(1.0, sample.seconds / kAverageSeconds);
  return false;
}

} // namespace moert
