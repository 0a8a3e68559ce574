#include "tools/moert/Profile.h"

#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/OpTable.h"
#include "tools/moert/Median.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
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
    added.runs.resize(count(plan.table().queues()));
    added.rests.resize(added.runs.size());
  }
}

void Profile::add(const PhaseRun &times) {
  auto phase = std::ranges::find_if(phases_, [&](const Phase &candidate) {
    return kindOf(*candidate.table) == times.phase;
  });
  StepSize step = StepSize::after(times.step.position, times.step.tokens);
  // Queues work at the same time.
  std::vector<double> starts(phase->runs.size(), seconds_);
  std::vector<double> runs(phase->runs.size());
  for (uint32_t i = 0; i < times.instructions.size(); ++i) {
    const InstructionTime &time = times.instructions[i];
    const fb::Instruction &instruction = *phase->table->instructions()->Get(i);
    double &start = starts[instruction.queue()];
    phase->entries[i] += {1, time, instructionWork(instruction, step)};
    if (traced_)
      events_.push_back({uint32_t(phase - phases_.begin()), i,
                         times.step.tokens, start, time});
    phase->waits[i].push_back(time.wait);
    runs[instruction.queue()] += time.run;
    start += time.wait + time.run;
  }
  for (size_t queue = 0; queue < runs.size(); ++queue) {
    phase->runs[queue].push_back(runs[queue]);
    phase->rests[queue].push_back(
        std::max(0.0, times.seconds - (starts[queue] - seconds_)));
  }
  ++phase->steps;
  phase->seconds += times.seconds;
  seconds_ += times.seconds;
}

double Profile::Phase::runOf(uint32_t queue) const {
  return std::accumulate(runs[queue].begin(), runs[queue].end(), 0.0);
}

uint32_t Profile::Phase::busiest() const {
  uint32_t most = 0;
  for (uint32_t queue = 1; queue < runs.size(); ++queue)
    if (runOf(queue) > runOf(most))
      most = queue;
  return most;
}

double Profile::Phase::medianOverhead() const {
  const uint32_t queue = busiest();
  double idle = median(rests[queue]);
  for (uint32_t i = 0; i < waits.size(); ++i)
    if (table->instructions()->Get(i)->queue() == queue)
      idle += median(waits[i]);
  double all = idle + median(runs[queue]);
  return all > 0 ? idle / all : 0;
}

std::string Profile::deviceName(uint32_t queue) const {
  const fb::Queue &of = *plan_.table().queues()->Get(queue);
  std::string name(text(plan_.table().devices()->Get(of.device())->name()));
  return of.kind() == fb::QueueKind::Copy ? name + " copies" : name;
}

std::vector<ProfileQueue> Profile::queues() const {
  std::vector<ProfileQueue> all(count(plan_.table().queues()));
  std::vector<bool> runs(all.size());
  for (const Phase &phase : phases_)
    for (uint32_t i = 0; i < phase.entries.size(); ++i) {
      const uint32_t queue = phase.table->instructions()->Get(i)->queue();
      all[queue].run += phase.entries[i].time.run;
      all[queue].wait += phase.entries[i].time.wait;
      runs[queue] = runs[queue] || phase.entries[i].calls > 0;
    }
  std::vector<ProfileQueue> used;
  for (uint32_t queue = 0; queue < all.size(); ++queue)
    if (runs[queue]) {
      all[queue].device = deviceName(queue);
      all[queue].rest =
          std::max(0.0, seconds_ - all[queue].run - all[queue].wait);
      used.push_back(all[queue]);
    }
  return used;
}

std::vector<ProfileSteps> Profile::steps() const {
  std::vector<ProfileSteps> all;
  for (const Phase &phase : phases_) {
    if (phase.steps == 0)
      continue;
    all.push_back({std::string(text(phase.table->name())), phase.steps,
                   phase.seconds, phase.runOf(phase.busiest()),
                   phase.medianOverhead()});
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
    std::map<std::pair<std::string, uint32_t>, ProfileEntry> sums;
    for (uint32_t i = 0; i < phase.entries.size(); ++i) {
      const fb::Instruction &instruction = *phase.table->instructions()->Get(i);
      if (phase.entries[i].calls > 0)
        sums[{nameOf(instruction, key), instruction.queue()}] +=
            phase.entries[i];
    }
    auto first = std::ptrdiff_t(rows.size());
    for (auto &[of, entry] : sums)
      rows.push_back({std::string(text(phase.table->name())), of.first,
                      deviceName(of.second), entry});
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
                   uint32_t queue, double start, double seconds,
                   const std::string &arguments) {
    json += fmt::format("{}{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\","
                        "\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
                        "\"args\":{}}}",
                        separator, nlohmann::json(name).dump(), category,
                        queue + 1, start * 1e6, seconds * 1e6, arguments);
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
      event("wait", category, instruction.queue(), e.start, e.time.wait, "{}");
    event(nameOf(instruction, ProfileKey::Op), category, instruction.queue(),
          e.start + e.time.wait, e.time.run, dumped);
  }
  // The names of the threads in viewers.
  for (uint32_t queue = 0; queue < count(plan_.table().queues()); ++queue) {
    json += fmt::format("{}{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,"
                        "\"tid\":{},\"args\":{{\"name\":{}}}}}",
                        separator, queue + 1,
                        nlohmann::json(deviceName(queue)).dump());
    separator = ",\n";
  }
  return json + "\n]}\n";
}

} // namespace moert
