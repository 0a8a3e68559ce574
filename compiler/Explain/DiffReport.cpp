#include "compiler/Explain/Diff.h"
#include "compiler/Explain/ExplainJson.h"
#include "compiler/Explain/Figures.h"
#include "runtime/base/Page.h"
#include "runtime/base/Text.h"

#include <cmath>
#include <fmt/format.h>

using moert::escaped;
using moert::humanBytes;

namespace moec {

using Json = nlohmann::ordered_json;

namespace {

/// Returns "a", or "a -> b" if they differ.
std::string change(const std::string &a, const std::string &b) {
  return a == b ? a : a + " -> " + b;
}

std::string orDash(const std::string &text) {
  return text.empty() ? "-" : text;
}

void memoryGroup(moert::Page &page, const PlanDiff &diff) {
  page.group("memory");
  std::vector<std::vector<std::string>> rows;
  for (const DeviceDiff &device : diff.devices) {
    auto both = [&](auto bytesOf) {
      auto of = [&](const std::optional<DeviceMemory> &memory) {
        return memory ? shortBytes(double(bytesOf(*memory))) : "-";
      };
      return change(of(device.memory.a), of(device.memory.b));
    };
    using Memory = DeviceMemory;
    rows.push_back(
        {escaped(device.name),
         both([](const Memory &m) { return m.device->weight_bytes(); }),
         both([](const Memory &m) { return m.device->kv_bytes(); }),
         both([](const Memory &m) {
           return m.device->arena_bytes() + m.scratch;
         }),
         both([](const Memory &m) { return m.used; }),
         both([](const Memory &m) { return m.device->memory_bytes(); })});
  }
  page.table({{"device", false, 8},
              {"weights", true, 22},
              {"KV cache", true, 22},
              {"activations", true, 22},
              {"used", true, 22},
              {"budget", true, 22}},
             rows);
}

void speedGroup(moert::Page &page, const PlanDiff &diff) {
  page.group("predicted speed");
  bool any = false;
  auto line = [&](std::string_view label,
                  std::optional<double> (ExplainSummary::*rate)() const) {
    std::optional<double> a = (diff.summary.a.*rate)(),
                          b = (diff.summary.b.*rate)();
    if (!a && !b)
      return;
    any = true;
    std::string text =
        change(a ? rateText(*a) : "none", b ? rateText(*b) : "none");
    if (a && b && *a != *b)
      text += fmt::format(", {:.2f} times", *b / *a);
    page.line(label, text);
  };
  line("prefill", &ExplainSummary::prefillRate);
  line("decode", &ExplainSummary::decodeRate);
  line("batch", &ExplainSummary::batchRate);
  if (!any)
    page.line("none", "the plans have no predicted times");
}

void phaseGroup(moert::Page &page, const PhaseDiff &phase) {
  if (phase.rows.empty())
    return;
  page.group(fmt::format(
      "{}: {} of {} differ, {}", moert::printable(phase.name), phase.changed,
      moert::counted(phase.parts, "op"),
      change(humanSeconds(phase.seconds.a), humanSeconds(phase.seconds.b))));
  if (phase.step.differ())
    page.line("step", change(orDash(phase.step.a), orDash(phase.step.b)) +
                          ": the times are for different work");
  std::vector<std::vector<std::string>> rows;
  for (const DiffRow &row : phase.rows) {
    const auto &[a, b] = row.cost;
    std::string name = row.names.text(/*brief=*/true);
    if (row.names.occurrences > 1)
      name += fmt::format(" x{}", row.names.occurrences);
    double more = row.secondsMore();
    rows.push_back(
        {name, change(orDash(escaped(a.device)), orDash(escaped(b.device))),
         change(shortBytes(a.weightBytes), shortBytes(b.weightBytes)),
         humanSeconds(a.seconds), humanSeconds(b.seconds),
         (more > 0 ? "+" : "") + humanSeconds(more)});
    if (a.kernel != b.kernel && !a.kernel.empty() && !b.kernel.empty())
      rows.push_back({"  " + escaped(a.kernel) + " -> " + escaped(b.kernel)});
  }
  page.table({{"op", false, 50},
              {"device", false, 22},
              {"weights", true, 20},
              {"time", true, 8},
              {"then", true, 8},
              {"", true, 9}},
             rows);
}

Json pairOf(Json a, Json b) {
  return Json::array({std::move(a), std::move(b)});
}

template <class T>
Json pairOf(const std::optional<T> &a, const std::optional<T> &b) {
  return pairOf(a ? Json(*a) : Json(), b ? Json(*b) : Json());
}

Json rowJson(const DiffRow &row) {
  const auto &[a, b] = row.cost;
  return {{"op", row.names.name()},
          {"device", pairOf(a.device, b.device)},
          {"kernel", pairOf(a.kernel, b.kernel)},
          {"weight_bytes", pairOf(a.weightBytes, b.weightBytes)},
          {"seconds", pairOf(a.seconds, b.seconds)}};
}

} // namespace

std::string diffText(const PlanDiff &diff) {
  moert::Page page;
  if (diff.alike()) {
    page.group("the plans are alike");
    page.line("", "They differ in no option, size, predicted time or kernel.");
    return page.take();
  }
  if (!diff.facts.empty()) {
    page.group("plan");
    for (const auto &[name, both] : diff.facts) {
      page.line(name, orDash(escaped(both.a)));
      page.line("", "-> " + orDash(escaped(both.b)));
    }
  }
  memoryGroup(page, diff);
  speedGroup(page, diff);
  for (const PhaseDiff &phase : diff.phases)
    phaseGroup(page, phase);
  return page.take();
}

std::string diffJson(const PlanDiff &diff) {
  Json json = {{"alike", diff.alike()}};
  json["plan"] = Json::object();
  for (const auto &[name, both] : diff.facts)
    json["plan"][name] = pairOf(both.a, both.b);
  json["devices"] = Json::array();
  for (const DeviceDiff &device : diff.devices) {
    auto of = [](const std::optional<DeviceMemory> &memory) {
      return memory ? deviceJson(*memory) : Json();
    };
    json["devices"].push_back(pairOf(of(device.memory.a), of(device.memory.b)));
  }
  const auto &[a, b] = diff.summary;
  json["prefill_tokens_per_second"] = pairOf(a.prefillRate(), b.prefillRate());
  json["decode_tokens_per_second"] = pairOf(a.decodeRate(), b.decodeRate());
  json["batch_tokens_per_second"] = pairOf(a.batchRate(), b.batchRate());
  json["phases"] = Json::array();
  for (const PhaseDiff &phase : diff.phases) {
    Json &added = json["phases"].emplace_back(
        Json{{"name", phase.name},
             {"step", pairOf(phase.step.a, phase.step.b)},
             {"seconds", pairOf(phase.seconds.a, phase.seconds.b)},
             {"ops", phase.parts}});
    ;
    added["changed"] = Json::array();
    for (const DiffRow &row : phase.rows)
      added["changed"].push_back(rowJson(row));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace moec
