//===- PlacementFill.cpp - Some experts of a layer on a GPU ---------------===//

#include "dialects/moe/ExpertFrequencies.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/placement/PlacementSearch.h"

#include <map>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

/// Most layers that are divided per GPU without a router profile.
static constexpr size_t kMaxDividedLayers = 2;

/// Returns the groups of undivided experts on the host in layers whose
/// attention is on `gpu`, the last layer first.
SmallVector<int> PlacementSearch::divisible(ArrayRef<int> unitDevices,
                                            int gpu) const {
  SmallVector<int> groups;
  for (const Layer &layer : llvm::reverse(layers)) {
    int experts = layer.units[PlacementUnit::Experts];
    int attention = layer.units[PlacementUnit::Attention];
    if (experts < 0 || attention < 0 || unitDevices[experts] != host ||
        unitDevices[attention] != gpu || unfitGroupOf(experts, gpu) >= 0)
      continue;
    for (int group : llvm::reverse(unitList[experts].groups))
      if (isDivisible(group))
        groups.push_back(group);
  }
  return groups;
}

/// Returns whether some experts of the group can be on another device.
bool PlacementSearch::isDivisible(int group) const {
  auto op = dyn_cast<ExpertsOp>(problem.groups()[group].ops.front());
  return op && !op.getSliceAttr() && expertCount(op) > 1;
}

/// Returns whether experts go to GPUs one by one, guided by a router profile.
/// That needs a profile, all experts on the host, and the attention of their
/// layers on GPUs.
bool PlacementSearch::takesProfiledExperts(ArrayRef<int> unitDevices) const {
  return hasProfile && llvm::all_of(layers, [&](const Layer &layer) {
           int experts = layer.units[PlacementUnit::Experts];
           int attention = layer.units[PlacementUnit::Attention];
           return experts < 0 ||
                  (unitDevices[experts] == host && attention >= 0 &&
                   unitDevices[attention] != host);
         });
}

/// Returns an upper bound of the seconds per request that filling can save: the
/// host's time for all layers that could be divided. Copies and GPU time only
/// grow.
double PlacementSearch::savingsBound(ArrayRef<int> unitDevices) const {
  double seconds = 0;
  bool areHot = takesProfiledExperts(unitDevices);
  for (int gpu = 0; gpu < gpuTotal; ++gpu) {
    SmallVector<int> groups = divisible(unitDevices, gpu);
    for (int group : ArrayRef(groups).take_front(
             areHot ? groups.size()
                    : std::min(groups.size(), kMaxDividedLayers)))
      seconds += times.requestSeconds(group, host);
  }
  return seconds;
}

/// Returns the count from 1 to `most` with the least `seconds`, but not below
/// `floor`; 0 if there is none. The function falls, then rises, because a step
/// consists of sums and maxima of terms that are linear in the share of
/// experts.
static int64_t fastestCount(int64_t most, double floor,
                            function_ref<double(int64_t)> seconds) {
  // Returns the first number for which `holds` is true, and `end` if there is
  // none; `holds` stays true from that number on.
  auto firstOf = [](int64_t end, function_ref<bool(int64_t)> holds) {
    int64_t low = 1;
    while (low < end) {
      int64_t middle = (low + end) / 2;
      if (holds(middle))
        end = middle;
      else
        low = middle + 1;
    }
    return end;
  };
  int64_t fastest = most;
  if (most > 1 && seconds(most) > seconds(most - 1))
    fastest = firstOf(most - 1, [&](int64_t count) {
      return seconds(count + 1) >= seconds(count);
    });
  if (seconds(fastest) >= floor)
    return fastest;
  return firstOf(fastest,
                 [&](int64_t count) { return seconds(count) < floor; }) -
         1;
}

static SmallVector<int64_t> firstExperts(int64_t count) {
  SmallVector<int64_t> first(static_cast<size_t>(count));
  std::iota(first.begin(), first.end(), 0);
  return first;
}

/// Splits off the first `count` experts of a group on the host, for `gpu`.
ExpertSplit PlacementSearch::splitOf(int group, int gpu, int64_t count) const {
  auto op = cast<ExpertsOp>(problem.groups()[group].ops.front());
  SmallVector<int64_t> first = firstExperts(count);
  double share = shareOf(op, first);
  return {group, gpu, expertCount(op), std::move(first), share};
}

/// Returns the seconds of a request with all experts of these groups on `gpu`.
/// A prediction with fewer experts there must not be faster: it would rely on
/// overlap with the host, the least certain part of a prediction, and experts
/// for which GPUs have room are moved as whole units.
double PlacementSearch::secondsWithAll(const Choice &choice, int gpu,
                                       ArrayRef<int> groups) const {
  std::vector<int> devices = choice.unitDevices;
  for (int group : groups)
    devices[unitIndex[group]] = gpu;
  return times.predict(assign(devices), choice.splits).request;
}

/// Returns `choice` with as many of the group's first experts on `gpu` as fit
/// and are fastest; nothing if not even one helps.
std::optional<PlacementSearch::Choice>
PlacementSearch::withFirst(const Choice &choice, int group, int gpu) const {
  Choice other = choice;
  other.splits.push_back(splitOf(group, gpu, 1));
  other.use = problem.memoryUse(other.assignment, other.splits);
  int64_t experts = other.splits.back().experts;
  if (!fits(other.use))
    return std::nullopt;
  // The same rounding as in memoryUse().
  int64_t each = problem.groups()[group].weightBytes / experts + 1;
  std::vector<int64_t> used = totalsOf(other.use);
  // In one memory, an expert only changes hands, and what is rounded is more.
  int64_t more = budgets.isSame(gpu, host) ? 1 : each;
  int64_t most = 1 + std::min((budgets.of(gpu) - used[gpu]) / each,
                              budgets.left(gpu, used) / more);
  auto predictedOf = [&](int64_t count) {
    other.splits.back() = splitOf(group, gpu, count);
    return times.predict(other.assignment, other.splits);
  };
  int64_t count = fastestCount(
      std::min(most, experts - 1), secondsWithAll(choice, gpu, group),
      [&](int64_t number) { return predictedOf(number).request; });
  if (count == 0)
    return std::nullopt;
  other.predicted = predictedOf(count);
  other.use = problem.memoryUse(other.assignment, other.splits);
  return other;
}

/// Improves `best` by dividing the experts of the last layers of `whole`, GPU
/// after GPU.
void PlacementSearch::fill(const Choice &whole,
                           std::optional<Choice> &best) const {
  Choice filled = whole;
  for (int gpu = 0; gpu < gpuTotal; ++gpu) {
    const SmallVector<int> groups = divisible(whole.unitDevices, gpu);
    for (int group : ArrayRef(groups).take_front(kMaxDividedLayers)) {
      std::optional<Choice> more = withFirst(filled, group, gpu);
      if (!more || more->predicted.request >= filled.predicted.request)
        break;
      filled = *std::move(more);
      const ExpertSplit &split = filled.splits.back();
      if (split.count() < split.experts - 1)
        break;
    }
  }
  if (filled.predicted.request < best->predicted.request)
    best = std::move(filled);
}

/// Returns `choice` with as many experts of `byGain` on `gpu` as fit and are
/// fastest; nothing if not even one helps.
std::optional<PlacementSearch::Choice>
PlacementSearch::withProfiledExperts(const Choice &choice, int gpu,
                                     ArrayRef<HotExpert> byGain) const {
  auto with = [&](int64_t count) {
    std::map<int, SmallVector<int64_t>> chosen;
    for (const HotExpert &expert : byGain.take_front(size_t(count)))
      chosen[expert.group].push_back(expert.number);
    Choice other = choice;
    for (auto &[group, experts] : chosen) {
      llvm::sort(experts);
      auto op = cast<ExpertsOp>(problem.groups()[group].ops.front());
      double share = shareOf(op, experts);
      other.splits.push_back(
          {group, gpu, expertCount(op), std::move(experts), share});
    }
    return other;
  };
  int64_t low = 0, high = int64_t(byGain.size()); // `low` fits, `high` may.
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    Choice other = with(middle);
    if (fits(problem.memoryUse(other.assignment, other.splits)))
      low = middle;
    else
      high = middle - 1;
  }
  if (low == 0)
    return std::nullopt;
  auto predictedOf = [&](const Choice &other) {
    return times.predict(other.assignment, other.splits);
  };
  SmallVector<int> groups;
  for (const HotExpert &expert : byGain)
    groups.push_back(expert.group);
  int64_t count = fastestCount(
      low, secondsWithAll(choice, gpu, groups),
      [&](int64_t number) { return predictedOf(with(number)).request; });
  if (count == 0)
    return std::nullopt;
  Choice found = with(count);
  found.predicted = predictedOf(found);
  found.use = problem.memoryUse(found.assignment, found.splits);
  return found;
}

/// Improves `best` by moving the experts of `whole` that save most seconds per
/// byte. The candidates are the experts of all profiled layers, or only of the
/// layers that save most, because each divided layer costs a copy and a launch.
void PlacementSearch::fillProfiledExperts(const Choice &whole,
                                          std::optional<Choice> &best) const {
  Choice filled = whole;
  for (int gpu = 0; gpu < gpuTotal; ++gpu) {
    auto savesMore = [](const HotExpert &a, const HotExpert &b) {
      return a.saved > b.saved;
    };
    SmallVector<int> groups;
    std::map<int, std::vector<HotExpert>> byGroup;
    for (int group : divisible(whole.unitDevices, gpu)) {
      const OpGroup &known = problem.groups()[group];
      auto op = cast<ExpertsOp>(known.ops.front());
      if (!op->hasAttr(kFrequenciesAttr))
        continue;
      groups.push_back(group);
      int64_t experts = expertCount(op);
      int64_t bytes = known.weightBytes / experts + 1;
      double saved =
          times.requestSeconds(group, host) - times.requestSeconds(group, gpu);
      std::vector<HotExpert> &own = byGroup[group];
      for (int64_t number = 0; number < experts; ++number)
        own.push_back(
            {group, number, saved * shareOf(op, number) / double(bytes)});
      llvm::stable_sort(own, savesMore);
      own.pop_back(); // All experts would be a whole unit.
    }
    llvm::stable_sort(groups, [&](int a, int b) {
      return savesMore(byGroup[a].front(), byGroup[b].front());
    });
    std::optional<Choice> fastest;
    for (size_t count = groups.size(); count > 0; count /= 2) {
      std::vector<HotExpert> byGain;
      for (int group : ArrayRef(groups).take_front(count))
        llvm::append_range(byGain, byGroup[group]);
      llvm::stable_sort(byGain, savesMore);
      if (auto other = withProfiledExperts(filled, gpu, byGain);
          other &&
          (!fastest || other->predicted.request < fastest->predicted.request))
        fastest = std::move(other);
    }
    if (fastest)
      filled = *std::move(fastest);
    if (filled.predicted.request < best->predicted.request)
      best = filled;
  }
}
