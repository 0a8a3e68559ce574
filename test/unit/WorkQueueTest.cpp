// Jobs of clients take turns, and large ones leave room for others.

#include "runtime/base/WorkQueue.h"

#include <atomic>
#include <gtest/gtest.h>
#include <latch>
#include <random>
#include <set>

using moert::WorkQueue;

namespace {

/// Jobs that run until they are let go.
class Gate {
public:
  std::function<void()> job() {
    return [this] {
      ++inside;
      gate_.wait();
      --inside;
    };
  }
  void open() { gate_.count_down(); }
  void waitFor(int count) const {
    while (inside < count)
      std::this_thread::yield();
  }

  std::atomic<int> inside = 0;

private:
  std::latch gate_{1};
};

TEST(WorkQueueTest, NoClientHasAllThreads) {
  WorkQueue queue({.threads = 4});
  Gate gate;
  for (int i = 0; i < 20; ++i)
    queue.add({"greedy", 0, gate.job()});
  gate.waitFor(3);
  std::latch done(1);
  queue.add({"other", 0, [&] { done.count_down(); }});
  done.wait();
  EXPECT_EQ(gate.inside, 3);
  gate.open();
}

TEST(WorkQueueTest, SmallJobsPassLargeOnesOfTheSameClient) {
  constexpr uint64_t kMiB = 1 << 20;
  WorkQueue queue({.threads = 4, .bytesTogether = 16 * kMiB});
  Gate gate;
  for (int i = 0; i < 3; ++i)
    queue.add({"", 16 * kMiB, gate.job()});
  gate.waitFor(1);
  for (int i = 0; i < 5; ++i) {
    std::latch done(1);
    queue.add({"", 100, [&] { done.count_down(); }});
    done.wait();
  }
  // Together they have too many bytes.
  EXPECT_EQ(gate.inside, 1);
  gate.open();
}

TEST(WorkQueueTest, LargeJobsRunAloneOrWithFewBytes) {
  constexpr uint64_t kMiB = 1 << 20;
  WorkQueue queue({.threads = 8, .bytesTogether = 16 * kMiB});
  std::mt19937 random(7);
  std::mutex mutex;
  std::multiset<uint64_t> running;
  std::latch done(200);
  for (int i = 0; i < 200; ++i) {
    const uint64_t bytes = kMiB * (1 + random() % 24);
    queue.add({std::to_string(random() % 5), bytes, [&, bytes] {
                 {
                   std::lock_guard lock(mutex);
                   running.insert(bytes);
                   uint64_t sum = 0;
                   for (uint64_t each : running)
                     sum += each;
                   EXPECT_TRUE(running.size() == 1 || sum <= 16 * kMiB);
                   EXPECT_LE(running.size(), 4u);
                 }
                 std::this_thread::yield();
                 std::lock_guard lock(mutex);
                 running.erase(running.find(bytes));
                 done.count_down();
               }});
  }
  done.wait();
}

TEST(WorkQueueTest, ClientsTakeTurnsByTime) {
  // One thread for both, as the others are held.
  WorkQueue queue({.threads = 3});
  Gate first, second;
  queue.add({"a", 0, first.job()});
  queue.add({"b", 0, second.job()});
  first.waitFor(1);
  second.waitFor(1);
  std::mutex mutex;
  std::string order;
  std::latch done(40);
  for (int i = 0; i < 20; ++i)
    for (const char *client : {"slow", "fast"})
      queue.add({client, 0, [&, client] {
                   std::this_thread::sleep_for(
                       std::chrono::microseconds(*client == 's' ? 4000 : 100));
                   std::lock_guard lock(mutex);
                   order += *client;
                   done.count_down();
                 }});
  done.wait();
  // The fast one has ended before the slow one has had a third of its jobs.
  EXPECT_LT(std::ranges::count(order.substr(0, order.rfind('f')), 's'), 7)
      << order;
  first.open();
  second.open();
}

TEST(WorkQueueTest, LimitsOfWhatWaits) {
  WorkQueue queue({.threads = 3, .waiting = 6, .waitingPerClient = 4});
  Gate gate;
  queue.add({"a", 0, gate.job()});
  queue.add({"a", 0, gate.job()});
  queue.add({"b", 0, gate.job()});
  gate.waitFor(3);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(queue.hasRoom("a"));
    queue.add({"a", 0, [] {}});
  }
  EXPECT_FALSE(queue.hasRoom("a"));
  EXPECT_TRUE(queue.hasRoom("b"));
  queue.add({"b", 0, [] {}});
  queue.add({"b", 0, [] {}});
  EXPECT_FALSE(queue.hasRoom("c"));
  gate.open();
}

TEST(WorkQueueTest, WhatWaitsIsDoneBeforeTheEnd) {
  std::atomic<int> count = 0;
  WorkQueue queue({.threads = 3});
  for (int i = 0; i < 100; ++i)
    queue.add({std::to_string(i % 7), 0, [&] { ++count; }});
  queue.stop();
  EXPECT_EQ(count, 100);
  queue.add({"late", 0, [&] { ++count; }});
  EXPECT_EQ(count, 101);
}

} // namespace
