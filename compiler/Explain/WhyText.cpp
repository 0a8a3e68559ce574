#include "compiler/Explain/Figures.h"
#include "compiler/Explain/Why.h"
#include "runtime/base/Page.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>

using namespace moert;

namespace moec {

namespace {

/// "decode and prefill", or "" if these are all phases of the answer.
std::string phasesText(const std::vector<std::string_view> &phases,
                       const WhyAnswer &answer) {
  if (phases.size() == answer.phases.size())
    return "";
  std::string names;
  for (std::string_view phase : phases)
    names += (names.empty() ? "" : ", ") + printable(phase);
  return "in " + names + ": ";
}

/// The seconds of a step, as "88.0 us + 31.0 us" with those of its copies.
std::string secondsText(const WhyStep &step) {
  if (!step.seconds)
    return step.reason.starts_with("the plan records") ? "-" : "no kernel";
  std::string seconds = humanSeconds(*step.seconds);
  if (step.copies.count == 0)
    return seconds;
  return seconds + " + " +
         (step.copies.seconds ? humanSeconds(*step.copies.seconds) : "copies");
}

std::string roomText(const WhyDevice &device, double bytes) {
  if (!device.memory)
    return "not used by the plan";
  if (!device.freeBytes)
    return "the plan records no budget";
  if (device.isHere())
    return "the op is there";
  if (*device.freeBytes < bytes)
    return shortBytes(bytes - std::max(0.0, *device.freeBytes)) + " too few";
  return "enough";
}

void deviceTable(Page &page, const WhyAnswer &answer) {
  std::vector<Column> columns = {{"device", false, 12}};
  for (const PhaseCost *phase : answer.phases)
    columns.push_back({printable(phase->name), true, 20});
  columns.push_back({"needs", true, 10});
  columns.push_back({"free", true, 10});
  columns.push_back({"memory", false, 26});
  std::vector<std::vector<std::string>> rows;
  for (const WhyDevice &device : answer.devices) {
    std::vector<std::string> row = {escaped(device.name)};
    for (const WhyStep &step : device.steps)
      row.push_back(secondsText(step));
    row.push_back(shortBytes(answer.bytes));
    row.push_back(
        device.freeBytes ? shortBytes(std::max(0.0, *device.freeBytes)) : "-");
    row.push_back(roomText(device, answer.bytes));
    rows.push_back(std::move(row));
  }
  page.table(columns, rows);
}

/// Says what would be copied, once for phases that are alike.
void copiesOf(Page &page, const WhyDevice &device) {
  std::string text;
  bool usesCache = false;
  for (const WhyStep &step : device.steps) {
    usesCache |= step.copies.usesCache;
    if (step.copies.count == 0)
      continue;
    text += fmt::format(
        "{}{}: {}, {}{}", text.empty() ? "" : "; ", printable(step.phase),
        step.copies.count == 1
            ? "a further copy"
            : fmt::format("{} further copies", step.copies.count),
        humanBytes(step.copies.bytes),
        step.copies.seconds
            ? ", " + humanSeconds(*step.copies.seconds)
            : ", whose time is not known: the plan has no copy between these "
              "devices");
  }
  if (!text.empty())
    page.paragraph(fmt::format("  to {}: ", escaped(device.name)), text + ".");
  if (usesCache)
    page.paragraph(fmt::format("  to {}: ", escaped(device.name)),
                   "the layer's cache would move too, with all ops that use "
                   "it.");
}

void reasonsAgainst(Page &page, const WhyAnswer &answer,
                    const WhyDevice &device) {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> reasons;
  for (const WhyStep &step : device.steps) {
    if (step.isHere || step.reason.empty())
      continue;
    auto known = std::ranges::find_if(
        reasons, [&](const auto &each) { return each.first == step.reason; });
    if (known == reasons.end())
      reasons.push_back({step.reason, {step.phase}});
    else
      known->second.push_back(step.phase);
  }
  for (const auto &[reason, phases] : reasons)
    page.paragraph(fmt::format("  not {}: ", escaped(device.name)),
                   phasesText(phases, answer) + escaped(reason) + ".");
}

void answerGroup(Page &page, const WhyAnswer &answer) {
  std::string title = answer.names.text(/*brief=*/false);
  if (answer.names.occurrences > 1) // The layers of reasons are blk.N then.
    title +=
        fmt::format(" x{}, each (N is its layer)", answer.names.occurrences);
  page.group(title);
  for (const WhyReason &reason : answer.reasons)
    page.paragraph("  why: ", phasesText(reason.phases, answer) +
                                  (reason.text.empty()
                                       ? "on " + escaped(reason.device) +
                                             "; the plan records no reason."
                                       : escaped(reason.text)));
  deviceTable(page, answer);
  if (answer.isCopy)
    page.paragraph("  ", "A copy runs on the GPU of its two devices; it is "
                         "there because of the ops that make and read what it "
                         "copies.");
  else if (answer.devices.size() == 1)
    page.paragraph("  ", "The plan records no other device for it: the target "
                         "has none, or no choice was made.");
  for (const WhyDevice &device : answer.devices) {
    reasonsAgainst(page, answer, device);
    copiesOf(page, device);
  }
}

} // namespace

StatusOr<std::string> whyText(const fb::Plan &plan, std::string_view pattern,
                              bool full) {
  ExplainSummary summary(plan);
  MOE_ASSIGN_OR_RETURN(std::vector<WhyAnswer> answers,
                       whyOf(plan, summary, pattern, full));
  Page page;
  std::vector<const PhaseCost *> phases;
  for (const WhyAnswer &answer : answers) {
    answerGroup(page, answer);
    for (const PhaseCost *phase : answer.phases)
      if (std::ranges::find(phases, phase) == phases.end())
        phases.push_back(phase);
  }
  page.group("steps");
  for (const PhaseCost *phase : phases)
    page.line(printable(phase->name), stepText(*phase));
  page.paragraph("  ", "A time is that of the op alone in such a step; after "
                       "\"+\" that of the copies that it would need if it ran "
                       "there and all other ops stayed. Bytes are those of "
                       "its weights and cache.");
  return page.take();
}

} // namespace moec
