//===- PlacementCandidates.cpp - Placements of whole units ----------------===//

#include "passes/moe/placement/PlacementSearch.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace mlir::moe;

double PlacementSearch::savedPerByte(int unit, int gpu) const {
  double saved = 0;
  for (int group : unitList[unit].groups)
    for (int device : {host, gpu})
      if (problem.groups()[group].existsOn(device))
        saved +=
            times.requestSeconds(group, device) * (device == host ? 1 : -1);
  return saved /
         double(std::max<int64_t>(1, unitList[unit].bytes[size_t(gpu)]));
}

/// Returns all ways to write `parts` as a sum of `count` positive numbers.
static std::vector<SmallVector<int>> sumsOf(int parts, int count) {
  if (count == 1)
    return {{parts}};
  std::vector<SmallVector<int>> all;
  for (int last = 1; last <= parts - count + 1; ++last)
    for (SmallVector<int> &sum : sumsOf(parts - last, count - 1)) {
      sum.push_back(last);
      all.push_back(std::move(sum));
    }
  return all;
}

/// Returns the GPU of every selected unit. Each GPU gets consecutive layers,
/// with about as many bytes as its share.
std::vector<int> PlacementSearch::divide(const Selection &selection,
                                         const Division &division) const {
  double parts =
      std::accumulate(division.shares.begin(), division.shares.end(), 0.);
  size_t current = 0;
  auto shareOf = [&](size_t index) {
    return division.shares[index] / parts * double(selection.bytes);
  };
  double before = 0, room = shareOf(0);
  std::vector<int> devices(unitList.size(), host);
  auto place = [&](ArrayRef<int> units) {
    double bytes = 0;
    for (int unit : units)
      if (unit >= 0 && selection.units[unit])
        bytes += double(unitList[unit].leastBytes);
    while (current + 1 < division.gpus.size() && before + bytes / 2 > room)
      room += shareOf(++current);
    before += bytes;
    for (int unit : units)
      if (unit >= 0 && selection.units[unit])
        devices[unit] = division.gpus[current];
  };
  place(embeddings);
  for (const Layer &layer : layers)
    place(layer.units);
  place(heads);
  return devices;
}

/// Adds a candidate if the GPUs have room for its weights and caches;
/// activations are not known yet.
void PlacementSearch::addCandidate(std::vector<int> unitDevices, double least,
                                   std::vector<Candidate> &into) const {
  if (llvm::any_of(into, [&](const Candidate &known) {
        return known.unitDevices == unitDevices;
      }))
    return;
  std::vector<int64_t> bytes = fixedBytes;
  Candidate candidate;
  for (auto [unit, device] : llvm::zip_equal(unitList, unitDevices)) {
    bytes[device] += unit.bytes[size_t(device)];
    if (device != host)
      candidate.gpuBytes += unit.bytes[size_t(device)];
  }
  // At most `sharedBytes` are counted in several units.
  auto overfills = [&](int device) {
    return budgets.left(device, bytes) + sharedBytes < 0;
  };
  for (int device = 0; device < host; ++device)
    if (overfills(device))
      return;
  candidate.leavesRoomOnHost = !overfills(host);
  candidate.predicted = times.predict(assign(unitDevices));
  candidate.least = least;
  candidate.unitDevices = std::move(unitDevices);
  into.push_back(std::move(candidate));
}

void PlacementSearch::addFamily(ArrayRef<Division> divisions,
                                std::vector<Candidate> &into) const {
  ArrayRef<int> gpus = divisions.front().gpus;
  bool areSeveral = gpus.size() > 1;
  int64_t budget = 0;
  for (int gpu : gpus)
    budget += budgets.of(gpu);
  std::set<std::vector<int>> known;
  auto add = [&](const Selection &selection) {
    if (selection.bytes - sharedBytes > budget)
      return;
    for (const Division &division : divisions) {
      std::vector<int> devices = divide(selection, division);
      if (known.insert(devices).second)
        addCandidate(std::move(devices), 0, into);
    }
  };
  auto select = [&](Selection &selection, ArrayRef<int> units) {
    for (int unit : units)
      if (unit >= 0 && !selection.units[unit] &&
          unfitGroupOf(unit, gpus.front()) < 0) {
        selection.units[unit] = true;
        selection.bytes += unitList[unit].leastBytes;
      }
  };
  auto sortByGain = [&](SmallVector<int> &units) {
    llvm::stable_sort(units, [&](int a, int b) {
      return savedPerByte(a, gpus.front()) > savedPerByte(b, gpus.front());
    });
  };
  int count = int(layers.size());
  for (bool fromFirst : {true, false})
    for (int onGpus = fromFirst ? 0 : 1; onGpus <= count; ++onGpus) {
      bool areAll = onGpus == count;
      Selection attention{std::vector<bool>(unitList.size()), 0};
      SmallVector<int> dense, experts;
      for (int i = 0; i < onGpus; ++i) {
        const Layer &layer = layers[fromFirst ? i : count - 1 - i];
        select(attention, layer.units[PlacementUnit::Attention]);
        for (auto [kind, units] : {std::pair(PlacementUnit::Dense, &dense),
                                   std::pair(PlacementUnit::Experts, &experts)})
          if (int unit = layer.units[kind]; unit >= 0)
            units->push_back(unit);
      }
      Selection whole = attention;
      select(whole, dense);
      auto addExperts = [&](ArrayRef<int> order) {
        for (size_t taken = 0; taken <= order.size(); ++taken) {
          // PlacementFill.cpp handles only some layers' experts.
          if (!areAll && taken > 0 && taken < order.size())
            continue;
          Selection selection = whole;
          select(selection, order.take_front(taken));
          add(selection);
          if (areAll) {
            Selection withEmbedding = selection;
            select(withEmbedding, embeddings);
            add(withEmbedding);
          }
          select(selection, heads);
          add(selection);
          if (areAll) {
            select(selection, embeddings);
            add(selection);
          }
        }
      };
      addExperts(experts);
      if (areAll) {
        SmallVector<int> byGain(experts);
        sortByGain(byGain);
        addExperts(byGain);
      }
      if (areSeveral && !areAll)
        continue;
      SmallVector<int> others(dense);
      for (ArrayRef<int> more : {ArrayRef<int>(experts), ArrayRef<int>(heads),
                                 ArrayRef<int>(embeddings)})
        llvm::append_range(others, more);
      sortByGain(others);
      Selection selection = attention;
      add(selection);
      for (int unit : others) {
        select(selection, unit);
        add(selection);
      }
    }
}

/// Returns placements of a fixed set.
std::vector<PlacementSearch::Candidate> PlacementSearch::families() const {
  std::vector<Candidate> candidates;
  addCandidate(std::vector<int>(unitList.size(), host), 0, candidates);
  SmallVector<int> first;
  for (int gpu = 0; gpu < gpuTotal; ++gpu) {
    addFamily(Division{{gpu}, {1}}, candidates);
    first.push_back(gpu);
    if (gpu == 0)
      continue;
    // This gives 15 divisions for two GPUs, 21 for three and one for eight.
    int parts = gpu == 1 ? 16 : std::max(8, gpu + 1);
    SmallVector<Division> divisions;
    for (SmallVector<int> &shares : sumsOf(parts, gpu + 1))
      divisions.push_back({first, std::move(shares)});
    addFamily(divisions, candidates);
  }
  return candidates;
}
