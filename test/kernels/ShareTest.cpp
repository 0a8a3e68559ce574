//===- ShareTest.cpp - Workers that divide items of different cost --------===//
//
// Workers run one after the other, in random order: the first ones find
// everything that may be taken from those that have not begun.
//
//===----------------------------------------------------------------------===//

#include "kernels/cpu/Softmax.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

namespace {

using moek::CausalItems;

struct Shares {
  std::vector<int> times; ///< How often each item was processed.
  /// Costs of each worker's items, in the order in which they ran.
  std::vector<int64_t> costs;
};

Shares divide(const CausalItems &items, const std::vector<int32_t> &order,
              bool withTickets) {
  constexpr int64_t kStride = 16;
  std::vector<uint32_t> tickets(order.size() * kStride);
  Shares shares;
  shares.times.resize(size_t(items.groups * items.count * items.inner));
  for (int32_t index : order) {
    moek::Worker worker{index, int32_t(order.size()), nullptr};
    worker.ticketStride = kStride;
    if (withTickets)
      worker.tickets = tickets.data();
    int64_t cost = 0;
    moek::forCausalItems(items, worker, [&](int64_t item) {
      ++shares.times[size_t(item)];
      cost += items.cost(item / items.inner % items.count);
    });
    shares.costs.push_back(cost);
  }
  return shares;
}

TEST(CausalShares, EveryItemIsProcessedOnce) {
  std::mt19937 random(20);
  auto upTo = [&](int64_t most) { return 1 + int64_t(random() % most); };
  for (int i = 0; i < 300; ++i) {
    CausalItems items{upTo(9), upTo(40), upTo(3), upTo(500) - 1};
    if (random() % 2)
      items.window = upTo(300);
    std::vector<int32_t> order(size_t(upTo(20)));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (bool withTickets : {false, true})
      for (int times : divide(items, order, withTickets).times)
        ASSERT_EQ(times, 1) << items.groups << " groups of " << items.count
                            << " x " << items.inner << ", " << order.size()
                            << " workers, tickets " << withTickets;
  }
}

// An item may exceed a share's end, so that shares are equal up to an item.
TEST(CausalShares, CostTheSame) {
  const CausalItems items{4, 64, 1, 100};
  const int64_t total = 4 * items.sum(), dearest = items.cost(63);
  for (int64_t cost : divide(items, {0, 1, 2, 3, 4, 5, 6}, false).costs)
    EXPECT_LE(std::abs(cost - total / 7), dearest);
}

TEST(CausalShares, WhoFinishesFirstTakesHalfOfAnothersShare) {
  const CausalItems items{4, 64, 1, 100};
  const int64_t total = 4 * items.sum();
  const std::vector<int64_t> costs = divide(items, {1, 0}, true).costs;
  EXPECT_GT(costs[0], total * 7 / 10);
  EXPECT_LT(costs[1], total * 3 / 10);
}

} // namespace
