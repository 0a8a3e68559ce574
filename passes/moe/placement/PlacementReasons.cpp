#include "passes/moe/placement/PlacementReasons.h"

#include "llvm/Support/Format.h"
#include "passes/moe/Support.h"

using namespace mlir;
using namespace mlir::moe;

static std::string twoDecimals(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2f", value);
  return text;
}

/// Whether the group has a part in steps of one token.
static bool isForTokens(const OpGroup &group) {
  return llvm::any_of(group.ops, [](Operation *op) {
    PhaseAttr phase = phaseOf(op->getParentOfType<func::FuncOp>());
    return phase && isOfOneToken(phase);
  });
}

std::string PlacementReasons::of(int index) {
  const OpGroup &group = problem.groups()[index];
  int own = choice.assignment[index];
  const moec::DeviceDesc &device = target.devices[own];
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "On " << device.name << ": ";
  if (group.weightBytes == 0) {
    os << "no weights, so it runs on the device with its layer's values ("
       << seconds(index, own) << " a token).";
    return text;
  }
  int other = otherDevice(index);
  if (other < 0)
    os << (target.devices.size() == 1
               ? "the target's only device; "
               : "the host, because no rule places it elsewhere; ");
  if (!isForTokens(group)) {
    os << "prompts alone use its " << formatCapacity(double(group.weightBytes));
    if (other >= 0)
      os << "; " << alternativeText(search.unitOf(index), other);
    os << ".";
    return text;
  }
  os << "a token reads "
     << (group.readFraction < 1 ? formatPercent(group.readFraction) : "all")
     << " of its " << formatCapacity(double(group.weightBytes)) << " ("
     << twoDecimals(group.intensity()) << " FLOPs per resident byte and token)";
  if (other < 0) {
    os << ".";
    return text;
  }
  std::string here = seconds(index, own), there = seconds(index, other);
  if (here == there && here == formatSeconds(0))
    os << ", almost no time on either device; ";
  else
    os << ", " << here << " here instead of " << there << " on "
       << target.devices[other].name << "; ";
  os << alternativeText(search.unitOf(index), other) << ".";
  return text;
}

std::string PlacementReasons::seconds(int group, int device) const {
  return times.canRun(group, device)
             ? formatSeconds(times.decodeSeconds(group, device))
             : "no kernel";
}

/// Returns the device to compare with: the host for a group on a GPU, the GPU
/// with most room for a group on the host; -1 without a GPU.
int PlacementReasons::otherDevice(int index) const {
  if (target.gpuCount() == 0)
    return -1;
  int host = int(target.devices.size()) - 1;
  if (choice.assignment[index] != host)
    return host;
  // The GPU with the most room.
  int best = 0;
  for (int gpu = 1; gpu < int(target.gpuCount()); ++gpu)
    if (left(gpu) > left(best))
      best = gpu;
  return best;
}

int64_t PlacementReasons::left(int device) const {
  return moec::MemoryBudgets(target).left(size_t(device), totalsOf(choice.use));
}

/// Returns what moving this unit to `other` would change. All units that are
/// alike and on the same device share the answer, computed for the middle one.
std::string PlacementReasons::alternativeText(int unit, int other) {
  const PlacementUnit &own = search.units()[unit];
  int device = choice.unitDevices[unit];
  if (int unfit = search.unfitGroupOf(unit, other); unfit >= 0)
    return target.devices[other].name + " has no kernel for " +
           problem.groups()[unfit].label + ", and a layer's " +
           nameOf(own.kind).str() + " stays together";
  auto [it, isNew] =
      verdicts.try_emplace({int(own.kind), device, other, own.leastBytes});
  if (!isNew)
    return it->second;
  SmallVector<int> alike;
  for (auto [index, candidate] : llvm::enumerate(search.units()))
    if (candidate.kind == own.kind && candidate.bytes == own.bytes &&
        choice.unitDevices[index] == device)
      alike.push_back(int(index));
  return it->second = compare(alike[alike.size() / 2], other);
}

std::string PlacementReasons::compare(int unit, int other) const {
  const PlacementUnit &own = search.units()[unit];
  auto moved = search.moved(choice, unit, other);
  double before = choice.predicted.request;
  double after = times.predict(moved, choice.splits).request;
  std::string subject =
      ("with the " + nameOf(own.kind) + (own.layer ? " of the layer" : "") +
       " on " + target.devices[other].name + " a request would take ")
          .str();
  double change = before > 0 ? (after - before) / before : 0;
  std::string by = formatPercent(std::abs(change));
  if (change >= 0)
    return subject + by + " longer";
  auto use = problem.memoryUse(moved, choice.splits);
  if (search.fits(use))
    return subject + by + " less, a negligible difference";
  int64_t more = use[other].total() - choice.use[other].total();
  return subject + by + " less, but " +
         formatCapacity(double(std::max<int64_t>(0, more))) +
         " are needed and " +
         formatCapacity(double(std::max<int64_t>(0, left(other)))) +
         " left there";
}

std::map<int, std::string> PlacementReasons::against(int index) {
  const OpGroup &group = problem.groups()[index];
  int own = choice.assignment[index], unit = search.unitOf(index);
  std::map<int, std::string> reasons;
  for (int other = 0; other < int(target.devices.size()); ++other) {
    if (other == own)
      continue;
    if (group.device >= 0)
      reasons[other] = "a rule asks for " + target.devices[own].name;
    else if (unit < 0)
      reasons[other] = "no weights, so it runs on the device with its layer's "
                       "values";
    else
      reasons[other] = alternativeText(unit, other);
  }
  return reasons;
}
