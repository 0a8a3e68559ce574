//===- LaunchTail.cpp - The tiles of a product's last wave ----------------===//

#include "kernels/cuda/Product.h"

namespace moek::cuda {

namespace {
/// The cost of storing and adding a part's sums, as the number of columns that
/// its tile multiplies in that time. By the clock of a 3090: the sums of a tile
/// of 128 x 128 and their addition move 128 KiB, which takes a multiprocessor's
/// share of DRAM 23 us, and the tile multiplies 7168 columns in 300 us. Other
/// GPUs have about the same ratio.
constexpr int64_t kPartCols = 512;
constexpr int64_t kMostParts = 16;
/// A division has to save at least this fraction of a wave, to be worth the
/// further launch.
constexpr double kWorth = 0.2;
/// Products over this many columns or fewer are not divided: with the most
/// parts, a single round of blocks would not save enough.
constexpr auto kFewCols =
    int64_t(double(kPartCols) / (1 - kWorth - 1.0 / double(kMostParts)));
} // namespace

int64_t mostTailBytes(const LaunchContext &context, int64_t cols) {
  constexpr int64_t kTileBytes = 128 << 10;
  return cols <= kFewCols ? 0 : int64_t(context.multiprocessors) * kTileBytes;
}

Tail tailOf(const Tiles &tiles, const LaunchContext &context) {
  const int64_t all = tiles.columns * tiles.groups;
  const int64_t slots = int64_t(context.multiprocessors) * tiles.resident;
  Tail tail;
  // Whole columns of tiles, so that all rows of activations add in one order.
  tail.whole = all / slots * slots / tiles.groups * tiles.groups;
  tail.tiles = all - tail.whole;
  auto costOf = [&](int64_t parts) {
    int64_t rounds = (tail.tiles * parts + slots - 1) / slots;
    return double(rounds) *
           (double(tiles.cols) / double(parts) + (parts > 1 ? kPartCols : 0));
  };
  double least = costOf(1) - kWorth * double(tiles.cols);
  for (int64_t parts = 2; parts <= kMostParts; ++parts) {
    if (tail.tiles * parts * tiles.sumBytes >
        mostTailBytes(context, tiles.cols))
      break;
    if (costOf(parts) < least) {
      tail.parts = parts;
      least = costOf(parts);
    }
  }
  return tail;
}

int64_t tailBytes(const Tail &tail, const Tiles &tiles) {
  return tail.parts > 1 ? tail.tiles * tail.parts * tiles.sumBytes : 0;
}

} // namespace moek::cuda
