#include "compiler/Explain/Why.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace moert;

namespace moec {

using Json = nlohmann::ordered_json;

namespace {

template <typename T> Json nullable(const std::optional<T> &value) {
  return value ? Json(*value) : Json();
}

Json stepJson(const WhyStep &step) {
  Json json = {{"phase", std::string(step.phase)},
               {"is_here", step.isHere},
               {"seconds", nullable(step.seconds)}};
  if (step.isHere)
    return json;
  json["copies"] = step.copies.count;
  json["copy_bytes"] = step.copies.bytes;
  json["copy_seconds"] = nullable(step.copies.seconds);
  json["moves_cache"] = step.copies.usesCache;
  json["reason"] = step.reason;
  return json;
}

Json deviceJson(const WhyDevice &device) {
  Json json = {{"name", std::string(device.name)},
               {"is_used", device.memory != nullptr},
               {"free_bytes", nullable(device.freeBytes)},
               {"phases", Json::array()}};
  for (const WhyStep &step : device.steps)
    json["phases"].push_back(stepJson(step));
  return json;
}

Json answerJson(const WhyAnswer &answer) {
  Json json = {{"ops", answer.names.name()},
               {"part", std::string(answer.names.part)},
               {"layers", answer.names.layers},
               {"needed_bytes", answer.bytes},
               {"is_copy", answer.isCopy}};
  json["reasons"] = Json::array();
  for (const WhyReason &reason : answer.reasons) {
    Json phases = Json::array();
    for (std::string_view phase : reason.phases)
      phases.push_back(std::string(phase));
    json["reasons"].push_back({{"phases", phases},
                               {"device", std::string(reason.device)},
                               {"reason", reason.text},
                               {"rule", reason.rule()}});
    if (reason.rule().empty())
      json["reasons"].back()["rule"] = nullptr;
  }
  json["devices"] = Json::array();
  for (const WhyDevice &device : answer.devices)
    json["devices"].push_back(deviceJson(device));
  return json;
}

} // namespace

StatusOr<std::string> whyJson(const fb::Plan &plan, std::string_view pattern) {
  ExplainSummary summary(plan);
  MOE_ASSIGN_OR_RETURN(std::vector<WhyAnswer> answers,
                       whyOf(plan, summary, pattern, /*full=*/false));
  Json json = {{"steps", Json::array()}, {"answers", Json::array()}};
  std::vector<const PhaseCost *> phases;
  for (const WhyAnswer &answer : answers) {
    json["answers"].push_back(answerJson(answer));
    for (const PhaseCost *phase : answer.phases)
      if (std::ranges::find(phases, phase) == phases.end()) {
        phases.push_back(phase);
        json["steps"].push_back({{"phase", std::string(phase->name)},
                                 {"tokens", phase->step.tokens},
                                 {"cached", phase->step.cached}});
      }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace moec
