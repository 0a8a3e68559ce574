//===- LaunchTail.cpp - The tiles of a product's last wave ----------------===//

#include "kernels/cuda/Product.h"

namespace moek::cuda {

namespace {
/// What storing a part's sums and adding them costs, in columns of its tile:
/// 128 KiB for 128 x 128 of them, 23 us of a 3090's part of DRAM for a block
/// that multiplies 7168 columns in 300, and as much on the others.
constexpr int64_t kPartCols = 512;
constexpr int64_t kMostParts = 16;
/// The parts that are worth a launch more save at least this part of a wave.
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
