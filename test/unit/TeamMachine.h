// A machine with unequal cores, other programs and quotas, whose clock only
// advances with steps. Deterministic for a seed.
#ifndef MOE_TEST_UNIT_TEAMMACHINE_H
#define MOE_TEST_UNIT_TEAMMACHINE_H

#include "runtime/device/cpu/TeamPolicy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace moetest {

struct TeamMachine {
  explicit TeamMachine(std::vector<double> speeds)
      : speeds(std::move(speeds)) {}

  /// Work per second of each CPU alone, in the order in which workers take
  /// them.
  std::vector<double> speeds;
  /// CPUs i and sibling[i] share a core: two workers there do a quarter more
  /// than one. Empty: no core has two CPUs.
  std::vector<int> sibling = {};
  double work = 0.005;    ///< Work of a step.
  double bandwidth = 1e9; ///< The most work per second of all CPUs together.
  /// Seconds that a step spends at barriers, for each worker.
  double barrier = 2e-6;
  /// CPUs of other programs that never sleep, at a moment. The system moves
  /// them to CPUs that the team leaves alone.
  std::function<int(double)> busy = [](double) { return 0; };
  /// How many times slower a step is if one of the team's CPUs is shared, and
  /// if several are.
  double stall = 3;
  /// CPU seconds per second, in periods of 100 ms; 0: no quota.
  double quota = 0;
  bool tells = true; ///< Whether the system tells queue times and free CPUs.
  /// Standard deviation of the logarithm of a step's time.
  double noise = 0.03;
  uint32_t seed = 1;

  double now = 0, queued = 0;

  /// Returns the seconds of the next step with `team` workers, and advances the
  /// clock.
  double step(int team) {
    double sum = 0;
    for (int i = 0; i < team; ++i) {
      int other = sibling.empty() ? -1 : sibling[size_t(i)];
      bool isShared = other >= 0 && other < team;
      sum += speeds[size_t(i)] * (isShared ? 0.625 : 1);
    }
    auto cpus = int(speeds.size());
    int shared = std::clamp(team + busy(now) - cpus, 0, team);
    double seconds = work / std::min(sum, bandwidth) + barrier * team;
    if (shared > 0)
      seconds *= team == 1 ? 2 : std::pow(stall, std::min(shared, 2));
    seconds *= std::exp(noise * normal_(random()));
    // A process that runs for a few milliseconds now and then.
    if (noise > 0 && uniform_(random()) < 0.002)
      seconds += 0.003;
    double stopped = throttled(team, seconds);
    queued += 0.5 * shared * seconds + team * stopped;
    now += seconds + stopped;
    return seconds + stopped;
  }

  /// Runs steps for `seconds`; returns steps per second.
  double runFixed(int team, double seconds) {
    int64_t steps = 0;
    for (; now < seconds; ++steps)
      step(team);
    return double(steps) / now;
  }
  double run(moert::TeamPolicy &policy, double seconds) {
    static const int program = 0;
    int64_t steps = 0;
    teams.assign(speeds.size() + 1, 0);
    for (; now < seconds; ++steps) {
      int team = policy.team();
      double begin = now;
      teams[size_t(team)] += step(team) / seconds;
      if (policy.ran({&program, 1}, begin, now))
        policy.decide(load(team));
      changes += policy.team() != team;
    }
    return double(steps) / now;
  }
  /// Fractions of the time of the last run(), by team.
  std::vector<double> teams;
  int changes = 0;

private:
  moert::CpuLoad load(int team) const {
    if (!tells)
      return {};
    return {queued, double(int(speeds.size()) - team - busy(now))};
  }
  /// Returns how long the quota stops a step that needs `seconds`. Waiting
  /// workers spin, so all of them use it up.
  double throttled(int team, double seconds) {
    constexpr double kPeriod = 0.1;
    if (quota == 0)
      return 0;
    double at = now, stopped = 0;
    while (seconds > 0) {
      double end = (std::floor(at / kPeriod + 1e-9) + 1) * kPeriod;
      if (end != periodEnd_) {
        periodEnd_ = end;
        left_ = quota * kPeriod;
      }
      double runs = std::min({seconds, end - at, left_ / team});
      left_ -= runs * team;
      seconds -= runs;
      at += runs;
      if (seconds > 0 && at < end) {
        stopped += end - at;
        at = end;
      }
    }
    return stopped;
  }
  std::mt19937 &random() {
    if (!isSeeded_)
      random_.seed(seed);
    isSeeded_ = true;
    return random_;
  }

  std::mt19937 random_;
  bool isSeeded_ = false;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double periodEnd_ = 0, left_ = 0;
};

} // namespace moetest

#endif // MOE_TEST_UNIT_TEAMMACHINE_H
