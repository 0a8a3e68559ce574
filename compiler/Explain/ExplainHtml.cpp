#include "compiler/Explain/Collapse.h"
#include "compiler/Explain/Explain.h"
#include "compiler/Explain/ExplainJson.h"
#include "compiler/Explain/LadderTable.h"

#include <cmath>
#include <fmt/format.h>

using namespace moert;

namespace moec {

using Json = nlohmann::ordered_json;

namespace {

/// The page from page/. "@FACTS@" marks the place of the data.
constexpr std::string_view pageTemplate =
#include "ExplainPage.inc"
    ;

/// Returns a fraction in billionths: short, precise enough for a page of a few
/// thousand pixels, and the same on every machine.
int64_t billionths(double part, double all) {
  return all > 0 ? std::llround(part / all * 1e9) : 0;
}

/// Returns spans as [row, layer, queue, start, seconds], the latter two in
/// billionths of the step.
Json spansJson(const Timeline &timeline, const PhaseCost &phase,
               const std::vector<size_t> &rowOfOp) {
  Json spans = Json::array();
  for (const TimelineSpan &span : timeline.spans)
    spans.push_back({rowOfOp[span.op], phase.ops[span.op].layer, span.queue,
                     billionths(span.start, timeline.seconds),
                     billionths(span.seconds, timeline.seconds)});
  return spans;
}

/// Returns the rows of explainText(), with the numbers of their reasons, and
/// the timeline.
Json phaseOfPage(const fb::Plan &plan, const PhaseCost &phase,
                 const Reasons &reasons) {
  Json json = phaseJson(phase);
  std::vector<size_t> rowOfOp;
  std::vector<OpRow> rows = makeRows(phase.ops, /*full=*/false, &rowOfOp);
  json["rows"] = Json::array();
  for (const OpRow &row : rows) {
    Json &added =
        json["rows"].emplace_back(Json{{"op", row.names.text(/*brief=*/false)},
                                       {"part", std::string(row.names.part)},
                                       {"count", row.names.occurrences},
                                       {"copies", false},
                                       {"reason", reasons.numberOf(row.cost)}});
    added.update(costJson(row.cost));
    added["rejected"] = rejectedJson(row.cost, /*anyLayer=*/true);
  }
  Timeline timeline(plan, phase);
  for (const TimelineSpan &span : timeline.spans)
    if (span.copies)
      json["rows"][rowOfOp[span.op]]["copies"] = true;
  json["timeline"] = {{"seconds", timeline.seconds},
                      {"queues", queuesJson(timeline)},
                      {"spans", spansJson(timeline, phase, rowOfOp)}};
  return json;
}

/// Returns JSON in ASCII without characters that could end a script element or
/// start a character reference. In JSON these only occur in strings, where an
/// escape has the same meaning.
std::string scriptSafe(const Json &json) {
  std::string result;
  for (char c : json.dump(-1, ' ', /*ensure_ascii=*/true,
                          Json::error_handler_t::replace))
    if (c == '<' || c == '>' || c == '&')
      result += fmt::format("\\u{:04x}", int(c));
    else
      result += c;
  return result;
}

Json factsOf(const fb::Plan &plan) {
  ExplainSummary summary(plan);
  Reasons reasons(summary.phases);
  Json facts = planJson(plan, summary);
  facts["kv_room"] = summary.kvRoom;
  facts["reasons"] = Json::array({""});
  for (const Reasons::Entry &entry : reasons.entries)
    facts["reasons"].push_back(entry.reason);
  facts["phases"] = Json::array();
  for (const PhaseCost &phase : summary.phases)
    facts["phases"].push_back(phaseOfPage(plan, phase, reasons));
  return facts;
}

std::string pageOf(const Json &facts) {
  constexpr std::string_view marker = "@FACTS@";
  constexpr size_t at = pageTemplate.find(marker);
  static_assert(at != std::string_view::npos);
  std::string page(pageTemplate.substr(0, at));
  page += scriptSafe(facts);
  page += pageTemplate.substr(at + marker.size());
  return page;
}

} // namespace

std::string explainHtml(const fb::Plan &plan) { return pageOf(factsOf(plan)); }

std::string explainHtml(const Plan &plan) {
  Json facts = factsOf(plan.table());
  if (plan.rungs() > 0) {
    facts["rung"] = plan.chosen();
    facts["rungs"] = ladderJson(plan);
  }
  return pageOf(facts);
}

} // namespace moec
