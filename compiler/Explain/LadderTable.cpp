#include "compiler/Explain/LadderTable.h"

#include "compiler/Explain/ExplainJson.h"
#include "compiler/Explain/Figures.h"
#include "runtime/base/Page.h"
#include "runtime/plan/PlanAccess.h"

using namespace moert;

namespace moec {

namespace {
std::string rateOf(std::optional<double> rate) {
  return rate ? rateText(*rate) : "-";
}
} // namespace

std::string ladderText(const Plan &plan) {
  if (plan.rungs() == 0)
    return "";
  std::vector<std::vector<std::string>> rows;
  for (uint32_t number = 1; number <= plan.rungs(); ++number) {
    const fb::Plan &rung = plan.rung(number);
    ExplainSummary summary(rung);
    std::vector<std::string> first = {fmt::format("{}", number),
                                      fmt::format("{}", rung.context())};
    for (const DeviceMemory &memory : summary.devices) {
      uint64_t budget = memory.device->memory_bytes();
      std::vector<std::string> row =
          first.empty() ? std::vector<std::string>{"", ""} : first;
      row.push_back(escaped(text(memory.device->name())));
      row.push_back(humanBytes(double(memory.used)));
      row.push_back(budget ? humanBytes(double(budget)) : "-");
      row.push_back(humanBytes(double(memory.device->kv_bytes())));
      if (!first.empty()) {
        row.push_back(rateOf(summary.prefillRate()));
        row.push_back(rateOf(summary.decodeRate()));
      }
      first.clear();
      rows.push_back(std::move(row));
    }
  }
  Page page;
  page.group("ladder");
  page.table({{"rung", true, 4},
              {"context", true, 9},
              {"device", false, 8},
              {"needs", true, 11},
              {"budget", true, 11},
              {"KV cache", true, 11},
              {"prefill", true, 18},
              {"decode", true, 18}},
             rows);
  return page.take();
}

nlohmann::ordered_json ladderJson(const Plan &plan) {
  nlohmann::ordered_json rungs = nlohmann::ordered_json::array();
  auto orNull = [](std::optional<double> rate) {
    return rate ? nlohmann::ordered_json(*rate) : nullptr;
  };
  for (uint32_t number = 1; number <= plan.rungs(); ++number) {
    const fb::Plan &rung = plan.rung(number);
    ExplainSummary summary(rung);
    nlohmann::ordered_json &json = rungs.emplace_back(
        nlohmann::ordered_json{{"number", number},
                               {"context", rung.context()},
                               {"sequences", rung.sequences()},
                               {"kv_rows", kvRows(rung)}});
    for (const DeviceMemory &memory : summary.devices)
      json["devices"].push_back(deviceJson(memory));
    json["prefill_tokens_per_second"] = orNull(summary.prefillRate());
    json["decode_tokens_per_second"] = orNull(summary.decodeRate());
    json["batch_tokens_per_second"] = orNull(summary.batchRate());
  }
  return rungs;
}

} // namespace moec
