// On made machines, the policy does at least 97 % of the work of the best fixed
// number of workers, over the whole run, whichever that is.
#include "test/unit/TeamMachine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace moert;
using moetest::TeamMachine;

namespace {

/// Cores without siblings.
std::vector<double> cores(size_t fast, size_t slow = 0) {
  std::vector<double> speeds(fast, 1);
  speeds.resize(fast + slow, 0.55);
  return speeds;
}

/// Cores with two CPUs each: first one CPU of each, then the others.
TeamMachine withSiblings(size_t count) {
  TeamMachine machine{cores(2 * count)};
  for (size_t i = 0; i < 2 * count; ++i)
    machine.sibling.push_back(int((i + count) % (2 * count)));
  return machine;
}

/// The range of teams that the policy gets for a machine.
TeamRange rangeOf(const TeamMachine &machine, std::vector<int> marks = {}) {
  auto cpus = int(machine.speeds.size());
  int first = machine.sibling.empty() ? cpus : cpus / 2;
  TeamRange range{1, first, cpus, std::move(marks)};
  if (machine.quota > 0) {
    range.most = std::min(range.most, int(std::ceil(machine.quota)));
    range.first = std::min(range.first, range.most);
    range.unstopped = std::max(1, int(machine.quota));
    range.marks.push_back(range.unstopped);
  }
  range.marks.push_back(range.most);
  return range;
}

/// Compares the policy with fixed teams over `seconds`, for some seeds: with
/// all teams, but on large machines only with every fourth.
void expectNearBest(TeamMachine machine, const TeamRange &range,
                    double seconds) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    machine.seed = seed;
    double best = 0;
    int bestTeam = 0;
    for (int team = range.most; team >= 1; team -= range.most > 8 ? 4 : 1) {
      TeamMachine fixed = machine;
      double rate = fixed.runFixed(team, seconds);
      if (rate > best) {
        best = rate;
        bestTeam = team;
      }
    }
    TeamMachine own = machine;
    TeamPolicy policy(range);
    double rate = own.run(policy, seconds);
    std::string teams;
    for (size_t team = 0; team < own.teams.size(); ++team)
      if (own.teams[team] > 0.002)
        teams += fmt::format(" {}: {:.1f} %", team, 100 * own.teams[team]);
    EXPECT_GE(rate, 0.97 * best)
        << rate / best << " of the best team of " << bestTeam << ", seed "
        << seed << "; time by team:" << teams;
  }
}

/// Returns a function by which other programs use `count` CPUs from `begin` to
/// `end`.
std::function<int(double)> busyBetween(int count, double begin, double end) {
  return [=](double now) { return now >= begin && now < end ? count : 0; };
}

TEST(TeamTopologiesTest, EqualCores) {
  for (size_t count : {2u, 4u, 8u, 32u}) {
    TeamMachine machine{cores(count)};
    expectNearBest(machine, rangeOf(machine), 20);
  }
}

TEST(TeamTopologiesTest, OneCore) {
  TeamMachine machine{cores(1)};
  expectNearBest(machine, rangeOf(machine), 5);
  TeamPolicy policy(rangeOf(machine));
  EXPECT_FALSE(policy.ran({&machine, 1}, 0, 1)) << "there is no choice";
}

// Memory is saturated by 6 workers; more only make barriers slower.
TEST(TeamTopologiesTest, SaturatedMemory) {
  for (double barrier : {2e-6, 2e-5, 1e-4}) {
    TeamMachine machine{cores(16)};
    machine.bandwidth = 6;
    machine.barrier = barrier;
    expectNearBest(machine, rangeOf(machine), 30);
  }
}

// 8 performance and 16 efficiency cores: compute-bound work wants all of them,
// with saturated memory fewer are better.
TEST(TeamTopologiesTest, EfficiencyCores) {
  for (double bandwidth : {1e9, 9.0, 5.0})
    for (double barrier : {2e-6, 3e-5}) {
      TeamMachine machine{cores(8, 16)};
      machine.bandwidth = bandwidth;
      machine.barrier = barrier;
      expectNearBest(machine, rangeOf(machine, {8, 24}), 30);
    }
}

// A worker on an efficiency core delays all others at every barrier, however
// much work it does.
TEST(TeamTopologiesTest, EfficiencyCoresThatDelay) {
  TeamMachine machine{cores(8, 16)};
  for (size_t i = 8; i < 24; ++i)
    machine.speeds[i] = -0.2;
  expectNearBest(machine, rangeOf(machine, {8, 24}), 30);
}

TEST(TeamTopologiesTest, Siblings) {
  for (double barrier : {2e-6, 1e-5, 5e-5}) {
    TeamMachine machine = withSiblings(8);
    machine.barrier = barrier;
    expectNearBest(machine, rangeOf(machine, {8, 16}), 30);
  }
}

TEST(TeamTopologiesTest, SiblingsAndSaturatedMemory) {
  TeamMachine machine = withSiblings(8);
  machine.bandwidth = 5;
  machine.barrier = 3e-5;
  expectNearBest(machine, rangeOf(machine, {8, 16}), 30);
}

TEST(TeamTopologiesTest, ACoreIsTakenForAWhile) {
  for (bool tells : {true, false})
    for (double stall : {1.1, 1.5, 3.0, 8.0})
      for (double seconds : {2.0, 10.0, 25.0}) {
        TeamMachine machine{cores(4)};
        machine.stall = stall;
        machine.tells = tells;
        machine.busy = busyBetween(1, 8, 8 + seconds);
        SCOPED_TRACE(fmt::format("tells {}, {} times slower for {} s", tells,
                                 stall, seconds));
        expectNearBest(machine, rangeOf(machine), 40);
      }
}

TEST(TeamTopologiesTest, NeighboursComeAndGo) {
  for (double period : {0.3, 1.0, 4.0})
    for (int count : {1, 2}) {
      TeamMachine machine{cores(4)};
      machine.busy = [=](double now) {
        return std::fmod(now, 2 * period) < period ? 0 : count;
      };
      SCOPED_TRACE(fmt::format("{} of 4 every {} s", count, period));
      expectNearBest(machine, rangeOf(machine), 40);
    }
}

TEST(TeamTopologiesTest, Quotas) {
  for (double quota : {0.5, 1.5, 2.5, 3.9})
    for (double bandwidth : {1e9, 2.0}) {
      TeamMachine machine{cores(8)};
      machine.quota = quota;
      machine.bandwidth = bandwidth;
      SCOPED_TRACE(fmt::format("{} CPUs, bandwidth {}", quota, bandwidth));
      expectNearBest(machine, rangeOf(machine), 40);
    }
}

// A step takes a tenth of a second, as those of large models do.
TEST(TeamTopologiesTest, LongSteps) {
  for (double bandwidth : {1e9, 5.0}) {
    TeamMachine machine{cores(8)};
    machine.work = 0.5;
    machine.bandwidth = bandwidth;
    machine.barrier = 1e-3;
    machine.busy = busyBetween(1, 30, 50);
    expectNearBest(machine, rangeOf(machine), 90);
  }
}

// After a neighbour has ended, all workers are back within a second; without
// the system's figures, within three.
TEST(TeamTopologiesTest, WorkersComeBack) {
  for (bool tells : {true, false}) {
    TeamMachine machine{cores(4)};
    machine.tells = tells;
    machine.busy = busyBetween(1, 5, 15);
    TeamPolicy policy(rangeOf(machine));
    machine.run(policy, 14);
    EXPECT_GT(machine.teams[3], 0.6) << tells;
    machine.run(policy, tells ? 15.5 : 18);
    EXPECT_EQ(policy.team(), 4) << tells;
  }
}

/// Returns how often 300 searches replace a team by one that is `ratio` times
/// as fast, if the speeds of windows vary by `noise`.
double replaced(double ratio, double noise) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  int count = 0;
  for (int i = 0; i < 300; ++i) {
    auto sample = [&](int32_t team) {
      double speed = team == 4 ? 1 : ratio;
      return TeamSample{team, 0.01, speed * std::exp(noise * normal(random))};
    };
    TeamSearch search(sample(4), {{3}, 4});
    while (!search.isDone())
      search.add(sample(search.team()));
    count += search.team() == 3;
  }
  return count / 300.0;
}

TEST(TeamSearchTest, NoiseReplacesNoTeam) {
  for (double noise : {0.01, 0.05, 0.1}) {
    EXPECT_LT(replaced(0.97, noise), 0.1) << noise;
    EXPECT_LT(replaced(1, noise), 0.25) << noise;
  }
  EXPECT_GT(replaced(1.03, 0.01), 0.95);
  EXPECT_GT(replaced(1.06, 0.05), 0.8);
  EXPECT_GT(replaced(1.5, 0.1), 0.95);
}

TEST(TeamSearchTest, CountsWhatLooksCost) {
  TeamSearch search({4, 0.01, 1}, {{2, 3}, 4});
  search.add({2, 0.02, 0.5});
  EXPECT_EQ(search.team(), 3);
  search.add({3, 0.01, 0.75});
  ASSERT_TRUE(search.isDone());
  EXPECT_EQ(search.team(), 4);
  EXPECT_NEAR(search.lostSeconds(), 0.02 * 0.5 + 0.01 * 0.25, 1e-12);
}

// Noise alone makes nobody change teams often.
TEST(TeamTopologiesTest, NoiseDoesNotMakeItFlicker) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    TeamMachine machine{cores(8)};
    machine.bandwidth = 6;
    machine.seed = seed;
    machine.noise = 0.08;
    TeamPolicy policy(rangeOf(machine));
    machine.run(policy, 60);
    // A search changes it a dozen times at most.
    EXPECT_LE(machine.changes, 700) << seed;
    TeamMachine quiet{cores(8)};
    TeamPolicy still(rangeOf(quiet));
    quiet.run(still, 60);
    EXPECT_GT(quiet.teams[8], 0.98);
  }
}

} // namespace
