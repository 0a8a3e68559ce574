#include "tools/moert/Profile.h"

#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/OpTable.h"
#include "tools/moert/Median.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace moert {

ProfileEntry &ProfileEntry::operator+=(const ProfileEntry &other) {
  calls += other.calls;
  time.wait += other.time.wait;
  time.run += other.time.run;
  work += other.work;
  return *this;
}

Profile::Profile(const Plan &plan, bool traced) : plan_(plan), traced_(traced) {
  for (const fb::Phase *phase : *plan.table().phases()) {
    uint32_t instructions = count(phase->instructions());
    Phase &added = phases_.emplace_back();
    added.table = phase;
    added.entries.resize(instructions);
    added.waits.resize(instructions);
  }
}

void Profile::add(const StepTimes &times) {
  auto phase = std::ranges::find_if(phases_, [&](const Phase &candidate) {
    return text(candidate.table->name()) == times.phase;
  });
  StepSize step = StepSize::after(times.step.position, times.step.tokens);
  double start = seconds_, run = 0;
  for (uint32_t i = 0; i < times.instructions.size(); ++i) {
    const InstructionTime &time = times.instructions[i];
    const fb::Instruction &instruction = *phase->table->instructions()->Get(i);
    phase->entries[i] += {1, time, instructionWork(instruction, step)};
    if (traced_)
      events_.push_back({uint32_t(phase - phases_.begin()), i,
                         times.step.tokens, start, time});
    phase->waits[i].push_back(time.wait);
    run += time.run;
    start += time.wait + time.run;
  }
  phase->runs.push_back(run);
  phase->rests.push_back(times.seconds - (start - seconds_));
  ++phase->steps;
  phase->seconds += times.seconds;
  seconds_ += times.seconds;
}

double Profile::Phase::medianOverhead() const {
  double idle = median(rests);
  for (const std::vector<double> &wait : waits)
    idle += median(wait);
  double all = idle + median(runs);
  return all > 0 ? idle / all : 0;
}

std::vector<ProfileSteps> Profile::steps() const {
  std::vector<ProfileSteps> all;
  for (const Phase &phase : phases_) {
    if (phase.steps == 0)
      continue;
    double run = 0;
    for (const ProfileEntry &entry : phase.entries)
      run += entry.time.run;
    all.push_back({std::string(text(phase.table->name())), phase.steps,
                   phase.seconds, run, phase.medianOverhead()});
  }
  return all;
}

std::string Profile::nameOf(const fb::Instruction &instruction,
                            ProfileKey key) const {
  const fb::Explain *op = opOf(plan_.table(), instruction);
  if (key == ProfileKey::Op || !op)
    return std::string(findOp(instruction.op())->name);
  return printable(key == ProfileKey::Part ? std::string(text(op->part()))
                                           : labelOf(*op));
}

std::vector<ProfileRow> Profile::rows(ProfileKey key) const {
  std::vector<ProfileRow> rows;
  for (const Phase &phase : phases_) {
    std::map<std::string, ProfileEntry> sums;
    for (uint32_t i = 0; i < phase.entries.size(); ++i)
      if (phase.entries[i].calls > 0)
        sums[nameOf(*phase.table->instructions()->Get(i), key)] +=
            phase.entries[i];
    auto first = std::ptrdiff_t(rows.size());
    for (auto &[name, entry] : sums)
      rows.push_back({std::string(text(phase.table->name())), name, entry});
    std::ranges::stable_sort(
        rows.begin() + first, rows.end(), std::greater<>{},
        [](const ProfileRow &row) { return row.entry.time.run; });
  }
  return rows;
}

std::string Profile::trace() const {
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char *separator = "\n";
  auto event = [&](std::string_view name, std::string_view category,
                   double start, double seconds, const std::string &arguments) {
    json += fmt::format("{}{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\","
                        "\"pid\":1,\"tid\":1,\"ts\":{:.3f},\"dur\":{:.3f},"
                        "\"args\":{}}}",
                        separator, nlohmann::json(name).dump(), category,
                        start * 1e6, seconds * 1e6, arguments);
    separator = ",\n";
  };
  for (const Event &e : events_) {
    const fb::Phase &phase = *phases_[e.phase].table;
    const fb::Instruction &instruction =
        *phase.instructions()->Get(e.instruction);
    nlohmann::json arguments = {
        {"label", nameOf(instruction, ProfileKey::Label)},
        {"tokens", e.tokens}};
    std::string dumped = arguments.dump();
    std::string_view category = text(phase.name());
    if (e.time.wait > 0)
      event("wait", category, e.start, e.time.wait, "{}");
    event(nameOf(instruction, ProfileKey::Op), category, e.start + e.time.wait,
          e.time.run, dumped);
  }
  return json + "\n]}\n";
}

} // namespace moert
