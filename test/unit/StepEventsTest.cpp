// Events of a step, and thread pools whose caller is no worker.
#include "runtime/device/StepEvents.h"

#include "runtime/device/cpu/WorkerPool.h"

#include <gtest/gtest.h>
#include <numeric>
#include <thread>

using namespace moert;

namespace {

// The variables are plain ints: under ThreadSanitizer, this proves that an
// event orders writes of all signalling workers before reads after it.
TEST(StepEventsTest, MakeWritesOfAllWorkersVisible) {
  constexpr int32_t team = 3;
  auto makers = *WorkerPool::create(team, {}, FirstWorker::Thread);
  auto readers = *WorkerPool::create(2);
  StepEvents events(1);
  std::vector<int> slots(size_t(team), 0);
  std::vector<int> wrong(2, 0);
  for (int step = 1; step <= 200; ++step) {
    events.beginStep();
    auto make = [&](int32_t worker) {
      slots[size_t(worker)] = step;
      events.arrive(0, team);
    };
    auto read = [&](int32_t worker) {
      events.wait(0);
      for (int seen : slots)
        wrong[size_t(worker)] += seen != step;
    };
    makers->start(team, make);
    readers->start(2, read);
    readers->finish();
    makers->finish();
  }
  EXPECT_EQ(wrong, std::vector<int>(2, 0));
}

// The step is stopped when some of its workers have already arrived.
TEST(StepEventsTest, AStoppedStepReleasesAllAndLeavesNothing) {
  StepEvents events(2);
  for (int step = 0; step < 50; ++step) {
    events.beginStep();
    EXPECT_FALSE(events.stopped());
    std::thread waiter([&] { events.wait(1); });
    events.arrive(0, 1);
    events.arrive(1, 2);
    if (step % 2 == 0) {
      events.stop();
      EXPECT_TRUE(events.stopped());
    } else {
      events.arrive(1, 2);
    }
    waiter.join();
  }
}

TEST(StepEventsTest, EventsOfThePreviousStepDoNotCount) {
  StepEvents events(1);
  events.beginStep();
  events.arrive(0, 1);
  events.wait(0);
  events.beginStep();
  std::atomic<bool> passed = false;
  std::thread waiter([&] {
    events.wait(0);
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(passed);
  events.arrive(0, 1);
  waiter.join();
}

TEST(WorkerPoolTest, TheCallerNeedNotBeAWorker) {
  for (int32_t team : {1, 2, 5}) {
    auto pool = *WorkerPool::create(team, {}, FirstWorker::Thread);
    auto caller = std::this_thread::get_id();
    std::vector<int> calls(size_t(team), 0);
    for (int round = 0; round < 100; ++round)
      pool->run([&](int32_t worker) {
        calls[size_t(worker)] += std::this_thread::get_id() != caller;
      });
    EXPECT_EQ(calls, std::vector<int>(size_t(team), 100));
  }
}

} // namespace
