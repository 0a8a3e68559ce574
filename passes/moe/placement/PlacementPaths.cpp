//===- PlacementPaths.cpp - The fastest paths through all layers ----------===//
//
// Prices the variants of layers (Chain.h) with the simulator: it runs the whole
// model with all layers in one variant, for each GPU and variant. A layer's
// price is the time by which it moves the end of the layers so far, so that it
// contains what overlaps within the layer, and its copies.
//
//===----------------------------------------------------------------------===//

#include "passes/moe/placement/PlacementSearch.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

/// Parts of Chain, by PlacementUnit::Kind.
static constexpr unsigned kParts[] = {Chain::Attention, Chain::Dense,
                                      Chain::Experts};

/// Returns the device of every unit if all layers have these parts on `gpu`, as
/// far as it can run them.
std::vector<int> PlacementSearch::uniform(int gpu, unsigned parts) const {
  std::vector<int> devices(unitList.size(), host);
  for (const Layer &layer : layers)
    for (auto [unit, part] : llvm::zip_equal(layer.units, kParts))
      if (unit >= 0 && (parts & part) && unfitGroupOf(unit, gpu) < 0)
        devices[unit] = gpu;
  return devices;
}

/// Returns a layer's variant with these parts on `gpu`, without its price.
ChainItem PlacementSearch::variantOf(const Layer &layer, int gpu,
                                     unsigned parts) const {
  ChainItem item;
  item.isAllowed = true;
  for (auto [unit, part] : llvm::zip_equal(layer.units, kParts)) {
    if (!(parts & part))
      continue;
    if (unit >= 0) {
      item.isAllowed &= unfitGroupOf(unit, gpu) < 0;
      item.bytes += unitList[unit].bytes[size_t(gpu)];
    } else {
      // A run may contain layers whose attention a rule has placed.
      item.isAllowed &= part == Chain::Attention;
    }
  }
  return item;
}

/// Returns what the units, on `gpu` beside all attention, take less than on the
/// host.
ChainItem PlacementSearch::savedBy(ArrayRef<int> units, int gpu) const {
  ChainItem item;
  std::vector<int> devices = uniform(gpu, Chain::Attention | Chain::Dense);
  double before = times.predict(assign(devices)).request;
  for (int unit : units) {
    if (unfitGroupOf(unit, gpu) >= 0)
      return {};
    devices[unit] = gpu;
    item.bytes += unitList[unit].bytes[size_t(gpu)];
    item.isAllowed = true;
  }
  item.seconds = before - times.predict(assign(devices)).request;
  return item;
}

Chain PlacementSearch::makeChain() const {
  Chain chain;
  SmallVector<int> layerOf(problem.groups().size(), -1);
  for (auto [number, layer] : llvm::enumerate(layers))
    for (int unit : layer.units)
      for (int group : unit < 0 ? ArrayRef<int>() : unitList[unit].groups)
        layerOf[group] = int(number);
  // Rounded, so that layers that are alike have the same price.
  auto pricesOf = [&](const Assignment &assignment) {
    std::vector<double> seconds =
        times.layerSeconds(assignment, layerOf, layers.size());
    for (double &price : seconds)
      price = double(float(price));
    return seconds;
  };
  auto sum = [](ArrayRef<double> seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.);
  };
  const Assignment none = allOnHost();
  const std::vector<DeviceUse> fixed = problem.memoryUse(none);
  chain.onHost = pricesOf(none);
  for (const Layer &layer : layers) {
    int unit = layer.units[PlacementUnit::Experts];
    chain.isDivisible.push_back(
        unit >= 0 && llvm::any_of(unitList[unit].groups, [&](int group) {
          return isDivisible(group);
        }));
  }
  // Prices of layers with attention on each device.
  std::vector<std::vector<double>> onDevice;
  for (int gpu = 0; gpu < gpuTotal; ++gpu) {
    Chain::Gpu prices;
    prices.layers.resize(layers.size());
    for (unsigned parts = 0; parts < Chain::kVariants; ++parts) {
      std::vector<double> seconds =
          parts == 0 ? chain.onHost : pricesOf(assign(uniform(gpu, parts)));
      for (auto [number, layer] : llvm::enumerate(layers)) {
        ChainItem &item = prices.layers[number][parts];
        item = variantOf(layer, gpu, parts);
        item.seconds = seconds[number];
      }
      if (parts == Chain::Attention)
        onDevice.push_back(std::move(seconds));
    }
    prices.embedding = savedBy(embeddings, gpu);
    prices.head = savedBy(heads, gpu);
    int64_t slots = 0; // Some experts will stay on the host.
    for (bool withExperts : {false, true}) {
      unsigned parts =
          Chain::Attention | Chain::Dense | (withExperts ? Chain::Experts : 0u);
      DeviceUse use = problem.memoryUse(assign(uniform(gpu, parts)))[gpu];
      use.slots = slots = std::max(slots, use.slots);
      prices.room[withExperts] = budgets.isSame(size_t(gpu), size_t(host))
                                     ? std::numeric_limits<int64_t>::max() / 2
                                     : budgets.of(size_t(gpu)) -
                                           fixed[gpu].weights - fixed[gpu].kv -
                                           (use.total() - use.weights - use.kv);
    }
    chain.gpus.push_back(std::move(prices));
  }
  onDevice.push_back(chain.onHost);
  auto attentionOn = [&](int device) {
    return device == host ? std::vector<int>(unitList.size(), host)
                          : uniform(device, Chain::Attention);
  };
  for (int device = 0; device <= gpuTotal; ++device)
    chain.outside.push_back(times.predict(assign(attentionOn(device))).request -
                            sum(onDevice[device]));
  const size_t half = layers.size() / 2;
  for (int from = 0; from <= gpuTotal; ++from) {
    chain.handOver.emplace_back();
    for (int to = 0; to <= gpuTotal; ++to) {
      if (from == to || half == 0) {
        chain.handOver.back().push_back(0);
        continue;
      }
      std::vector<int> devices = attentionOn(from), later = attentionOn(to);
      for (const Layer &layer : ArrayRef(layers).drop_front(half))
        for (int unit : layer.units)
          if (unit >= 0)
            devices[unit] = later[unit];
      double whole = times.predict(assign(devices)).request;
      double parts = sum(ArrayRef(onDevice[from]).take_front(half)) +
                     sum(ArrayRef(onDevice[to]).drop_front(half)) +
                     chain.outside[to];
      chain.handOver.back().push_back(std::max(0., whole - parts));
    }
  }
  return chain;
}

/// Returns the device of every unit on a path.
std::vector<int> PlacementSearch::devicesOf(const ChainPath &path) const {
  std::vector<int> devices(unitList.size(), host);
  for (auto [layer, gpu, parts] :
       llvm::zip_equal(layers, path.gpus, path.parts))
    for (auto [unit, part] : llvm::zip_equal(layer.units, kParts))
      if (unit >= 0 && (parts & part))
        devices[unit] = gpu;
  for (auto [units, gpu] :
       {std::pair(&embeddings, path.embedding), std::pair(&heads, path.head)})
    for (int unit : *units)
      if (gpu >= 0)
        devices[unit] = gpu;
  return devices;
}

/// Takes what the path needs too much on GPUs from their room; returns false if
/// it fits, or there is no path.
bool PlacementSearch::lessenRoom(Chain &chain, const ChainPath &path) const {
  if (path.seconds == std::numeric_limits<double>::infinity())
    return false;
  std::vector<int64_t> used =
      totalsOf(problem.memoryUse(assign(devicesOf(path))));
  bool any = false;
  for (int gpu = 0; gpu < gpuTotal; ++gpu) {
    const int64_t lacking = used[gpu] - budgets.of(size_t(gpu));
    any |= lacking > 0;
    for (int64_t &room : chain.gpus[size_t(gpu)].room)
      room -= std::max<int64_t>(0, lacking);
  }
  return any;
}

/// Returns the fastest paths that use all GPUs, the first few or one of them,
/// with and without experts and attention there.
std::vector<PlacementSearch::Candidate> PlacementSearch::paths() const {
  std::vector<Candidate> candidates;
  addCandidate(std::vector<int>(unitList.size(), host), 0, candidates);
  if (gpuTotal > 0 && !unitList.empty()) {
    Chain chain = makeChain();
    std::vector<std::vector<bool>> uses;
    for (int count = gpuTotal; count > 0; --count) {
      uses.emplace_back(gpuTotal, false);
      std::fill_n(uses.back().begin(), count, true);
    }
    for (int gpu = 1; gpu < gpuTotal; ++gpu) {
      uses.emplace_back(gpuTotal, false);
      uses.back()[gpu] = true;
    }
    constexpr unsigned all = Chain::Attention | Chain::Dense | Chain::Experts;
    auto addPaths = [&](double perHostByte) {
      for (unsigned parts :
           {all, all - Chain::Experts, all - Chain::Attention}) {
        ChainPaths paths(chain, {parts, perHostByte});
        for (const std::vector<bool> &gpus : uses) {
          ChainPath path = paths.fastest(gpus);
          Chain reduced = chain;
          // Where several devices work together, a GPU may need a little more
          // than with all layers alike.
          constexpr int kTries = 12;
          for (int i = 0; i < kTries && lessenRoom(reduced, path); ++i)
            path = ChainPaths(reduced, {parts, perHostByte}).fastest(gpus);
          if (path.seconds < std::numeric_limits<double>::infinity())
            addCandidate(devicesOf(path), perHostByte > 0 ? 0 : path.seconds,
                         candidates);
        }
      }
    };
    addPaths(0);
    // One by one, experts go to the GPU with their layer's attention, so that
    // each GPU needs some.
    for (int count = 2; hasProfile && count <= gpuTotal; ++count) {
      Selection selection{std::vector<bool>(unitList.size(), false), 0};
      Division division;
      for (int gpu = 0; gpu < count; ++gpu) {
        division.gpus.push_back(gpu);
        division.shares.push_back(
            int(budgets.of(size_t(gpu)) / (int64_t(1) << 20)) + 1);
      }
      for (auto [index, unit] : llvm::enumerate(unitList))
        if (unit.kind != PlacementUnit::Experts &&
            unit.kind != PlacementUnit::Embedding &&
            llvm::all_of(division.gpus, [&](int gpu) {
              return unfitGroupOf(int(index), gpu) < 0;
            })) {
          selection.units[index] = true;
          selection.bytes += unit.leastBytes;
        }
      addCandidate(divide(selection, division), 0, candidates);
    }
    // Where the host is too small, bytes on it have a price: those of a fixed
    // set, relative to the seconds that the host takes for a byte.
    double bytes = 1;
    for (const PlacementUnit &unit : unitList)
      bytes += double(unit.bytes[size_t(host)]);
    double each = candidates.front().predicted.request / bytes;
    for (double price : {0.5, 2., 100.})
      if (llvm::none_of(candidates, [](const Candidate &candidate) {
            return candidate.leavesRoomOnHost;
          }))
        addPaths(price * each);
  }
  return candidates;
}
