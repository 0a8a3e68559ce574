#include "passes/moe/placement/PlacementSearch.h"

#include "dialects/moe/ExpertFrequencies.h"
#include "passes/moe/Support.h"

#include <map>

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

/// Returns the layer of the caches that the group uses, which may be another
/// layer's; the group must be on their device. Without a cache, returns the
/// group's own layer.
static std::optional<int64_t> layerWithCache(const OpGroup &group,
                                             const CacheLayers &caches) {
  std::optional<int64_t> layer = caches.of(group.ops.front());
  return layer ? layer : group.layer;
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

PlacementSearch::PlacementSearch(const PlacementProblem &problem,
                                 const moec::TargetDesc &target,
                                 const StepPrediction &times)
    : problem(problem), times(times), budgets(target),
      host(int(target.devices.size()) - 1), gpuTotal(int(target.gpuCount())),
      hasProfile(llvm::any_of(problem.groups(),
                              [](const OpGroup &group) {
                                return group.ops.front()->hasAttr(
                                    kFrequenciesAttr);
                              })),
      unitIndex(problem.groups().size(), -1), sources(problem.groups().size()),
      fixedBytes(target.devices.size(), 0) {
  std::optional<CacheLayers> caches;
  if (!problem.groups().empty())
    caches.emplace(
        problem.groups().front().ops.front()->getParentOfType<ModuleOp>());
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
    // Per-layer parts of an embedding table form one unit.
    PlacementUnit::Kind kind = kindOf(group);
    addUnit(kind,
            kind == PlacementUnit::Embedding ? std::nullopt
                                             : layerWithCache(group, *caches),
            int(index));
    distinct += group.kvBytes;
    for (auto [name, bytes] : group.weights)
      if (weights.insert({name, bytes}).second)
        distinct += bytes;
  }
  std::map<int64_t, Layer> byNumber;
  for (auto [index, unit] : llvm::enumerate(unitList)) {
    sharedBytes += bytesOf(unit.groups, [](const OpGroup &) { return true; });
    for (int device = 0; device <= host; ++device)
      unit.bytes.push_back(bytesOf(unit.groups, [&](const OpGroup &group) {
        return group.existsOn(device);
      }));
    unit.leastBytes = *llvm::min_element(unit.bytes);
    if (unit.layer)
      byNumber[*unit.layer].units[unit.kind] = int(index);
    else
      (unit.kind == PlacementUnit::Head ? heads : embeddings)
          .push_back(int(index));
  }
  sharedBytes -= distinct;
  for (const auto &[number, layer] : byNumber)
    layers.push_back(layer);
}

/// Returns the bytes of the caches and weights of those groups that `counts`
/// holds for, each weight once.
int64_t
PlacementSearch::bytesOf(ArrayRef<int> groups,
                         function_ref<bool(const OpGroup &)> counts) const {
  WeightSet known;
  int64_t bytes = 0;
  for (int index : groups) {
    const OpGroup &group = problem.groups()[index];
    if (!counts(group))
      continue;
    bytes += group.kvBytes;
    for (const auto &weight : group.weights)
      if (known.insert(weight).second)
        bytes += weight.second;
  }
  return bytes;
}

void PlacementSearch::addUnit(PlacementUnit::Kind kind,
                              std::optional<int64_t> layer, int group) {
  auto it = llvm::find_if(unitList, [&](const PlacementUnit &unit) {
    return unit.kind == kind && unit.layer == layer;
  });
  if (it == unitList.end()) {
    unitList.push_back(PlacementUnit{kind, layer, {}, {}});
    it = std::prev(unitList.end());
  }
  it->groups.push_back(group);
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
  // A group without weights and layer follows its input.
  for (auto [index, from] : llvm::enumerate(sources))
    for (int source : from)
      if (assignment[source] != host) {
        assignment[index] = assignment[source];
        break;
      }
  problem.markAbsent(assignment);
  return assignment;
}

int PlacementSearch::unfitGroupOf(int unit, int device) const {
  for (int group : unitList[unit].groups)
    if (device != host && problem.groups()[group].existsOn(device) &&
        !times.canRun(group, device))
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
  choice.fits = fits(choice.use) && !problem.lacksStreaming(choice.assignment);
  return choice;
}

/// Returns the fastest choice that fits, among the candidates and their
/// versions with divided layers.
std::optional<PlacementSearch::Choice>
PlacementSearch::fastest(ArrayRef<Candidate> sorted) const {
  std::optional<Choice> best;
  for (const Candidate &candidate : sorted) {
    // Even with divided layers it takes at least this long. Prices of layers
    // add up to what is predicted within a few percent.
    constexpr double kPrecision = 0.97;
    double least = std::max(candidate.predicted.request -
                                savingsBound(candidate.unitDevices),
                            takesProfiledExperts(candidate.unitDevices)
                                ? 0
                                : kPrecision * candidate.least);
    if (!candidate.leavesRoomOnHost ||
        (best && best->predicted.request <= least))
      continue;
    Choice choice = choiceOf(candidate);
    if (!choice.fits)
      continue;
    if (!best || choice.predicted.request < best->predicted.request)
      best = choice;
    fill(choice, best);
    if (takesProfiledExperts(choice.unitDevices))
      fillProfiledExperts(choice, best);
  }
  return best;
}

/// Returns the choice that leaves least to the host although nothing fits, so
/// that the error can name what is missing.
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
      gpusFit &= choice.use[gpu].total() <= budgets.of(gpu);
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

void PlacementSearch::sort(std::vector<Candidate> &candidates) {
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    // The tie goes to the candidate with more bytes on GPUs.
    if (a.predicted.request != b.predicted.request)
      return a.predicted.request < b.predicted.request;
    return a.gpuBytes > b.gpuBytes;
  });
}

/// Describes the fastest candidates: the layers of which GPUs have each part,
/// and the seconds of a request by prices and by the simulator.
std::string PlacementSearch::describe(ArrayRef<Candidate> sorted) const {
  constexpr size_t kMost = 4;
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Candidate &candidate : sorted.take_front(kMost)) {
    os << (text.empty() ? "" : "; ");
    for (auto kind : {PlacementUnit::Attention, PlacementUnit::Dense,
                      PlacementUnit::Experts}) {
      int64_t here = 0;
      for (auto [unit, device] :
           llvm::zip_equal(unitList, candidate.unitDevices))
        here += unit.kind == kind && device != host;
      os << nameOf(kind) << " of " << here << ", ";
    }
    if (candidate.least > 0)
      os << formatSeconds(candidate.least) << " by prices, ";
    os << formatSeconds(candidate.predicted.request);
  }
  return text;
}

/// Returns whether weights and caches alone are more than all devices have.
bool PlacementSearch::exceedsAll() const {
  int64_t room = 0, needed = -sharedBytes;
  for (int device = 0; device <= host; ++device) {
    needed += fixedBytes[device];
    if (device == host || !budgets.isSame(size_t(device), size_t(host)))
      room += budgets.of(size_t(device));
  }
  for (const PlacementUnit &unit : unitList)
    needed += unit.leastBytes;
  return needed > room;
}

PlacementSearch::Choice PlacementSearch::run() const {
  // With fewer layers, all placements of the fixed set are soon predicted.
  constexpr size_t kManyLayers = 24;
  std::vector<Candidate> candidates;
  if (gpuTotal > 0 && layers.size() >= kManyLayers) {
    candidates = paths();
    sort(candidates);
    std::optional<Choice> best = fastest(candidates);
    if (best && llvm::any_of(best->unitDevices,
                             [&](int device) { return device != host; })) {
      best->paths = describe(candidates);
      return *std::move(best);
    }
    if (exceedsAll())
      return closest(std::move(candidates));
  }
  candidates = families();
  sort(candidates);
  std::optional<Choice> best = fastest(candidates);
  return best ? *std::move(best) : closest(std::move(candidates));
}
