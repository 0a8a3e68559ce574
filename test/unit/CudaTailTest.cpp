// Some tiles of a product are divided by columns (kernels/cuda/Tail.cuh).
#include "kernels/cuda/Product.h"

#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>

using namespace moek::cuda;

namespace {

LaunchContext gpuOf(int multiprocessors) {
  LaunchContext context;
  context.multiprocessors = multiprocessors;
  return context;
}
/// Tiles of 256 x 128 of [rows, cols] weights and `tokens` rows of activations,
/// as Gemm.cu has them.
Tiles largeTiles(int64_t rows, int64_t cols, int64_t tokens) {
  return {(rows + 255) / 256, (tokens + 127) / 128, cols, 128, 1,
          256 * 128 * 4};
}
/// The steps of the longest time that a block of a group of rows is busy, if
/// `slots` blocks run at once and begin in their order.
int64_t longestOf(const Tail &tail, const Tiles &tiles, int64_t slots) {
  std::vector<int64_t> busy(static_cast<size_t>(slots));
  auto run = [&](int64_t steps) { *std::ranges::min_element(busy) += steps; };
  for (const TailPart &part : tail.inPlace)
    run(part.end - part.begin);
  for (int64_t i = tail.columns; i < tiles.columns; ++i)
    run(tiles.steps());
  return *std::ranges::max_element(busy);
}

// Each step of each tile column is in one part, and parts are numbered.
TEST(CudaTail, PartsAreAllSteps) {
  std::mt19937 random(1);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int i = 0; i < 500; ++i) {
    const int64_t columns = 1 + below(40), steps = 5 + below(200);
    const int64_t shares = columns + below(3 * columns);
    SCOPED_TRACE(testing::Message() << columns << " tile columns of " << steps
                                    << " steps, " << shares << " shares");
    std::vector<TailPart> parts = partsOf(columns, steps, shares);
    // At most so many parts, because shares and tiles end at so many places.
    EXPECT_LE(int64_t(parts.size()),
              columns + shares - std::gcd(columns, shares));
    EXPECT_TRUE(std::ranges::is_sorted(parts, std::greater(), [](auto &part) {
      return part.end - part.begin;
    }));
    std::map<int, std::map<int, TailPart>> of;
    for (const TailPart &part : parts) {
      EXPECT_LT(part.begin, part.end);
      EXPECT_LE((part.end - part.begin) * shares, columns * steps + shares);
      EXPECT_TRUE(of[part.column].emplace(part.number, part).second);
    }
    ASSERT_EQ(int64_t(of.size()), columns);
    size_t first = 0;
    for (const auto &[column, own] : of) {
      int end = 0, number = 0;
      for (const auto &[key, part] : own) {
        EXPECT_EQ(part.number, number++);
        EXPECT_EQ(part.count, own.size());
        EXPECT_EQ(part.first, first);
        EXPECT_EQ(part.begin, end);
        end = part.end;
      }
      EXPECT_EQ(end, steps);
      first += own.size();
    }
  }
}

// 512 rows of 8192 x 7168 are 32 x 4 tiles. Two waves of a 3090 would be 1.56
// waves' work, and a 5090 has 42 more multiprocessors than tiles.
TEST(CudaTail, FewPartsAreAddedInPlace) {
  struct {
    int multiprocessors;
    double waves;        ///< The most waves.
    int64_t partsOfTile; ///< The most parts of a tile on average.
  } wanted[] = {{82, 1.65, 3}, {170, 0.86, 3}};
  for (const auto &gpu : wanted) {
    SCOPED_TRACE(gpu.multiprocessors);
    const Tiles tiles = largeTiles(8192, 7168, 512);
    const Tail tail = tailOf(tiles, gpuOf(gpu.multiprocessors));
    ASSERT_FALSE(tail.inPlace.empty());
    EXPECT_EQ(tail.parts, int64_t(tail.inPlace.size()));
    EXPECT_LE(tail.parts, gpu.partsOfTile * tail.columns);
    EXPECT_LE(longestOf(tail, tiles, gpu.multiprocessors / 4),
              int64_t(gpu.waves * double(tiles.steps())));
  }
}

// Twelve tiles on 170 multiprocessors have fourteen parts each: many blocks
// share their addition.
TEST(CudaTail, ManyPartsAreAddedByASecondLaunch) {
  const Tail tail = tailOf(largeTiles(576, 7168, 512), gpuOf(170));
  EXPECT_TRUE(tail.isDivided());
  EXPECT_TRUE(tail.inPlace.empty());
  EXPECT_EQ(tail.columns, 3);
  EXPECT_EQ(tail.parts % tail.columns, 0);
  EXPECT_GE(tail.parts, 3 * 10);
}

TEST(CudaTail, FullWavesAndFewColumnsAreWhole) {
  EXPECT_FALSE(tailOf(largeTiles(8192, 7168, 512), gpuOf(128)).isDivided());
  EXPECT_FALSE(tailOf(largeTiles(8192, 7168, 512), gpuOf(132)).isDivided());
  EXPECT_FALSE(tailOf(largeTiles(8192, 512, 512), gpuOf(170)).isDivided());
}

// Whatever the shape: no more memory than placement assumes, counters that a
// step has, parts that arguments have room for, and no idle block.
TEST(CudaTail, KeepsItsLimits) {
  std::mt19937 random(2);
  int inPlace = 0, byLaunch = 0;
  for (int i = 0; i < 2000; ++i) {
    const int64_t resident = 1 + int64_t(random() % 4);
    const Tiles tiles{1 + int64_t(random() % 150),
                      1 + int64_t(random() % 20),
                      32 * (8 + int64_t(random() % 500)),
                      resident == 1 ? 128 : 64,
                      resident,
                      (256 * 128 * 4) / resident};
    const LaunchContext gpu = gpuOf(20 + int(random() % 160));
    SCOPED_TRACE(testing::Message()
                 << tiles.columns << " x " << tiles.groups << " tiles of "
                 << tiles.cols << " columns, " << resident
                 << " blocks on each of " << gpu.multiprocessors);
    const Tail tail = tailOf(tiles, gpu);
    EXPECT_LE(tailBytes(tail, tiles), mostTailBytes(gpu, tiles.cols));
    if (!tail.isDivided()) {
      EXPECT_EQ(tail.parts, 0);
      continue;
    }
    EXPECT_LE(tail.columns, tiles.columns);
    if (tail.inPlace.empty()) {
      ++byLaunch;
      EXPECT_EQ(tail.parts % tail.columns, 0);
      continue;
    }
    ++inPlace;
    EXPECT_LE(int(tail.inPlace.size()), kMostTailParts);
    EXPECT_LE(tail.columns * tiles.groups, kTickets);
    EXPECT_LT(
        longestOf(tail, tiles, gpu.multiprocessors * resident / tiles.groups),
        (tiles.all() + gpu.multiprocessors * resident - 1) /
            (gpu.multiprocessors * resident) * tiles.steps());
  }
  EXPECT_GT(inPlace, 100);
  EXPECT_GT(byLaunch, 100);
}

} // namespace
