// The time of a step: schedules made by hand, and random ones against a clock
// that ticks.

#include "passes/schedule/Schedule.h"

#include <gtest/gtest.h>
#include <random>

using moec::simulate;
using moec::Task;
using moec::TaskQueue;

namespace {

/// A GPU and a CPU.
moec::TargetDesc machine(bool sharesMemory = false) {
  moec::TargetDesc target{"test", std::vector<moec::DeviceDesc>(2), {}};
  for (moec::DeviceDesc &device : target.devices)
    device.read = {10, 1, {}};
  target.devices[0].kind = moec::DeviceKind::Cuda;
  target.devices[0].sharesMemory = sharesMemory;
  target.devices[1].overheads.instruction = 0.25;
  target.devices[1].overheads.barrier = 0.5;
  return target;
}

TEST(Schedule, QueuesWorkAtTheSameTime) {
  std::vector<TaskQueue> queues(2);
  auto times = simulate({{0, 3}, {1, 2}, {0, 1, {1}}}, queues, machine());
  EXPECT_EQ(times.ends, (std::vector<double>{3, 2, 4}));
  EXPECT_EQ(times.end, 4);
  EXPECT_EQ(times.sum, 6);
}

TEST(Schedule, ATaskStartsAfterAllThatItFollows) {
  std::vector<TaskQueue> queues(3);
  auto times = simulate({{0, 3}, {1, 5}, {2, 1, {0, 1}}, {0, 1, {2}}, {1, 1}},
                        queues, machine());
  EXPECT_EQ(times.ends, (std::vector<double>{3, 5, 6, 7, 6}));
}

TEST(Schedule, ALateTaskHoldsBackItsQueue) {
  std::vector<TaskQueue> queues(2);
  auto times = simulate({{0, 7}, {1, 1, {0}}, {1, 1}}, queues, machine());
  EXPECT_EQ(times.ends, (std::vector<double>{7, 8, 9}));
}

TEST(Schedule, StartsAndBarriersTakeTheQueuesTime) {
  auto target = machine();
  std::vector<TaskQueue> queues{TaskQueue::of(0, target),
                                TaskQueue::of(1, target)};
  auto times =
      simulate({{1, 1}, {1, 1, {}, true}, {0, 1, {1}, true}}, queues, target);
  EXPECT_EQ(times.ends, (std::vector<double>{1.25, 3, 4}));
  EXPECT_EQ(times.sum, 4);
}

TEST(Schedule, DevicesOfOneMemoryDelayEachOther) {
  std::vector<TaskQueue> queues{{0}, {1}, {-1}};
  std::vector<Task> tasks{
      {0, 5, {}, false, 50}, {1, 5, {}, false, 50}, {2, 5, {}, false, 50}};
  EXPECT_EQ(simulate(tasks, queues, machine()).end, 5);
  auto times = simulate(tasks, queues, machine(/*sharesMemory=*/true));
  EXPECT_EQ(times.ends, (std::vector<double>{5, 10, 5}));
  EXPECT_EQ(times.sum, 15);
}

TEST(Schedule, NothingTakesNoTime) {
  auto times = simulate({}, {}, machine());
  EXPECT_EQ(times.end, 0);
  EXPECT_EQ(times.sum, 0);
}

/// Returns the ends of tasks with whole seconds. In each second, each queue
/// goes on with its first task that has not ended, if that has begun or may
/// begin.
std::vector<double> tick(const std::vector<Task> &tasks, size_t queues) {
  std::vector<int> left;
  std::vector<double> ends(tasks.size(), -1);
  for (const Task &task : tasks)
    left.push_back(int(task.seconds));
  for (int now = 0;; ++now) {
    bool changed = true, ended = true;
    // Tasks that take no time may end at the same second.
    while (changed) {
      changed = false;
      for (size_t i = 0; i < tasks.size(); ++i) {
        bool isFirst = true, mayBegin = true;
        for (size_t j = 0; j < i; ++j)
          isFirst &= tasks[j].queue != tasks[i].queue || ends[j] >= 0;
        for (int earlier : tasks[i].after)
          mayBegin &= ends[size_t(earlier)] >= 0;
        if (ends[i] < 0 && isFirst && mayBegin && left[i] == 0) {
          ends[i] = now;
          changed = true;
        }
      }
    }
    std::vector<bool> works(queues);
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (ends[i] >= 0)
        continue;
      ended = false;
      bool mayBegin = !works[size_t(tasks[i].queue)];
      works[size_t(tasks[i].queue)] = true;
      for (int earlier : tasks[i].after)
        mayBegin &= ends[size_t(earlier)] >= 0;
      left[i] -= mayBegin;
    }
    if (ended)
      return ends;
  }
}

TEST(Schedule, RandomTasksEndAsOnAClock) {
  std::mt19937 engine(45);
  auto upTo = [&](unsigned most) { return int(engine() % (most + 1)); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<TaskQueue> queues(size_t(1 + upTo(3)));
    std::vector<Task> tasks(size_t(upTo(12)));
    double sum = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].queue = upTo(unsigned(queues.size()) - 1);
      tasks[i].seconds = upTo(6);
      sum += tasks[i].seconds;
      for (int j = 0; j < int(i); ++j)
        if (upTo(3) == 0)
          tasks[i].after.push_back(j);
    }
    auto times = simulate(tasks, queues, machine());
    std::vector<double> judged = tick(tasks, queues.size());
    ASSERT_EQ(times.ends, judged) << "round " << round;
    double last = 0;
    for (double end : judged)
      last = std::max(last, end);
    EXPECT_EQ(times.end, last);
    EXPECT_EQ(times.sum, sum);
  }
}

} // namespace
