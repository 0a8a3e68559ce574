//===- LaunchTail.cpp - The tiles of a product's last wave ----------------===//

#include "kernels/cuda/Product.h"

namespace moek::cuda {

namespace {
/// The cost of storing and adding a part's sums, as the number of columns that
/// its tile multiplies in that time. By the clock of a 3090, the sums of a tile
/// of 256 x 128 and their addition read and store 190 KiB, which takes a
/// multiprocessor's share of DRAM 18 us, and the tile multiplies 7168 columns
/// in 227 us. Other GPUs have about the same ratio.
constexpr int64_t kSumCols = 512;
/// The cost of starting a part, until its first columns have arrived, in
/// columns.
constexpr int64_t kStartCols = 64;
constexpr int64_t kMostParts = 16;
/// A division has to save at least this fraction of a wave, to be worth the
/// further launch.
constexpr double kWorth = 0.15;
/// Products over this many columns or fewer are not divided: with the most
/// parts, a single round of blocks would not save enough.
constexpr auto kFewCols = int64_t(double(kSumCols + kStartCols) /
                                  (1 - kWorth - 1.0 / double(kMostParts)));

/// Returns the time until all tiles are multiplied and added, in columns of a
/// tile, if the tail has `parts` parts. `slots` is the number of blocks that
/// the GPU holds at once. Blocks begin in their order wherever one has ended,
/// so that slots are at most a part apart when whole tiles begin.
double costOf(const Tail &tail, int64_t parts, int64_t slots, int64_t cols) {
  const int64_t blocks = tail.tiles * parts;
  const auto whole = double(cols);
  const double part =
      whole / double(parts) + double(parts > 1 ? kStartCols : 0);
  const double sums = parts > 1 ? double(kSumCols * blocks) / double(slots) : 0;
  // `late` slots have one part more than the others.
  const double rounds = double(blocks / slots);
  const int64_t late = blocks % slots, wholeLate = tail.whole % slots;
  const double wholeRounds = double(tail.whole / slots);
  double end = rounds * part + wholeRounds * whole;
  if (late > 0)
    end += part;
  if (wholeLate > slots - late)
    end += whole;
  else if (wholeLate > 0)
    end = std::max(end, rounds * part + (wholeRounds + 1) * whole);
  return end + sums;
}
} // namespace

int64_t mostTailBytes(const LaunchContext &context, int64_t cols) {
  // Sums of two tiles for each multiprocessor: the largest tile has 256 x 128
  // floats, which are 128 KiB.
  constexpr int64_t kBytes = 256 << 10;
  return cols <= kFewCols ? 0 : int64_t(context.multiprocessors) * kBytes;
}

Tail tailOf(const Tiles &tiles, const LaunchContext &context) {
  const int64_t all = tiles.columns * tiles.groups;
  const int64_t slots = int64_t(context.multiprocessors) * tiles.resident;
  Tail tail;
  // Whole columns of tiles, so that all rows of activations add in one order.
  tail.whole = all / slots * slots / tiles.groups * tiles.groups;
  tail.tiles = all - tail.whole;
  double least =
      costOf(tail, 1, slots, tiles.cols) - kWorth * double(tiles.cols);
  for (int64_t parts = 2; parts <= kMostParts; ++parts) {
    if (tail.tiles * parts * tiles.sumBytes >
        mostTailBytes(context, tiles.cols))
      break;
    double cost = costOf(tail, parts, slots, tiles.cols);
    if (cost < least) {
      tail.parts = parts;
      least = cost;
    }
  }
  return tail;
}

int64_t tailBytes(const Tail &tail, const Tiles &tiles) {
  return tail.parts > 1 ? tail.tiles * tail.parts * tiles.sumBytes : 0;
}

} // namespace moek::cuda
