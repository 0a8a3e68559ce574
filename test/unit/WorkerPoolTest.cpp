#include "runtime/device/cpu/WorkerPool.h"

#include "runtime/device/HostMemory.h"
#include "runtime/device/cpu/ThreadCount.h"

#include <chrono>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

using namespace moert;

namespace {

std::unique_ptr<WorkerPool> makePool(int32_t team) {
  StatusOr<std::unique_ptr<WorkerPool>> pool = WorkerPool::create(team);
  EXPECT_TRUE(pool.isOk()) << pool.status().message();
  return *std::move(pool);
}

TEST(WorkerPoolTest, EveryWorkerRunsOnce) {
  for (int32_t team : {1, 2, 3, 7}) {
    auto pool = makePool(team);
    std::vector<int> calls(size_t(team), 0);
    for (int round = 0; round < 50; ++round)
      pool->run([&](int32_t worker) { ++calls[size_t(worker)]; });
    EXPECT_EQ(calls, std::vector<int>(size_t(team), 50));
  }
}

// The variables are plain ints: under ThreadSanitizer, this proves that the
// barrier orders what workers write before it with what others read after it.
TEST(WorkerPoolTest, BarrierMakesWritesVisible) {
  constexpr int32_t team = 4;
  constexpr int rounds = 300;
  auto pool = makePool(team);
  std::vector<int> slots(team, 0);
  std::vector<int> wrong(team, 0);
  pool->run([&](int32_t worker) {
    for (int round = 1; round <= rounds; ++round) {
      slots[size_t(worker)] = round;
      pool->barrier().arriveAndWait();
      for (int seen : slots)
        wrong[size_t(worker)] += seen != round;
      pool->barrier().arriveAndWait();
    }
  });
  EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), 0), 0);
}

TEST(WorkerPoolTest, LastToArriveActsWhileOthersWait) {
  auto pool = makePool(3);
  int arrivals = 0; // Only the last worker to arrive writes it.
  std::vector<int> seen(3, 0);
  pool->run([&](int32_t worker) {
    for (int round = 0; round < 100; ++round)
      pool->barrier().arriveAndWait([&] { ++arrivals; });
    seen[size_t(worker)] = arrivals;
  });
  EXPECT_EQ(seen, std::vector<int>(3, 100));
}

// Plain ints again: a worker's run happens after its previous one, whichever
// workers ran in between.
TEST(WorkerPoolTest, RunsLeaveOutTheLastWorkers) {
  constexpr int32_t full = 5;
  auto pool = makePool(full);
  std::vector<int> calls(full, 0), expected(full, 0);
  int met = 0;
  uint32_t random = 1;
  for (int round = 0; round < 2000; ++round) {
    random = random * 1664525 + 1013904223;
    int32_t team = 1 + int32_t((random >> 16) % full);
    for (int32_t worker = 0; worker < team; ++worker)
      ++expected[size_t(worker)];
    pool->run(team, [&](int32_t worker) {
      ++calls[size_t(worker)];
      for (int barrier = 0; barrier < 3; ++barrier)
        pool->barrier().arriveAndWait([&] { ++met; });
    });
    ASSERT_EQ(calls, expected) << "round " << round;
    ASSERT_EQ(met, 3 * (round + 1));
  }
}

// Workers that are left out are not even woken: a worker may sleep through any
// number of runs.
TEST(WorkerPoolTest, WorkersThatWereLeftOutComeBack) {
  auto pool = makePool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int i = 0; i < 100; ++i)
      pool->run(1 + i % 2, [](int32_t) {});
    int calls[3] = {};
    pool->run([&](int32_t worker) { ++calls[worker]; });
    EXPECT_EQ(calls[0] + calls[1] + calls[2], 3);
  }
}

// Spinning is bounded: a waiting worker gives up its core to the others.
TEST(WorkerPoolTest, FarMoreWorkersThanCoresMakeProgress) {
  int32_t team = 4 * readCpuBudget().cpus;
  auto pool = makePool(team);
  int arrivals = 0;
  for (int32_t part : {team, team / 2, 1, team})
    pool->run(part, [&](int32_t) {
      for (int i = 0; i < 50; ++i)
        pool->barrier().arriveAndWait([&] { ++arrivals; });
    });
  EXPECT_EQ(arrivals, 200);
}

// If a worker is much later than the others spin, they sleep.
TEST(WorkerPoolTest, SleepersAreWoken) {
  auto pool = makePool(3);
  for (int32_t late = 0; late < 3; ++late)
    pool->run([&](int32_t worker) {
      if (worker == late)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      pool->barrier().arriveAndWait();
    });
  // Idle threads sleep too, and wake up for the next run.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::vector<int> calls(3, 0);
  pool->run([&](int32_t worker) { ++calls[size_t(worker)]; });
  EXPECT_EQ(calls, std::vector<int>(3, 1));
}

TEST(WorkerPoolTest, StopsWithoutEverRunning) {
  for (int i = 0; i < 20; ++i)
    makePool(4);
}

std::vector<int> cpusOfThisThread() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask))
        cpus.push_back(cpu);
  return cpus;
}

TEST(WorkerPoolTest, PinsWorkersAndGivesTheCallerItsMaskBack) {
  std::vector<int> before = cpusOfThisThread();
  int here = before.back();
  StatusOr<std::unique_ptr<WorkerPool>> pool =
      WorkerPool::create(2, std::vector<std::vector<int>>{{here}, {here}});
  ASSERT_TRUE(pool.isOk());
  EXPECT_EQ(cpusOfThisThread(), before);
  std::vector<std::vector<int>> cpus(2);
  (*pool)->run(
      [&](int32_t worker) { cpus[size_t(worker)] = cpusOfThisThread(); });
  EXPECT_EQ(cpus[0], std::vector<int>{here});
  EXPECT_EQ(cpus[1], std::vector<int>{here});
  EXPECT_EQ(cpusOfThisThread(), before);
}

TEST(WorkerPoolTest, PinsOnlyOnRequest) {
  std::vector<int> before = cpusOfThisThread();
  auto pool = makePool(2);
  std::vector<std::vector<int>> cpus(2);
  pool->run([&](int32_t worker) { cpus[size_t(worker)] = cpusOfThisThread(); });
  EXPECT_EQ(cpus[0], before);
  EXPECT_EQ(cpus[1], before);
}

// Queue time never decreases, and is zero before the first run.
TEST(WorkerPoolTest, QueuedTimeGrows) {
  auto pool = makePool(4);
  double before = pool->secondsQueued();
  EXPECT_GE(before, 0);
  for (int round = 0; round < 20; ++round) {
    pool->run([&](int32_t) { pool->barrier().arriveAndWait(); });
    double now = pool->secondsQueued();
    EXPECT_GE(now, before);
    before = now;
  }
}

TEST(ThreadCountTest, ANumberIsTheMostAndMoreThanCpusAreRefused) {
  CpuBudget budget{2, 4};
  StatusOr<TeamRange> any = resolveThreads(0, budget);
  EXPECT_EQ(any->least, 1);
  EXPECT_EQ(any->first, 2);
  EXPECT_EQ(any->most, 4);
  EXPECT_EQ(resolveThreads(4, budget)->first, 4);
  EXPECT_EQ(resolveThreads(4, budget)->most, 4);
  EXPECT_EQ(resolveThreads(4, budget)->least, 1);
  EXPECT_TRUE(resolveThreads(1, budget)->isFixed());
  for (int threads : {5, -1}) {
    StatusOr<TeamRange> refused = resolveThreads(threads, budget);
    ASSERT_FALSE(refused.isOk());
    EXPECT_EQ(refused.status().code(), StatusCode::Usage);
    EXPECT_NE(refused.status().message().find("1 to 4"), std::string::npos);
  }
}

/// Cores with two threads each.
Topology twoThreadCores(int cores) {
  Topology topology;
  for (int cpu = 0; cpu < 2 * cores; ++cpu)
    topology.push_back({cpu, cpu % cores, 0});
  return topology;
}

TEST(ThreadCountTest, CoresAreTriedFirst) {
  CpuBudget budget = cpuBudget(twoThreadCores(8), 0);
  EXPECT_EQ(budget.cores, 8);
  EXPECT_EQ(budget.cpus, 16);
  EXPECT_EQ(resolveThreads(0, budget)->first, 8) << "siblings are not cores";
  EXPECT_EQ(resolveThreads(0, budget)->marks, (std::vector<int>{8, 16}));
}

TEST(ThreadCountTest, AQuotaBoundsTheTeam) {
  TeamRange range = *resolveThreads(0, cpuBudget(twoThreadCores(8), 2.5));
  EXPECT_EQ(range.first, 3);
  EXPECT_EQ(range.most, 3);
  EXPECT_EQ(range.unstopped, 2);
  EXPECT_EQ(range.marks, (std::vector<int>{3, 2}));
  EXPECT_EQ(resolveThreads(0, cpuBudget(twoThreadCores(8), 0.3))->most, 1);
  // The quota allows siblings, but not all of them.
  range = *resolveThreads(0, cpuBudget(twoThreadCores(8), 12));
  EXPECT_EQ(range.first, 8);
  EXPECT_EQ(range.most, 12);
  EXPECT_EQ(resolveThreads(0, cpuBudget(twoThreadCores(8), 99))->most, 16);
  EXPECT_FALSE(resolveThreads(4, cpuBudget(twoThreadCores(8), 2.5)).isOk());
}

TEST(ThreadCountTest, ThisProcessHasACore) {
  CpuBudget budget = readCpuBudget();
  EXPECT_GE(budget.cores, 1);
  EXPECT_GE(budget.cpus, budget.cores);
}

TEST(HostMemoryTest, IsZeroedAndAligned) {
  StatusOr<HostMemory> memory = HostMemory::allocate(10000, "a test");
  ASSERT_TRUE(memory.isOk());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0u);
  for (size_t i = 0; i < memory->size(); ++i)
    ASSERT_EQ(memory->data()[i], std::byte(0));
}

TEST(HostMemoryDeathTest, EndsAtAGuardPage) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  StatusOr<HostMemory> memory = HostMemory::allocate(64, "a test");
  ASSERT_TRUE(memory.isOk());
  EXPECT_DEATH(memory->data()[64] = std::byte(1), "");
}

TEST(HostMemoryTest, MoreThanTheMachineHasDoesNotFit) {
  StatusOr<HostMemory> memory =
      HostMemory::allocate(uint64_t(1) << 47, "the KV cache");
  ASSERT_FALSE(memory.isOk());
  EXPECT_EQ(memory.status().code(), StatusCode::DoesNotFit);
  EXPECT_NE(memory.status().message().find("128.00 TiB of memory for the KV"),
            std::string::npos)
      << memory.status().message();
}

} // namespace
