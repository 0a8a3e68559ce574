#include "compiler/Explain/Why.h"

#include "compiler/Explain/OpPattern.h"
#include "runtime/base/Suggest.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>

using namespace moert;

namespace moec {

bool WhyDevice::isHere() const {
  return std::ranges::all_of(steps, &WhyStep::isHere);
}

std::string WhyReason::rule() const {
  // What moe-apply-rules writes into reasons.
  constexpr std::string_view kBefore = "the rule '", kAfter = "' asks for ";
  size_t begin = text.find(kBefore), end = text.find(kAfter, begin);
  if (begin != text.npos && end != text.npos) {
    begin += kBefore.size();
    return text.substr(begin, end - begin);
  }
  return text.find(" are to be on GPUs.") != text.npos ? "--n-gpu-layers" : "";
}

namespace {

/// An op in one phase, and its number in the plan's explanation.
struct Entry {
  const PhaseCost *phase;
  const OpCost *op;
  uint32_t number;
};

/// One op, in all its phases.
struct Op {
  std::string_view part;
  int layer;
  std::vector<Entry> entries;
};

/// What plan-overhead adds to a phase is not an op.
bool isOverhead(const OpCost &op) {
  return op.part == kOverlapPart || op.part == "overhead";
}

bool isCopy(const OpCost &op) { return op.kernel.starts_with("copy"); }

class Asked {
public:
  Asked(const fb::Plan &plan, const ExplainSummary &summary)
      : plan_(plan), summary_(summary) {
    std::map<std::pair<std::string_view, int>, size_t> known;
    std::map<std::string_view, size_t> next;
    for (uint32_t i = 0; i < count(plan.explanation()); ++i) {
      // The summary keeps the order of each phase's entries.
      std::string_view name = text(plan.explanation()->Get(i)->phase());
      const PhaseCost *phase = summary.phase(name);
      const OpCost &op = phase->ops[next[name]++];
      if (isOverhead(op))
        continue;
      auto [at, isNew] = known.try_emplace({op.part, op.layer}, ops_.size());
      if (isNew)
        ops_.push_back({op.part, op.layer, {}});
      ops_[at->second].entries.push_back({phase, &op, i});
    }
    for (uint32_t i = 0; i < count(plan.phases()); ++i) {
      const fb::Phase &phase = *plan.phases()->Get(i);
      if (const PhaseCost *cost = summary.phase(text(phase.name())))
        moves_.try_emplace(cost->name, plan, phase, *cost);
    }
  }

  StatusOr<std::vector<const Op *>> named(std::string_view text) const;
  WhyAnswer answer(const Op &op) const;

private:
  Status noSuchOp(std::string_view text) const;
  WhyDevice device(std::string_view name, const Op &op) const;
  WhyStep step(std::string_view device, const Op &op, const Entry &entry) const;

  const fb::Plan &plan_;
  const ExplainSummary &summary_;
  std::vector<Op> ops_;
  std::map<std::string_view, Moves> moves_; ///< By phase.
};

} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

StatusOr<std::vector<const Op *>> Asked::named(std::string_view text) const {
  if (ops_.empty())
    return Status(StatusCode::Unsupported, "this plan explains no op");
  OpPattern pattern(text);
  std::vector<const Op *> whole, parts;
  // Copies are named after what they copy, and are hardly meant.
  bool meansCopies = text.find("to_") != text.npos;
  for (const Op &op : ops_) {
    if (isCopy(*op.entries.front().op) && !meansCopies)
      continue;
    OpPattern::Match match = pattern.match(op.part, op.layer);
    if (match == OpPattern::Match::Whole)
      whole.push_back(&op);
    if (match == OpPattern::Match::Part)
      parts.push_back(&op);
  }
  if (whole.empty() && parts.empty())
    return noSuchOp(text);
  return whole.empty() ? std::move(parts) : std::move(whole);
}

Status Asked::noSuchOp(std::string_view wanted) const {
  // Names as one would write them: "blk.*.part" of layers, and other labels.
  std::vector<std::string> names;
  std::string_view part =
      wanted.substr(wanted.starts_with("blk.")
                        ? std::min(wanted.rfind('.') + 1, wanted.size())
                        : 0);
  for (const Op &op : ops_)
    if (std::string name(op.part);
        !isCopy(*op.entries.front().op) &&
        std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  auto distance = [&](const std::string &name) {
    return editDistance(part.substr(0, 256),
                        std::string_view(name).substr(0, 256));
  };
  constexpr size_t kNearest = 3;
  std::ranges::stable_sort(names, std::less(), distance);
  names.resize(std::min(names.size(), kNearest));
  for (std::string &name : names)
    name = printable(name);
  return Status(StatusCode::Usage,
                fmt::format("no op of the plan is called {}; the nearest names "
                            "are {}; moec explain lists all",
                            quoted(wanted), fmt::join(names, ", ")));
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

WhyStep Asked::step(std::string_view device, const Op &op,
                    const Entry &entry) const {
  WhyStep step;
  step.phase = entry.phase->name;
  if (entry.op->device == device) {
    step.isHere = true;
    step.seconds = entry.op->seconds;
    return step;
  }
  const RejectedCost *found = nullptr;
  for (const RejectedCost &rejected : entry.op->rejected)
    if (rejected.kind == "device" && rejected.name == device)
      found = &rejected;
  if (!found) {
    step.reason = "the plan records no cost of it there";
    return step;
  }
  step.seconds = found->seconds;
  step.reason = ofAnyLayer(found->reason, *entry.op);
  if (auto moves = moves_.find(entry.phase->name);
      moves != moves_.end() && found->seconds)
    step.copies = moves->second.copies(entry.number, device);
  return step;
}

WhyDevice Asked::device(std::string_view name, const Op &op) const {
  WhyDevice device;
  device.name = name;
  for (const DeviceMemory &memory : summary_.devices) {
    if (text(memory.device->name()) != name)
      continue;
    device.memory = &memory;
    // A GPU that shares the CPU's memory has no budget of its own.
    const DeviceMemory *budget = &memory;
    if (memory.device->shares_memory())
      for (const DeviceMemory &other : summary_.devices)
        if (other.device->kind() == fb::DeviceKind::Cpu)
          budget = &other;
    if (budget->device->memory_bytes() > 0)
      device.freeBytes =
          double(budget->device->memory_bytes()) - double(budget->used);
  }
  for (const Entry &entry : op.entries)
    device.steps.push_back(step(name, op, entry));
  return device;
}

WhyAnswer Asked::answer(const Op &op) const {
  WhyAnswer answer{OpNames(op.part, op.layer)};
  answer.isCopy = isCopy(*op.entries.front().op);
  std::vector<std::string_view> names;
  auto addName = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end())
      names.push_back(name);
  };
  for (const Entry &entry : op.entries) {
    answer.phases.push_back(entry.phase);
    answer.bytes = std::max(answer.bytes, entry.op->heldBytes);
    std::string reason = reasonOfAnyLayer(*entry.op);
    auto known =
        std::ranges::find_if(answer.reasons, [&](const WhyReason &each) {
          return each.text == reason && each.device == entry.op->device;
        });
    if (known != answer.reasons.end())
      known->phases.push_back(entry.phase->name);
    else
      answer.reasons.push_back(
          {{entry.phase->name}, entry.op->device, std::move(reason)});
    addName(entry.op->device);
    for (const RejectedCost &rejected : entry.op->rejected)
      if (rejected.kind == "device")
        addName(rejected.name);
  }
  for (std::string_view name : names)
    answer.devices.push_back(device(name, op));
  return answer;
}

/// What answers to compare by: everything but the layers.
static std::string keyOf(const WhyAnswer &answer) {
  std::string key =
      fmt::format("{} {} {} {}", answer.names.part, answer.names.layers.empty(),
                  answer.bytes, answer.isCopy);
  for (const WhyReason &reason : answer.reasons)
    key += fmt::format("\n{} {} {}", fmt::join(reason.phases, ","),
                       reason.device, reason.text);
  for (const WhyDevice &device : answer.devices) {
    key += fmt::format("\n{}", device.name);
    for (const WhyStep &step : device.steps)
      key += fmt::format("\n{} {} {} {} {} {} {} {}", step.phase, step.isHere,
                         step.seconds.value_or(-1), step.copies.count,
                         step.copies.bytes, step.copies.seconds.value_or(-1),
                         step.copies.usesCache, step.reason);
  }
  return key;
}

/// Undoes ofAnyLayer() for a text about ops of one layer.
static void nameLayer(std::string &text, int layer) {
  for (auto [from, by] : {std::pair("blk.N.", 0), {"blk.N-1.", 1}})
    for (size_t at = text.find(from); at != text.npos; at = text.find(from, at))
      text.replace(at, std::string_view(from).size(),
                   fmt::format("blk.{}.", layer - by));
}

static void nameLayer(WhyAnswer &answer) {
  if (answer.names.layers.size() != 1)
    return;
  int layer = *answer.names.layers.begin();
  for (WhyReason &reason : answer.reasons)
    nameLayer(reason.text, layer);
  for (WhyDevice &device : answer.devices)
    for (WhyStep &step : device.steps)
      nameLayer(step.reason, layer);
}

StatusOr<std::vector<WhyAnswer>> whyOf(const fb::Plan &plan,
                                       const ExplainSummary &summary,
                                       std::string_view pattern, bool full) {
  Asked asked(plan, summary);
  MOE_ASSIGN_OR_RETURN(std::vector<const Op *> ops, asked.named(pattern));
  std::vector<WhyAnswer> answers;
  std::map<std::string, size_t> known;
  for (const Op *op : ops) {
    WhyAnswer answer = asked.answer(*op);
    auto [at, isNew] = known.try_emplace(keyOf(answer), answers.size());
    if (isNew || full)
      answers.push_back(std::move(answer));
    else
      answers[at->second].names.add(answer.names);
  }
  for (WhyAnswer &answer : answers)
    nameLayer(answer);
  return answers;
}

} // namespace moec
