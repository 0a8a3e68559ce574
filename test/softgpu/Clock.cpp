#include "test/softgpu/Clock.h"

#include "kernels/cuda/Limits.h"
#include "test/softgpu/Multiprocessor.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace softgpu {

/// After so many instructions of warps a replay ends, and the time of the
/// multiprocessor's other blocks is extrapolated.
static constexpr uint64_t kReplayed = 6'000'000;

std::string_view LaunchTime::bound() const {
  std::pair<double, std::string_view> most = {0.5, "latency"};
  for (auto [busy, name] : {std::pair<double, std::string_view>{dram, "DRAM"},
                            {l2, "L2"},
                            {tensor, "mma"},
                            {issue, "issue"},
                            {floats, "float"},
                            {integers, "integer"},
                            {special, "special"},
                            {shared, "shared"}})
    if (busy > most.first)
      most = {busy, name};
  return most.second;
}

std::vector<uint64_t> sampleOrder(uint64_t blocks) {
  // Steps of the golden ratio spread any number of blocks evenly.
  std::vector<uint64_t> order;
  auto step = std::max<uint64_t>(1, uint64_t(double(blocks) * 0.6180339887));
  while (std::gcd(step, blocks) != 1)
    ++step;
  uint64_t at = blocks - 1;
  for (uint64_t i = 0; i < blocks; ++i, at = (at + step) % blocks)
    order.push_back(at);
  return order;
}

namespace {

/// The place of a block in the grid, each dimension from 0 to 1.
struct GridPlace {
  double x, y, z;
  double distance(const GridPlace &other) const {
    return std::abs(x - other.x) + std::abs(y - other.y) +
           std::abs(z - other.z);
  }
};

class Grid {
public:
  Grid(const LaunchShape &shape, const Recording &recording)
      : shape_(shape), recording_(recording) {
    classOf_.assign(recording.grid, ~0u);
    for (auto [block, of] : recording.executed)
      classOf_[block] = of;
    for (uint64_t b = 0; b < recording.grid; ++b)
      if (classOf_[b] == ~0u)
        classOf_[b] = nearest(b);
  }
  uint32_t classOf(uint64_t block) const { return classOf_[block]; }

private:
  GridPlace placeOf(uint64_t block) const {
    const uint32_t *g = shape_.grid;
    return {double(block % g[0]) / g[0], double(block / g[0] % g[1]) / g[1],
            double(block / g[0] / g[1]) / g[2]};
  }
  uint32_t nearest(uint64_t block) const {
    GridPlace place = placeOf(block);
    double least = 1e9;
    uint32_t best = 0;
    // The newest thousand are enough.
    size_t count = std::min<size_t>(recording_.executed.size(), 1000);
    for (size_t i = recording_.executed.size() - count;
         i < recording_.executed.size(); ++i) {
      auto [other, of] = recording_.executed[i];
      double distance = place.distance(placeOf(other));
      if (distance < least)
        least = distance, best = of;
    }
    return best;
  }

  const LaunchShape &shape_;
  const Recording &recording_;
  std::vector<uint32_t> classOf_;
};

/// The blocks of each cluster of the grid, by rank.
std::vector<std::vector<uint64_t>> clustersOf(const Kernel &kernel,
                                              const LaunchShape &shape) {
  const uint32_t *grid = shape.grid, *each = kernel.cluster;
  std::vector<std::vector<uint64_t>> clusters;
  for (uint64_t z = 0; z < grid[2]; z += each[2])
    for (uint64_t y = 0; y < grid[1]; y += each[1])
      for (uint64_t x = 0; x < grid[0]; x += each[0]) {
        std::vector<uint64_t> &own = clusters.emplace_back();
        for (uint64_t r = 0; r < kernel.clusterBlocks(); ++r)
          own.push_back(x + r % each[0] +
                        grid[0] * (y + r / each[0] % each[1] +
                                   grid[1] * (z + r / each[0] / each[1])));
      }
  return clusters;
}

/// Deals clusters of blocks to groups of multiprocessors, each to the place
/// that becomes free first by a rough cost of blocks in cycles, and returns the
/// blocks of the multiprocessor with most work. Blocks without a cluster are
/// clusters of one.
std::vector<uint64_t> lastOf(const Grid &grid, const Recording &recording,
                             const std::vector<std::vector<uint64_t>> &clusters,
                             int resident, int &busy) {
  const GpuModel &gpu = *recording.gpu;
  const size_t size = clusters.front().size();
  const int groups =
      size == 1 ? gpu.multiprocessors : std::max(1, gpu.clustersOf(int(size)));
  auto cost = [&](uint64_t block) {
    const BlockClass &of = recording.classes[grid.classOf(block)];
    return 300 + double(of.instructions) / 2 + double(of.bytes[1]) / 16;
  };
  struct Slot {
    double until;
    int turn, group;
    bool operator>(const Slot &other) const {
      return until != other.until ? until > other.until : turn > other.turn;
    }
  };
  std::priority_queue<Slot, std::vector<Slot>, std::greater<Slot>> slots;
  int turn = 0;
  for (int r = 0; r < resident; ++r)
    for (int g = 0; g < groups; ++g)
      slots.push({0, turn++, g});
  std::vector<std::vector<uint64_t>> of(size_t(groups) * size);
  std::vector<double> load(of.size());
  for (const std::vector<uint64_t> &cluster : clusters) {
    Slot slot = slots.top();
    slots.pop();
    double most = 0;
    for (size_t rank = 0; rank < size; ++rank) {
      size_t m = size_t(slot.group) * size + rank;
      of[m].push_back(cluster[rank]);
      load[m] += cost(cluster[rank]);
      most = std::max(most, cost(cluster[rank]));
    }
    slot.until += most;
    slots.push(slot);
  }
  size_t last = 0;
  for (size_t m = 0; m < of.size(); ++m) {
    busy += !of[m].empty();
    if (load[m] > load[last])
      last = m;
  }
  return of[last];
}

/// Returns, for each op, the part of what it reads beyond L1 that DRAM serves.
/// Ops whose addresses overlap read the same memory. If blocks were left out,
/// DRAM serves what lies between its first and last address once.
std::vector<double> coldParts(const Recording &recording) {
  std::vector<double> cold(recording.sources.size(), 0);
  std::vector<size_t> order;
  for (size_t i = 0; i < cold.size(); ++i)
    if (recording.sources[i].requested)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return recording.sources[a].begin < recording.sources[b].begin;
  });
  double scale = double(recording.grid) / double(recording.executed.size());
  for (size_t first = 0, next; first < order.size(); first = next) {
    Recording::Source all = recording.sources[order[first]];
    for (next = first + 1;
         next < order.size() && recording.sources[order[next]].begin < all.end;
         ++next) {
      const Recording::Source &more = recording.sources[order[next]];
      all.end = std::max(all.end, more.end);
      all.requested += more.requested;
      all.cold += more.cold;
    }
    const uint64_t touched = all.end - all.begin;
    auto once = double(touched - recording.warmBetween(all.begin, all.end));
    double part = double(all.cold) / double(all.requested);
    if (scale > 1)
      part = all.cold == 0 || touched < recording.warmBytes
                 ? 0
                 : std::min(1.0, once / (double(all.requested) * scale));
    for (size_t i = first; i < next; ++i)
      cold[order[i]] = part;
  }
  return cold;
}

} // namespace

LaunchTime timeOf(const Kernel &kernel, const LaunchShape &shape,
                  const Resources &resources, const Recording &recording,
                  int leastStall) {
  const GpuModel &gpu = *recording.gpu;
  LaunchTime time;
  time.blocks = recording.grid;
  time.executed = recording.executed.size();
  if (recording.executed.empty())
    return time;
  int threads = int(shape.threads[0] * shape.threads[1] * shape.threads[2]);
  int warps = (threads + 31) / 32;
  time.resident =
      std::max(1, moek::cuda::residentWarps(
                      gpu.arch, threads, resources.registers,
                      int64_t(kernel.sharedBytes) + shape.dynamicSharedBytes) /
                      warps);
  MachineCode code = machineCodeOf(kernel, recording.regions, gpu, resources);
  Grid grid(shape, recording);
  std::vector<uint64_t> own = lastOf(grid, recording, clustersOf(kernel, shape),
                                     time.resident, time.busy);

  ReplayInput input;
  input.kernel = &kernel;
  input.code = &code;
  input.gpu = &gpu;
  input.cold = coldParts(recording);
  input.resident = time.resident;
  // The replayed multiprocessor's share of the rates of L2 and DRAM is its
  // share of the launch's bytes.
  double all[3] = {}, mine[3] = {};
  auto add = [&](double *to, uint64_t block) {
    const BlockClass &of = recording.classes[grid.classOf(block)];
    for (int i = 0; i < 3; ++i)
      to[i] += double(of.bytes[i]);
  };
  for (uint64_t b = 0; b < recording.grid; ++b)
    add(all, b);
  for (uint64_t b : own)
    add(mine, b);
  auto part = [&](int i) {
    double even = double(own.size()) / double(recording.grid);
    return all[i] > 0 && mine[i] > 0 ? mine[i] / all[i] : even;
  };
  double bytesPerCycle = gpu.gigabytes * gpu.dramEfficiency / gpu.gigahertz;
  input.dramBytes =
      bytesPerCycle * part(recording.executed.size() == recording.grid ? 2 : 1);
  input.l2Bytes = gpu.l2Bytes * kClockConstants.l2Efficiency *
                  gpu.multiprocessors * part(1);
  std::vector<size_t> turn(recording.classes.size());
  uint64_t instructions = 0;
  for (uint64_t b : own) {
    uint32_t c = grid.classOf(b);
    const BlockClass &of = recording.classes[c];
    // Blocks of a class are replayed by those that were kept, in turn. The
    // first one kept found caches empty, as the first of many does, and comes
    // first.
    size_t kept = std::min(turn[c]++, of.kept.size() - 1);
    input.blocks.push_back(&of.kept[recording.grid == 1 ? 0 : kept]);
    instructions += of.instructions;
    if (instructions > kReplayed &&
        input.blocks.size() >= size_t(3 * time.resident))
      break;
  }
  input.leastStall = leastStall;
  ReplayResult result = replay(input);
  for (const Stall &s : result.stalls)
    time.stalls.push_back("cycle " + std::to_string(int64_t(s.cycle)) +
                          ", warp " + std::to_string(s.warp) + " after " +
                          std::to_string(int64_t(s.waited)) + ": " +
                          kernel.texts[s.op]);
  size_t replayed = input.blocks.size();
  time.cycles = result.cycles;
  if (replayed < own.size()) {
    // Blocks end at a steady rate after the first and before the last ones.
    auto r = size_t(time.resident);
    double rate = (result.ends[replayed - r] - result.ends[r - 1]) /
                  double(replayed - 2 * r + 1);
    time.cycles += rate * double(own.size() - replayed);
  }
  double scale = result.cycles > 0 ? 1 / result.cycles : 0;
  time.issue = result.issue * scale;
  time.floats = result.floats * scale;
  time.integers = result.integers * scale;
  time.special = result.special * scale;
  time.tensor = result.tensor * scale;
  time.shared = result.shared * scale;
  time.l2 = result.l2 * scale;
  time.dram = result.dram * scale;
  time.seconds = time.cycles / gpu.gigahertz * 1e-9;
  return time;
}

double secondsOfGraph(const std::vector<LaunchTime> &launches,
                      const GpuModel &gpu) {
  double seconds = 0;
  for (const LaunchTime &launch : launches)
    seconds += launch.seconds + kClockConstants.nodeMicroseconds * 1e-6;
  return seconds;
}

} // namespace softgpu
