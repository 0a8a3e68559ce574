#include "compiler/Explain/Diff.h"

#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <tuple>

using moert::count;
using moert::text;
namespace fb = moert::fb;

namespace moec {

namespace {

/// A part of a layer in the phase of one plan.
using PartKey = std::pair<std::string_view, int>;

/// Adds `name` to a list "a+b" that has each once.
void addName(std::string &list, std::string_view name) {
  for (std::string_view rest = list; !rest.empty();) {
    size_t end = std::min(rest.find('+'), rest.size());
    if (rest.substr(0, end) == name)
      return;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!name.empty())
    list += (list.empty() ? "" : "+") + std::string(name);
}

/// The parts of both in the order of the first plan, then what only the second
/// has.
struct Parts {
  std::vector<PartKey> order;
  std::map<PartKey, Both<PartCost>> costs;

  void add(const PhaseCost *phase, PartCost Both<PartCost>::*side) {
    if (!phase)
      return;
    for (const OpCost &op : phase->ops) {
      PartKey key(op.part, op.layer);
      auto [at, isNew] = costs.try_emplace(key);
      if (isNew)
        order.push_back(key);
      PartCost &cost = at->second.*side;
      addName(cost.device, op.device);
      addName(cost.kernel, op.kernel);
      cost.weightBytes += op.weightBytes;
      cost.seconds += op.seconds;
    }
  }
};

bool changes(const Both<PartCost> &cost) {
  const PartCost &a = cost.a, &b = cost.b;
  double larger = std::max(std::fabs(a.seconds), std::fabs(b.seconds));
  return a.device != b.device || a.kernel != b.kernel ||
         a.weightBytes != b.weightBytes ||
         std::fabs(a.seconds - b.seconds) > 0.01 * larger;
}

PhaseDiff diffOf(std::string_view name, const Both<const PhaseCost *> &phase) {
  PhaseDiff diff;
  diff.name = name;
  diff.step = {phase.a ? stepText(*phase.a) : "",
               phase.b ? stepText(*phase.b) : ""};
  diff.seconds = {phase.a ? phase.a->seconds : 0,
                  phase.b ? phase.b->seconds : 0};
  Parts parts;
  parts.add(phase.a, &Both<PartCost>::a);
  parts.add(phase.b, &Both<PartCost>::b);
  diff.parts = parts.order.size();
  // Alike: the same part, moved alike. Sums of layers whose figures differ are
  // as good as those of layers that agree.
  using Key = std::tuple<std::string_view, bool, std::string, std::string,
                         std::string, std::string>;
  std::map<Key, size_t> rowOf;
  for (const PartKey &part : parts.order) {
    const Both<PartCost> &cost = parts.costs.at(part);
    if (!changes(cost))
      continue;
    ++diff.changed;
    OpNames names(part.first, part.second);
    auto [at, isNew] =
        rowOf.try_emplace(Key{part.first, part.second >= 0, cost.a.device,
                              cost.b.device, cost.a.kernel, cost.b.kernel},
                          diff.rows.size());
    if (isNew) {
      diff.rows.push_back({std::move(names), cost});
      continue;
    }
    DiffRow &row = diff.rows[at->second];
    row.names.add(names);
    for (auto side : {&Both<PartCost>::a, &Both<PartCost>::b}) {
      (row.cost.*side).weightBytes += (cost.*side).weightBytes;
      (row.cost.*side).seconds += (cost.*side).seconds;
    }
  }
  std::ranges::stable_sort(diff.rows, std::greater(), [](const DiffRow &row) {
    return std::fabs(row.secondsMore());
  });
  return diff;
}

std::string expertsOf(const fb::Plan &plan) {
  return plan.experts() > 0
             ? fmt::format("{} of {}", plan.experts_used(), plan.experts())
             : "none";
}

std::string ubatchOf(const ExplainSummary &summary) {
  const PhaseCost *prefill = summary.prefill();
  return prefill ? std::to_string(prefill->maxTokens) : "none";
}

/// The names that `a` has and then those that only `b` has.
template <class List, class Name>
std::vector<std::string_view> namesOfBoth(const List &a, const List &b,
                                          Name name) {
  std::vector<std::string_view> names;
  for (const List *list : {&a, &b})
    for (const auto &entry : *list)
      if (std::ranges::find(names, name(entry)) == names.end())
        names.push_back(name(entry));
  return names;
}

bool sameMemory(const DeviceDiff &device) {
  const auto &[a, b] = device.memory;
  if (!a || !b)
    return false;
  auto figures = [](const DeviceMemory &memory) {
    return std::tuple(memory.used, memory.scratch,
                      memory.device->weight_bytes(), memory.device->kv_bytes(),
                      memory.device->arena_bytes(),
                      memory.device->memory_bytes());
  };
  return figures(*a) == figures(*b);
}

} // namespace

PlanDiff::PlanDiff(const fb::Plan &a, const fb::Plan &b)
    : summary{ExplainSummary(a), ExplainSummary(b)} {
  auto fact = [&](std::string_view name, std::string ofA, std::string ofB) {
    if (ofA != ofB)
      facts.push_back({std::string(name), {std::move(ofA), std::move(ofB)}});
  };
  auto words = [&](std::string_view name,
                   const flatbuffers::String *(fb::Plan::*field)() const) {
    fact(name, std::string(text((a.*field)())),
         std::string(text((b.*field)())));
  };
  words("model", &fb::Plan::model_name);
  words("architecture", &fb::Plan::architecture);
  if (a.parameters() != b.parameters())
    fact("parameters", moert::humanCount(uint64_t(a.parameters())),
         moert::humanCount(uint64_t(b.parameters())));
  fact("experts", expertsOf(a), expertsOf(b));
  words("target", &fb::Plan::target);
  fact("context", std::to_string(a.context()), std::to_string(b.context()));
  fact("sequences", std::to_string(a.sequences()),
       std::to_string(b.sequences()));
  fact("ubatch", ubatchOf(summary.a), ubatchOf(summary.b));
  fact("KV cache", moert::kvTypeNames(a), moert::kvTypeNames(b));
  words("options", &fb::Plan::options);
  words("compiler", &fb::Plan::compiler);

  auto nameOf = [](const DeviceMemory &memory) {
    return text(memory.device->name());
  };
  for (std::string_view name :
       namesOfBoth(summary.a.devices, summary.b.devices, nameOf)) {
    DeviceDiff &device = devices.emplace_back();
    device.name = name;
    auto find = [&](const ExplainSummary &of) -> std::optional<DeviceMemory> {
      auto at = std::ranges::find(of.devices, name, nameOf);
      return at == of.devices.end() ? std::nullopt : std::optional(*at);
    };
    device.memory = {find(summary.a), find(summary.b)};
  }
  auto phaseName = [](const PhaseCost &phase) { return phase.name; };
  for (std::string_view name :
       namesOfBoth(summary.a.phases, summary.b.phases, phaseName))
    phases.push_back(
        diffOf(name, {summary.a.phase(name), summary.b.phase(name)}));
}

bool PlanDiff::alike() const {
  return facts.empty() && std::ranges::all_of(devices, sameMemory) &&
         std::ranges::all_of(phases, [](const PhaseDiff &phase) {
           return phase.rows.empty() && !phase.seconds.differ();
         });
}

} // namespace moec
