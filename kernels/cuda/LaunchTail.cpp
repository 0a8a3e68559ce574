//===- LaunchTail.cpp - Which tiles of a product are divided --------------===//
//
// All times are in columns: what a block takes for a column of a tile. A GPU
// has slots for blocks; if T tiles are no multiple of S slots, ceil(T / S)
// tiles' time is more than T / S. Two ways to divide some tiles are compared
// with each other and with none:
//
// In place. The columns of some tiles, written one tile behind the other, are
// cut into shares of equal length, and a share that spans two tiles is cut
// again where the first one ends (partsOf()). So a tile has two or three parts,
// of different lengths. Blocks with the longest parts begin first and shorter
// ones follow on multiprocessors that become free. The block that ends last of
// a tile's parts loads the sums of the others and adds them to its own. All
// groups of rows of activations are cut at the same columns, so that a row has
// the same bits in every group. Tiles that are not cut follow, in full waves.
//
// By a second launch. Each tile of the last wave has the same number of equal
// parts, and a second launch adds their sums. All multiprocessors share these
// additions, so that this way is better where a tile has many parts.
//
//===----------------------------------------------------------------------===//

#include "kernels/cuda/Product.h"

#include <queue>

namespace moek::cuda {

namespace {
/// Costs in columns of a part that is added in place: kPartCols until its first
/// columns have arrived and to store results, kMoveCols to load another part's
/// sums. In the simulation of a 5090, tiles of 256 x 128 multiply a column in
/// 49 cycles, a part begins after 5700 cycles, and results or sums of a tile
/// are stored or loaded in 9400 cycles.
constexpr int64_t kPartCols = 288, kMoveCols = 192;
/// The cost of storing a part's sums and adding them by a second launch, if all
/// multiprocessors do so. In the simulation of a 3090, that reads and stores
/// 190 KiB for a tile of 256 x 128, which takes a multiprocessor's share of
/// DRAM 18 us, and the tile multiplies 7168 columns in 227 us. Other GPUs have
/// about the same ratio.
constexpr int64_t kSumCols = 512;
/// The cost of starting a part, until its first columns have arrived.
constexpr int64_t kStartCols = 64;
constexpr int64_t kMostParts = 16;
/// A division has to save at least these fractions of a wave: it costs more
/// memory, and with a second launch also the launch.
constexpr double kWorthInPlace = 0.05, kWorth = 0.15;
/// Products over this many columns or fewer are not divided: with the most
/// parts, a single round of blocks would not save enough.
constexpr auto kFewCols = int64_t(double(kSumCols + kStartCols) /
                                  (1 - kWorth - 1.0 / double(kMostParts)));

/// Returns the time until `whole` whole tiles and `divided` ones of `parts`
/// equal parts each are multiplied and added by a second launch. Blocks begin
/// in their order wherever one has ended, so that slots are at most a part
/// apart when whole tiles begin.
double costOf(int64_t whole, int64_t divided, int64_t parts, int64_t slots,
              int64_t cols) {
  const int64_t blocks = divided * parts;
  const auto tile = double(cols);
  const double part = tile / double(parts) + double(parts > 1 ? kStartCols : 0);
  const double sums = parts > 1 ? double(kSumCols * blocks) / double(slots) : 0;
  // `late` slots have one part more than the others.
  const double rounds = double(blocks / slots);
  const int64_t late = blocks % slots, wholeLate = whole % slots;
  const double wholeRounds = double(whole / slots);
  double end = rounds * part + wholeRounds * tile;
  if (late > 0)
    end += part;
  if (wholeLate > slots - late)
    end += tile;
  else if (wholeLate > 0)
    end = std::max(end, rounds * part + (wholeRounds + 1) * tile);
  return end + sums;
}

/// Returns the time until `slots` blocks at once have multiplied the parts of
/// one group of rows, in their order, and then `whole` whole tiles. Any part
/// may be the one that adds.
int64_t costOf(const std::vector<TailPart> &parts, const Tiles &tiles,
               int64_t slots, int64_t whole) {
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> free;
  for (int64_t i = 0; i < slots; ++i)
    free.push(0);
  int64_t end = 0;
  auto run = [&](int64_t cols) {
    const int64_t until = free.top() + kPartCols + cols;
    free.pop();
    free.push(until);
    end = std::max(end, until);
  };
  for (const TailPart &part : parts)
    run((part.end - part.begin) * tiles.stepCols +
        kMoveCols * (part.count - 1));
  for (int64_t i = 0; i < whole; ++i)
    run(tiles.cols);
  return end;
}

/// Finds the best division of each way.
class Division {
public:
  Division(const Tiles &tiles, const LaunchContext &context)
      : tiles_(tiles),
        slots_(int64_t(context.multiprocessors) * tiles.resident),
        mostSums_(mostTailBytes(context, tiles.cols) / tiles.sumBytes) {}

  Tail best() {
    const double none = costOf(tiles_.all(), 0, 1, slots_, tiles_.cols);
    least_ = none - kWorthInPlace * double(tiles_.cols);
    tryInPlace();
    least_ = std::min(least_, none - kWorth * double(tiles_.cols));
    trySecondLaunch();
    return tail_;
  }

private:
  void tryInPlace() {
    // Blocks of a group of rows that run at once.
    const int64_t slots = slots_ / tiles_.groups;
    for (int64_t waves = tiles_.all() / slots_; slots > 0 && waves >= 0;
         --waves) {
      const int64_t whole = std::min(tiles_.columns, waves * slots);
      const int64_t columns = tiles_.columns - whole;
      if (columns > slots || columns * tiles_.groups > kTickets)
        break;
      for (int64_t shares = columns + 1; columns > 0 && shares <= slots;
           ++shares) {
        const int64_t share = columns * tiles_.cols / shares;
        const int64_t most = columns + shares;
        if (most > kMostTailParts || most * tiles_.groups > mostSums_)
          break;
        if (double(waves * tiles_.cols + share) >= least_)
          continue;
        std::vector<TailPart> parts = partsOf(columns, tiles_.steps(), shares);
        auto cost = double(costOf(parts, tiles_, slots, whole));
        if (cost < least_) {
          least_ = cost;
          const auto count = int64_t(parts.size());
          tail_ = {columns, count, std::move(parts)};
        }
      }
    }
  }

  void trySecondLaunch() {
    // Whole columns of tiles, so that all rows of activations add in one order.
    const int64_t whole = tiles_.all() / slots_ * slots_ / tiles_.groups;
    const int64_t columns = tiles_.columns - whole;
    if (columns == 0)
      return;
    for (int64_t parts = 2;
         parts <= kMostParts && columns * parts * tiles_.groups <= mostSums_;
         ++parts) {
      double cost = costOf(whole * tiles_.groups, columns * tiles_.groups,
                           parts, slots_, tiles_.cols);
      if (cost < least_) {
        least_ = cost;
        tail_ = {columns, columns * parts, {}};
      }
    }
  }

  const Tiles &tiles_;
  const int64_t slots_, mostSums_;
  double least_ = 0;
  Tail tail_;
};
} // namespace

int64_t mostTailBytes(const LaunchContext &context, int64_t cols) {
  // Sums of two tiles for each multiprocessor: the largest tile has 256 x 128
  // floats, which are 128 KiB.
  constexpr int64_t kBytes = 256 << 10;
  return cols <= kFewCols ? 0 : int64_t(context.multiprocessors) * kBytes;
}

std::vector<TailPart> partsOf(int64_t columns, int64_t steps, int64_t shares) {
  std::vector<TailPart> parts;
  const int64_t all = columns * steps;
  int64_t share = 1; // The share whose end comes next.
  for (int64_t column = 0; column < columns; ++column) {
    const size_t first = parts.size();
    for (int64_t begin = 0; begin < steps;) {
      const int64_t cut = all * share / shares - column * steps;
      const int64_t end = std::min(cut, steps);
      if (end > begin)
        parts.push_back({u16(begin), u16(end), u8(column),
                         u8(parts.size() - first), 0, u8(first)});
      share += cut <= steps;
      begin = std::max(begin, end);
    }
    for (size_t i = first; i < parts.size(); ++i)
      parts[i].count = u8(parts.size() - first);
  }
  std::ranges::stable_sort(parts, std::greater(), [](const TailPart &part) {
    return part.end - part.begin;
  });
  return parts;
}

Tail tailOf(const Tiles &tiles, const LaunchContext &context) {
  return Division(tiles, context).best();
}

int64_t tailBytes(const Tail &tail, const Tiles &tiles) {
  return tail.parts * tiles.groups * tiles.sumBytes;
}

} // namespace moek::cuda
