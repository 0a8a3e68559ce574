// The policy on simulated machines, without clock or threads: deterministic.
#include "runtime/device/cpu/TeamPolicy.h"

#include "runtime/device/cpu/QueueTime.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace moert;

namespace {

const int decodeProgram = 0, headProgram = 0;
const StepKind kDecode{&decodeProgram, 1}, kHead{&headProgram, 1};

/// A range from one worker to all; all are tried first.
TeamRange upTo(int cores) { return {1, cores, cores}; }

/// A machine whose clock only advances with steps.
struct Machine {
  int cores;
  int busy = 0;           ///< Number of other processes, which never sleep.
  double stepCost = 2e-4; ///< Seconds of a step on a single core.
  /// How many times slower a step is for each worker that shares its core: much
  /// if there are many barriers, little if tickets balance long shares.
  double stall = 8;

  double told = 1; ///< Fraction of the queue time that the system tells.

  double now = 0, queued = 0;
  int sharing(int team) const {
    return std::min(team, std::max(0, team + busy - cores));
  }

  /// Runs one step with this many times the usual work; returns its seconds.
  double run(TeamPolicy &policy, const StepKind &kind = kDecode,
             double work = 1) {
    int shared = sharing(policy.team());
    double seconds = work * stepCost / policy.team();
    if (shared > 0)
      seconds *= policy.team() == 1 ? 2 : std::pow(stall, std::min(shared, 2));
    double begin = now;
    now += seconds;
    queued += 0.5 * shared * seconds;
    if (policy.ran(kind, begin, now)) {
      policy.decide({told * queued, told * (cores - busy - policy.team())});
      ++decisions;
    }
    return seconds;
  }
  int decisions = 0;

  /// Runs steps for this long; returns the fraction of time for each number of
  /// workers.
  std::vector<double> runFor(TeamPolicy &policy, double seconds) {
    std::vector<double> share(size_t(policy.team()) + size_t(cores) + 1);
    for (double end = now + seconds; now < end;) {
      int team = policy.team();
      share[size_t(team)] += run(policy) / seconds;
    }
    return share;
  }
};

TEST(TeamPolicyTest, UsesAllWorkersOnAnIdleMachine) {
  Machine machine{.cores = 4};
  TeamPolicy policy(upTo(4));
  EXPECT_GT(machine.runFor(policy, 10)[4], 0.99);
  // The policy reads the system's figures once in 10 ms.
  EXPECT_LE(machine.decisions, 1001);
}

TEST(TeamPolicyTest, LeavesBusyCoresAlone) {
  struct Case {
    int cores, busy, expected;
  };
  for (auto [cores, busy, expected] :
       {Case{2, 1, 1}, Case{4, 1, 3}, Case{8, 3, 5}, Case{64, 2, 62}}) {
    Machine machine{.cores = cores, .busy = busy};
    TeamPolicy policy(upTo(cores));
    machine.runFor(policy, 0.05);
    EXPECT_EQ(policy.team(), expected) << cores << " cores, " << busy;
  }
}

TEST(TeamPolicyTest, OneWorkerStaysWhereNoCoreIsFree) {
  for (int busy : {2, 3, 8}) {
    Machine machine{.cores = 2, .busy = busy};
    TeamPolicy policy(upTo(2));
    machine.runFor(policy, 0.05);
    EXPECT_EQ(policy.team(), 1);
    std::vector<double> share = machine.runFor(policy, 5);
    EXPECT_EQ(share[0], 0);
    EXPECT_GT(share[1], 0.95);
  }
}

// The first guess leaves out too few workers, which does not help; the search
// has to go on.
TEST(TeamPolicyTest, GoesOnUntilNobodyQueues) {
  Machine machine{.cores = 8, .busy = 4, .told = 0.5};
  TeamPolicy policy(upTo(8));
  std::vector<int> teams;
  for (int i = 0; i < 3000; ++i) {
    if (teams.empty() || teams.back() != policy.team())
      teams.push_back(policy.team());
    machine.run(policy);
  }
  EXPECT_EQ(teams, (std::vector<int>{8, 6, 5, 4}));

  // Each removal of a worker helps almost as much as the previous one, so all
  // must be measured by the same standard.
  Machine even{.cores = 8, .busy = 2, .told = 0.5};
  TeamPolicy other(upTo(8));
  even.runFor(other, 0.1);
  EXPECT_EQ(other.team(), 6);
}

TEST(TeamPolicyTest, GrowsWhenTheNeighbourEnds) {
  Machine machine{.cores = 2, .busy = 1};
  TeamPolicy policy(upTo(2));
  machine.runFor(policy, 30);
  ASSERT_EQ(policy.team(), 1);
  machine.busy = 0;
  machine.runFor(policy, 3);
  EXPECT_EQ(policy.team(), 2);
  EXPECT_LT(machine.runFor(policy, 5)[1], 0.01);
  // The number of workers also falls at once when the neighbour is back,
  // however soon.
  machine.busy = 1;
  machine.runFor(policy, 0.05);
  EXPECT_EQ(policy.team(), 1);
  machine.busy = 0;
  for (double end = machine.now + 3; policy.team() == 1;) {
    machine.run(policy);
    ASSERT_LT(machine.now, end);
  }
  machine.runFor(policy, 0.03); // Lasts until the choice is confirmed.
  machine.busy = 1;
  machine.runFor(policy, 0.05);
  EXPECT_EQ(policy.team(), 1);
}

TEST(TeamPolicyTest, GrowsWhenPartOfTheLoadEnds) {
  Machine machine{.cores = 16, .busy = 6};
  TeamPolicy policy(upTo(16));
  machine.runFor(policy, 1);
  ASSERT_EQ(policy.team(), 10);
  machine.runFor(policy, 30);
  machine.busy = 2;
  for (double end = machine.now + 3; policy.team() != 14;) {
    machine.run(policy);
    ASSERT_LT(machine.now, end);
  }
  // After a change, another one may follow soon.
  machine.busy = 0;
  machine.runFor(policy, 0.5);
  EXPECT_EQ(policy.team(), 16);
}

// All workers are eight times slower here, and each trial uses them.
TEST(TeamPolicyTest, LookingAgainCostsLittle) {
  Machine machine{.cores = 2, .busy = 1};
  TeamPolicy policy(upTo(2));
  EXPECT_LT(machine.runFor(policy, 2)[2], 0.10);
  EXPECT_LT(machine.runFor(policy, 20)[2], 0.02);
}

// With steps of 100 ms a trial takes long, so the choice is kept for longer.
TEST(TeamPolicyTest, LookingAgainCostsLittleForLongStepsToo) {
  Machine machine{.cores = 2, .busy = 1, .stepCost = 0.2, .stall = 4};
  TeamPolicy policy(upTo(2));
  machine.runFor(policy, 10);
  EXPECT_LT(machine.runFor(policy, 200)[2], 0.08);
}

TEST(TeamPolicyTest, FlickeringNeighboursDoNotMakeItFlicker) {
  for (double period : {0.004, 0.011, 0.03, 0.1}) {
    Machine machine{.cores = 2};
    TeamPolicy policy(upTo(2));
    int changes = 0;
    while (machine.now < 10) {
      machine.busy = int(machine.now / period) % 2;
      int before = policy.team();
      machine.run(policy);
      changes += before != policy.team();
    }
    // A trial may lower and raise the number again; the next one is at least a
    // hold time later.
    EXPECT_LE(changes, 2 * int(10 / TeamPolicy::kHoldSeconds) + 2)
        << "every " << period << " s";
  }
}

// Long shares: other workers take over tickets of a worker without a CPU.
TEST(TeamPolicyTest, KeepsAFullTeamThatIsFaster) {
  Machine machine{.cores = 4, .busy = 1, .stall = 1.2};
  TeamPolicy policy(upTo(4));
  machine.runFor(policy, 1);
  EXPECT_EQ(policy.team(), 4);
  EXPECT_GT(machine.runFor(policy, 20)[4], 0.95);
}

// Counting steps would prefer the window with more short steps, which here is
// that of the second number of workers tried.
TEST(TeamPolicyTest, WeighsStepsOfDifferentKinds) {
  Machine machine{.cores = 4, .busy = 1, .stall = 1.2};
  TeamPolicy policy(upTo(4));
  int smaller = 0;
  for (int i = 0; i < 4000; ++i) {
    machine.run(policy, kDecode, 1);
    int heads = policy.team() == 4 ? 1 : 9;
    for (int j = 0; j < heads; ++j)
      machine.run(policy, kHead, 0.1);
    smaller += policy.team() != 4;
  }
  EXPECT_EQ(policy.team(), 4);
  EXPECT_LT(smaller, 600);
}

TEST(TeamPolicyTest, KindsThatNeverRepeatDecideNothing) {
  Machine machine{.cores = 2, .busy = 1};
  TeamPolicy policy(upTo(2));
  for (int32_t tokens = 0; tokens < 2000; ++tokens) {
    machine.run(policy, {&decodeProgram, tokens});
    ASSERT_EQ(policy.team(), 2);
  }
}

TEST(TeamPolicyTest, KeepsTheLeastTeamThatIsAllowed) {
  Machine machine{.cores = 4, .busy = 3};
  TeamPolicy fixed(TeamRange::fixed(4));
  EXPECT_GT(machine.runFor(fixed, 1)[4], 0.999);
  EXPECT_EQ(machine.decisions, 0);
  TeamPolicy half({2, 4, 4});
  EXPECT_EQ(machine.runFor(half, 0.05)[1], 0);
  EXPECT_EQ(half.team(), 2);
}

// Times of steps show it, too, only later.
TEST(TeamPolicyTest, LeavesBusyCoresAloneWithoutSystemFigures) {
  Machine machine{.cores = 2, .told = 0};
  TeamPolicy policy(upTo(2));
  machine.runFor(policy, 1);
  ASSERT_EQ(policy.team(), 2);
  machine.busy = 1;
  machine.runFor(policy, 0.3);
  EXPECT_EQ(policy.team(), 1);
  machine.busy = 0;
  machine.runFor(policy, 3);
  EXPECT_EQ(policy.team(), 2);
}

// Steps of others, or of another thread as the caller, do not matter.
TEST(TeamPolicyTest, OnlyItsOwnStepsCount) {
  Machine machine{.cores = 2};
  TeamPolicy policy(upTo(2));
  for (int i = 0; i < 1000; ++i) {
    machine.run(policy);
    if (i % 30 == 0) {
      policy.pause();
      machine.now += 1;
      machine.queued += 1;
    }
    if (i % 30 == 15)
      machine.queued -= 1;
    ASSERT_EQ(policy.team(), 2) << i;
  }
}

TEST(TeamPolicyTest, LooksAgainAfterAPause) {
  Machine machine{.cores = 2, .busy = 1};
  TeamPolicy policy(upTo(2));
  machine.runFor(policy, 5);
  ASSERT_EQ(policy.team(), 1);
  machine.busy = 0;
  machine.now += 60; // A minute without requests.
  machine.runFor(policy, 0.05);
  EXPECT_EQ(policy.team(), 2);
}

// A pause while numbers of workers are tried is not part of the time that
// trying took.
TEST(TeamPolicyTest, APauseDoesNotMakeAChoiceStay) {
  Machine machine{.cores = 2, .busy = 1};
  TeamPolicy policy(upTo(2));
  while (policy.team() == 2)
    machine.run(policy);
  machine.now += 60;
  machine.runFor(policy, 0.05);
  ASSERT_EQ(policy.team(), 1);
  machine.busy = 0;
  machine.runFor(policy, 1);
  EXPECT_EQ(policy.team(), 2);
}

// Two threads compete for one CPU.
TEST(QueueTimeTest, CountsWhatOthersTake) {
  QueueTime queued[2];
  EXPECT_EQ(queued[0].seconds(), 0);
  std::atomic<bool> enough = false;
  std::atomic<int> ready = 0;
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before))
    ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  auto spin = [&](QueueTime &own) {
    (void)::sched_setaffinity(0, sizeof(one), &one);
    own.followThisThread();
    ++ready;
    while (!enough)
      ;
  };
  std::thread first(spin, std::ref(queued[0])),
      second([&] { spin(queued[1]); });
  while (ready < 2)
    std::this_thread::yield();
  bool told = false;
  {
    QueueTime here;
    here.followThisThread();
    told = here.seconds() > 0 || ::access("/proc/self/schedstat", R_OK) == 0;
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (told && (queued[0].seconds() < 1e-3 || queued[1].seconds() < 1e-3) &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  double seconds[] = {queued[0].seconds(), queued[1].seconds()};
  enough = true;
  first.join();
  second.join();
  if (!told)
    GTEST_SKIP() << "this system does not tell how long threads queue";
  EXPECT_GE(seconds[0], 1e-3);
  EXPECT_GE(seconds[1], 1e-3);
  // A thread can be joined shortly before the system removes it.
  end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (queued[0].seconds() != 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(queued[0].seconds(), 0) << "of a thread that has ended";
}

} // namespace
