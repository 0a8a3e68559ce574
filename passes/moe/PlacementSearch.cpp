#include "passes/moe/PlacementSearch.h"

#include "dialects/moe/ExpertFrequencies.h"
#include "passes/moe/SliceExperts.h"

#include <cmath>
#include <map>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

StringRef moe::nameOf(PlacementUnit::Kind kind) {
  switch (kind) {
  case PlacementUnit::Attention:
    return "attention";
  case PlacementUnit::Dense:
    return "FFN";
  case PlacementUnit::Experts:
    return "experts";
  case PlacementUnit::Head:
    return "head";
  case PlacementUnit::Embedding:
    return "embedding";
  }
  llvm_unreachable("a kind of unit");
}

static PlacementUnit::Kind kindOf(const OpGroup &group) {
  Operation *op = group.ops.front();
  if (isa<EmbeddingOp>(op))
    return PlacementUnit::Embedding;
  if (!group.layer)
    return PlacementUnit::Head;
  if (isa<ExpertsOp>(op))
    return PlacementUnit::Experts;
  return isa<FfnOp>(op) ? PlacementUnit::Dense : PlacementUnit::Attention;
}

/// The layer of the cache that the group reads, which is on its device; it may
/// be another's. Without one the group's own.
static std::optional<int64_t> layerWithCache(const OpGroup &group) {
  for (Value operand : group.ops.front()->getOperands())
    if (auto cache = operand.getDefiningOp<CacheOpInterface>();
        cache && isa<KvType>(operand.getType()))
      return cache.getCacheLayer();
  return group.layer;
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

PlacementSearch::PlacementSearch(const PlacementProblem &problem,
                                 const moec::TargetDesc &target,
                                 const StepTimes &times)
    : problem(problem), times(times), host(int(target.devices.size()) - 1),
      gpuTotal(int(gpuCount(target))), unitIndex(problem.groups().size(), -1),
      sources(problem.groups().size()), fixedBytes(target.devices.size(), 0) {
  for (const moec::DeviceDesc &device : target.devices)
    budgets.push_back(int64_t(device.budgetBytes()));
  int64_t distinct = 0;
  WeightSet weights;
  for (auto [index, group] : llvm::enumerate(problem.groups())) {
    if (group.device >= 0) {
      fixedBytes[group.device] += group.kvBytes;
      continue;
    }
    if (!group.layer && group.weightBytes == 0) {
      for (Value operand : group.ops.front()->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (int source = problem.groupOf(producer); source >= 0)
            sources[index].push_back(source);
      continue;
    }
    // Tables that layers have a part of each are one.
    PlacementUnit::Kind kind = kindOf(group);
    addUnit(kind,
            kind == PlacementUnit::Embedding ? std::nullopt
                                             : layerWithCache(group),
            int(index));
    distinct += group.kvBytes;
    for (auto [name, bytes] : group.weights)
      if (weights.insert({name, bytes}).second)
        distinct += bytes;
  }
  std::map<int64_t, Layer> byNumber;
  for (auto [index, unit] : llvm::enumerate(unitList)) {
    sharedBytes += unit.bytes;
    if (unit.layer)
      byNumber[*unit.layer].units[unit.kind] = int(index);
  }
  sharedBytes -= distinct;
  for (const auto &[number, layer] : byNumber)
    layers.push_back(layer);
}

void PlacementSearch::addUnit(PlacementUnit::Kind kind,
                              std::optional<int64_t> layer, int group) {
  auto it = llvm::find_if(unitList, [&](const PlacementUnit &unit) {
    return unit.kind == kind && unit.layer == layer;
  });
  if (it == unitList.end()) {
    unitList.push_back(PlacementUnit{kind, layer, {}, 0});
    it = std::prev(unitList.end());
  }
  WeightSet known;
  for (int other : it->groups)
    for (const auto &weight : problem.groups()[other].weights)
      known.insert(weight);
  it->groups.push_back(group);
  it->bytes += problem.groups()[group].kvBytes;
  for (const auto &weight : problem.groups()[group].weights)
    if (known.insert(weight).second)
      it->bytes += weight.second;
  unitIndex[group] = int(it - unitList.begin());
}

PlacementSearch::Assignment
PlacementSearch::assign(ArrayRef<int> unitDevices) const {
  Assignment assignment(problem.groups().size(), host);
  for (auto [index, group] : llvm::enumerate(problem.groups())) {
    if (group.device >= 0)
      assignment[index] = group.device;
    else if (unitIndex[index] >= 0)
      assignment[index] = unitDevices[unitIndex[index]];
  }
  // What has neither weights nor a layer goes where its input is.
  for (auto [index, from] : llvm::enumerate(sources))
    for (int source : from)
      if (assignment[source] != host) {
        assignment[index] = assignment[source];
        break;
      }
  return assignment;
}

int PlacementSearch::unfitGroupOf(int unit, int device) const {
  for (int group : unitList[unit].groups)
    if (device != host && !times.canRun(group, device))
      return group;
  return -1;
}

PlacementSearch::Assignment PlacementSearch::allOnHost() const {
  return assign(std::vector<int>(unitList.size(), host));
}

PlacementSearch::Assignment PlacementSearch::classicSplit() const {
  std::vector<int> devices(unitList.size(), host);
  if (gpuTotal > 0)
    for (auto [index, unit] : llvm::enumerate(unitList))
      if (unit.kind != PlacementUnit::Experts &&
          unit.kind != PlacementUnit::Embedding &&
          unfitGroupOf(int(index), 0) < 0)
        devices[index] = 0;
  return assign(devices);
}

PlacementSearch::Assignment PlacementSearch::moved(const Choice &choice,
                                                   int unit, int device) const {
  std::vector<int> devices = choice.unitDevices;
  devices[unit] = device;
  return assign(devices);
}

bool PlacementSearch::fits(ArrayRef<DeviceUse> use) const {
  for (auto [budget, needed] : llvm::zip_equal(budgets, use))
    if (needed.total() > budget)
      return false;
  return true;
}

double PlacementSearch::savedPerByte(int unit, int gpu) const {
  double saved = 0;
  for (int group : unitList[unit].groups)
    saved +=
        times.requestSeconds(group, host) - times.requestSeconds(group, gpu);
  return saved / double(std::max<int64_t>(1, unitList[unit].bytes));
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// The GPU of every selected unit: runs of layers, each GPU's share of the
/// bytes its share of the memory, or as many as it holds before the next.
std::vector<int> PlacementSearch::divide(const Selection &selection,
                                         ArrayRef<int> gpus,
                                         bool evenly) const {
  double memory = 0;
  for (int gpu : gpus)
    memory += double(budgets[gpu]);
  std::vector<int> devices(unitList.size(), host);
  double before = 0, room = 0;
  size_t current = 0;
  auto shareOf = [&](size_t index) {
    double budget = double(budgets[gpus[index]]);
    return evenly ? budget / memory * double(selection.bytes) : budget;
  };
  room = shareOf(0);
  auto place = [&](ArrayRef<int> units) {
    double bytes = 0;
    for (int unit : units)
      if (unit >= 0 && selection.units[unit])
        bytes += double(unitList[unit].bytes);
    while (current + 1 < gpus.size() &&
           before + (evenly ? bytes / 2 : bytes) > room) {
      if (!evenly)
        before = room; // What is left of it stays empty.
      room += shareOf(++current);
    }
    before += bytes;
    for (int unit : units)
      if (unit >= 0 && selection.units[unit])
        devices[unit] = gpus[current];
  };
  SmallVector<int> last;
  for (auto [index, unit] : llvm::enumerate(unitList)) {
    if (unit.kind == PlacementUnit::Embedding)
      place(int(index));
    else if (unit.kind == PlacementUnit::Head)
      last.push_back(int(index));
  }
  for (const Layer &layer : layers)
    place(layer.units);
  place(last);
  return devices;
}

void PlacementSearch::addCandidate(std::vector<int> unitDevices,
                                   std::vector<Candidate> &into) const {
  std::vector<int64_t> bytes = fixedBytes;
  Candidate candidate;
  for (auto [unit, device] : llvm::zip_equal(unitList, unitDevices)) {
    bytes[device] += unit.bytes;
    if (device != host)
      candidate.gpuBytes += unit.bytes;
  }
  for (int device = 0; device < host; ++device)
    if (bytes[device] - sharedBytes > budgets[device])
      return;
  candidate.leavesRoomOnHost = bytes[host] - sharedBytes <= budgets[host];
  candidate.predicted = times.predict(assign(unitDevices));
  candidate.unitDevices = std::move(unitDevices);
  into.push_back(std::move(candidate));
}

void PlacementSearch::addCandidates(const Selection &selection,
                                    ArrayRef<int> gpus,
                                    std::vector<Candidate> &into) const {
  addCandidate(divide(selection, gpus, /*evenly=*/true), into);
  if (gpus.size() > 1)
    addCandidate(divide(selection, gpus, /*evenly=*/false), into);
}

void PlacementSearch::addFamily(ArrayRef<int> gpus,
                                std::vector<Candidate> &into) const {
  int64_t budget = 0;
  for (int gpu : gpus)
    budget += budgets[gpu];
  std::vector<int> heads, embeddings;
  for (auto [index, unit] : llvm::enumerate(unitList)) {
    if (unit.kind == PlacementUnit::Head)
      heads.push_back(int(index));
    else if (unit.kind == PlacementUnit::Embedding)
      embeddings.push_back(int(index));
  }
  auto select = [&](Selection &selection, ArrayRef<int> units) {
    for (int unit : units)
      if (unit >= 0 && !selection.units[unit] &&
          unfitGroupOf(unit, gpus.front()) < 0) {
        selection.units[unit] = true;
        selection.bytes += unitList[unit].bytes;
      }
  };
  int count = int(layers.size());
  for (bool fromFirst : {true, false})
    for (int onGpus = count; onGpus >= 0; --onGpus) {
      if (!fromFirst && onGpus == 0)
        continue; // As from the first.
      Selection base{std::vector<bool>(unitList.size()), 0};
      SmallVector<int> inOrder;
      for (int i = 0; i < onGpus; ++i) {
        const Layer &layer = layers[fromFirst ? i : count - 1 - i];
        select(base, {layer.units[PlacementUnit::Attention],
                      layer.units[PlacementUnit::Dense]});
        if (int experts = layer.units[PlacementUnit::Experts]; experts >= 0)
          inOrder.push_back(experts);
      }
      SmallVector<int> byGain(inOrder);
      llvm::stable_sort(byGain, [&](int a, int b) {
        return savedPerByte(a, gpus.front()) > savedPerByte(b, gpus.front());
      });
      SmallVector<ArrayRef<int>> orders = {inOrder};
      if (onGpus == count && fromFirst && byGain != inOrder)
        orders.push_back(byGain);
      for (ArrayRef<int> order : orders)
        for (int experts = int(order.size()); experts >= 0; --experts)
          for (bool withHead : {true, false}) {
            if (!withHead && heads.empty())
              continue;
            Selection selection = base;
            select(selection, order.take_front(experts));
            if (withHead)
              select(selection, heads);
            if (selection.bytes - sharedBytes > budget)
              continue;
            if (withHead && onGpus == count && !embeddings.empty()) {
              Selection whole = selection;
              select(whole, embeddings);
              addCandidates(whole, gpus, into);
            }
            addCandidates(selection, gpus, into);
          }
    }
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

PlacementSearch::Choice
PlacementSearch::choiceOf(const Candidate &candidate) const {
  Choice choice;
  choice.unitDevices = candidate.unitDevices;
  choice.assignment = assign(candidate.unitDevices);
  choice.use = problem.memoryUse(choice.assignment);
  choice.predicted = candidate.predicted;
  choice.fits = fits(choice.use);
  return choice;
}

/// The fastest first.
std::vector<PlacementSearch::Candidate> PlacementSearch::allCandidates() const {
  std::vector<Candidate> candidates;
  addCandidate(std::vector<int>(unitList.size(), host), candidates);
  if (gpuTotal > 0) {
    std::vector<int> gpus(gpuTotal);
    std::iota(gpus.begin(), gpus.end(), 0);
    addFamily(gpus, candidates);
    for (int gpu = 0; gpuTotal > 1 && gpu < gpuTotal; ++gpu)
      addFamily(gpu, candidates);
  }
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    // Of equals, the one with more on GPUs.
    if (a.predicted.request != b.predicted.request)
      return a.predicted.request < b.predicted.request;
    return a.gpuBytes > b.gpuBytes;
  });
  return candidates;
}

/// The fastest of the best candidates, the first of them climbed from, with
/// what is left of memory filled; none if none fits.
std::optional<PlacementSearch::Choice>
PlacementSearch::fastest(ArrayRef<Candidate> sorted) const {
  constexpr int kMostFilled = 4;
  std::optional<Choice> best;
  int filled = 0;
  for (const Candidate &candidate : sorted) {
    if (!candidate.leavesRoomOnHost)
      continue;
    Choice choice = choiceOf(candidate);
    if (!choice.fits)
      continue;
    if (!best)
      improve(choice);
    fillAll(choice);
    if (!best || choice.predicted.request < best->predicted.request)
      best = std::move(choice);
    // Whose memory others use better may have more of it left.
    if (++filled == kMostFilled || gpuTotal == 0)
      break;
  }
  if (auto choice = withoutExperts(sorted); best && choice) {
    fillAll(*choice);
    if (choice->predicted.request < best->predicted.request)
      best = std::move(choice);
  }
  return best;
}

/// Of those that do not fit: what leaves least to the host, to tell what is
/// short.
PlacementSearch::Choice
PlacementSearch::closest(std::vector<Candidate> candidates) const {
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    return a.gpuBytes > b.gpuBytes;
  });
  constexpr size_t mostTried = 64;
  for (const Candidate &candidate :
       ArrayRef(candidates).take_front(mostTried)) {
    Choice choice = choiceOf(candidate);
    bool gpusFit = true;
    for (int gpu = 0; gpu < gpuTotal; ++gpu)
      gpusFit &= choice.use[gpu].total() <= budgets[gpu];
    if (gpusFit)
      return choice;
  }
  Choice none;
  none.unitDevices.assign(unitList.size(), host);
  none.assignment = allOnHost();
  none.use = problem.memoryUse(none.assignment);
  none.predicted = times.predict(none.assignment);
  return none;
}

PlacementSearch::Choice PlacementSearch::run() const {
  std::vector<Candidate> candidates = allCandidates();
  std::optional<Choice> best = fastest(candidates);
  return best ? *std::move(best) : closest(std::move(candidates));
}

/// The host, and where the unit's layer and its neighbours are.
SmallVector<int> PlacementSearch::alternatives(const Choice &choice,
                                               int unit) const {
  const PlacementUnit &own = unitList[unit];
  SmallVector<int> devices;
  auto add = [&](int device) {
    if (device != choice.unitDevices[unit] && unfitGroupOf(unit, device) < 0 &&
        !llvm::is_contained(devices, device))
      devices.push_back(device);
  };
  add(host);
  for (auto [other, device] : llvm::zip_equal(unitList, choice.unitDevices))
    if (!own.layer || (other.layer && std::abs(*other.layer - *own.layer) <= 1))
      add(device);
  if (devices.empty() && gpuTotal > 0)
    add(0);
  return devices;
}

/// The most experts of a group on the host that `gpu` has room for, if they
/// save anything.
bool PlacementSearch::fillWith(Choice &choice, int group, int gpu) const {
  auto op = cast<ExpertsOp>(problem.groups()[group].ops.front());
  int64_t experts = expertCount(op);
  int64_t each = problem.groups()[group].weightBytes / experts;
  int64_t budget = budgets[gpu];
  int64_t count =
      std::min(experts - 1, (budget - choice.use[gpu].total()) / (each + 1));
  // Less is noise, as of whole parts.
  constexpr double least = 1e-4;
  for (int trial = 0; trial < 3 && count > 0; ++trial) {
    Choice other = choice;
    SmallVector<int64_t> first(static_cast<size_t>(count));
    std::iota(first.begin(), first.end(), 0);
    double share = shareOf(op, first);
    other.splits.push_back({group, gpu, experts, std::move(first), share});
    other.predicted = times.predict(other.assignment, other.splits);
    if (other.predicted.request > choice.predicted.request * (1 - least))
      return false;
    other.use = problem.memoryUse(other.assignment, other.splits);
    if (fits(other.use)) {
      choice = std::move(other);
      return true;
    }
    int64_t over = other.use[gpu].total() - budget;
    count -= std::max<int64_t>(1, (over + each) / (each + 1));
  }
  return false;
}

/// Whole experts on the host in layers that `gpu` has the attention of.
SmallVector<int> PlacementSearch::divisible(const Choice &choice,
                                            int gpu) const {
  SmallVector<int> groups;
  for (const Layer &layer : layers) {
    int experts = layer.units[PlacementUnit::Experts];
    int attention = layer.units[PlacementUnit::Attention];
    if (experts < 0 || choice.unitDevices[experts] != host ||
        unfitGroupOf(experts, gpu) >= 0)
      continue;
    bool near = attention >= 0 && choice.unitDevices[attention] == gpu;
    for (int group : unitList[experts].groups) {
      auto op = dyn_cast<ExpertsOp>(problem.groups()[group].ops.front());
      bool isWhole =
          llvm::none_of(choice.splits, [&](const ExpertSplit &split) {
            return split.group == group;
          });
      if (op && !op.getSliceAttr() && near && isWhole)
        groups.push_back(group);
    }
  }
  return groups;
}

/// The last layers.
void PlacementSearch::fill(Choice &choice, int gpu) const {
  constexpr int most = 2;
  int taken = 0;
  SmallVector<int> groups = divisible(choice, gpu);
  for (int group : llvm::reverse(groups))
    if (!fillWith(choice, group, gpu) || ++taken == most)
      return;
}

/// `choice` with as many of `byGain` on `gpu` as it has room for, of these
/// groups alone; none if that saves nothing.
std::optional<PlacementSearch::Choice>
PlacementSearch::withHot(const Choice &choice, int gpu,
                         ArrayRef<HotExpert> byGain,
                         ArrayRef<int> groups) const {
  int64_t budget = budgets[gpu];
  int64_t room = budget - choice.use[gpu].total();
  constexpr double least = 1e-4;
  for (int trial = 0; trial < 3; ++trial) {
    std::map<int, SmallVector<int64_t>> chosen;
    int64_t taken = 0;
    for (const HotExpert &expert : byGain) {
      if (taken + expert.bytes > room ||
          !llvm::is_contained(groups, expert.group))
        continue;
      auto op = cast<ExpertsOp>(problem.groups()[expert.group].ops.front());
      SmallVector<int64_t> &of = chosen[expert.group];
      if (int64_t(of.size()) + 1 == expertCount(op))
        continue;
      of.push_back(expert.number);
      taken += expert.bytes;
    }
    Choice other = choice;
    for (auto &[group, experts] : chosen) {
      llvm::sort(experts);
      auto op = cast<ExpertsOp>(problem.groups()[group].ops.front());
      double share = shareOf(op, experts);
      other.splits.push_back(
          {group, gpu, expertCount(op), std::move(experts), share});
    }
    other.predicted = times.predict(other.assignment, other.splits);
    if (chosen.empty() ||
        other.predicted.request > choice.predicted.request * (1 - least))
      return std::nullopt;
    other.use = problem.memoryUse(other.assignment, other.splits);
    if (fits(other.use))
      return other;
    room = taken - std::max<int64_t>(1, other.use[gpu].total() - budget);
  }
  return std::nullopt;
}

/// Experts by the seconds that they save per byte, of all layers of which
/// profiles are known or of those alone that have most to save: each layer that
/// is split costs a copy and a launch.
void PlacementSearch::fillHot(Choice &choice, int gpu) const {
  SmallVector<int> groups;
  std::vector<HotExpert> byGain;
  llvm::DenseMap<int, double> most;
  for (int group : divisible(choice, gpu)) {
    const OpGroup &known = problem.groups()[group];
    auto op = cast<ExpertsOp>(known.ops.front());
    if (!op->hasAttr(kFrequenciesAttr))
      continue;
    groups.push_back(group);
    int64_t experts = expertCount(op), bytes = known.weightBytes / experts + 1;
    double saved =
        times.requestSeconds(group, host) - times.requestSeconds(group, gpu);
    for (int64_t number = 0; number < experts; ++number) {
      double gain = saved * shareOf(op, number) / double(bytes);
      byGain.push_back({group, number, bytes, gain});
      most[group] = std::max(most[group], gain);
    }
  }
  llvm::stable_sort(byGain, [](const HotExpert &a, const HotExpert &b) {
    return a.saved > b.saved;
  });
  llvm::stable_sort(groups, [&](int a, int b) { return most[a] > most[b]; });
  std::optional<Choice> best;
  for (size_t count = groups.size(); count > 0; count /= 2)
    if (auto other =
            withHot(choice, gpu, byGain, ArrayRef(groups).take_front(count));
        other && (!best || other->predicted.request < best->predicted.request))
      best = std::move(other);
  if (best)
    choice = *std::move(best);
}

/// What GPUs have left, in the better of both ways.
void PlacementSearch::fillAll(Choice &choice) const {
  for (int gpu = 0; gpu < gpuTotal; ++gpu) {
    Choice hot = choice;
    fillHot(hot, gpu);
    fill(choice, gpu);
    if (hot.predicted.request < choice.predicted.request)
      choice = std::move(hot);
  }
}

/// The fastest that fits and leaves all experts to the host, of which a profile
/// may give GPUs better ones than whole layers.
std::optional<PlacementSearch::Choice>
PlacementSearch::withoutExperts(ArrayRef<Candidate> sorted) const {
  bool known = llvm::any_of(problem.groups(), [](const OpGroup &group) {
    return group.ops.front()->hasAttr(kFrequenciesAttr);
  });
  for (const Candidate &candidate : sorted) {
    if (!known || !candidate.leavesRoomOnHost ||
        llvm::any_of(
            llvm::zip_equal(unitList, candidate.unitDevices), [&](auto pair) {
              auto &[unit, device] = pair;
              return unit.kind == PlacementUnit::Experts && device != host;
            }))
      continue;
    if (Choice choice = choiceOf(candidate); choice.fits)
      return choice;
  }
  return std::nullopt;
}

void PlacementSearch::improve(Choice &choice) const {
  constexpr int rounds = 3;
  bool changed = gpuTotal > 0;
  for (int round = 0; round < rounds && changed; ++round) {
    changed = false;
    for (int unit = 0; unit < int(unitList.size()); ++unit)
      for (int device : alternatives(choice, unit)) {
        Choice other;
        other.unitDevices = choice.unitDevices;
        other.unitDevices[unit] = device;
        int64_t needed = unitList[unit].bytes - sharedBytes;
        if (choice.use[device].weights + choice.use[device].kv + needed >
            budgets[device])
          continue;
        other.assignment = assign(other.unitDevices);
        other.predicted = times.predict(other.assignment);
        // Less is noise, and leaves layers unlike each other. What a move away
        // from a GPU saves is overlap alone, of which predictions are least
        // sure.
        double least = device == host ? 1e-2 : 1e-4;
        if (other.predicted.request > choice.predicted.request * (1 - least))
          continue;
        other.use = problem.memoryUse(other.assignment);
        if (!fits(other.use))
          continue;
        other.fits = true;
        choice = std::move(other);
        changed = true;
      }
  }
}
