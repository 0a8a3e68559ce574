#include "runtime/serve/api/monitor/Monitor.h"

#include "runtime/serve/api/Prepare.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
using Models = std::vector<std::pair<std::string, BackendStats>>;

struct Metric {
  std::string_view name, type, help;
  double (*value)(const BackendStats &);
};

double share(uint64_t part, uint64_t whole) {
  return whole > 0 ? double(part) / double(whole) : 0;
}

constexpr Metric kMetrics[] = {
    {"moert_requests_queued", "gauge", "Generations that wait.",
     [](const BackendStats &s) { return double(s.queued); }},
    {"moert_requests_running", "gauge", "Generations that run.",
     [](const BackendStats &s) { return double(s.running); }},
    {"moert_cache_pages", "gauge", "Pages of the cache.",
     [](const BackendStats &s) { return double(s.pagesTotal); }},
    {"moert_cache_pages_free", "gauge", "Pages that no generation holds.",
     [](const BackendStats &s) { return double(s.pagesFree); }},
    {"moert_cache_pages_empty", "gauge", "Pages that nothing holds.",
     [](const BackendStats &s) { return double(s.pagesEmpty); }},
    {"moert_cache_pages_kept", "gauge",
     "Pages of finished texts; those that texts share count for each.",
     [](const BackendStats &s) { return double(s.pagesKept); }},
    {"moert_cache_usage_ratio", "gauge", "Part of the cache that is held.",
     [](const BackendStats &s) {
       return share(s.pagesTotal - s.pagesFree, s.pagesTotal);
     }},
    {"moert_prompt_tokens_total", "counter", "Tokens of prompts.",
     [](const BackendStats &s) { return double(s.promptTokens); }},
    {"moert_prompt_tokens_cached_total", "counter",
     "Tokens of prompts that were found in the cache.",
     [](const BackendStats &s) { return double(s.cachedTokens); }},
    {"moert_prefix_hit_ratio", "gauge",
     "Part of all prompts that was found in the cache.",
     [](const BackendStats &s) {
       return share(s.cachedTokens, s.promptTokens);
     }},
    {"moert_tokens_evaluated_total", "counter", "Tokens that steps evaluated.",
     [](const BackendStats &s) { return double(s.evaluatedTokens); }},
    {"moert_tokens_generated_total", "counter", "Tokens that were generated.",
     [](const BackendStats &s) { return double(s.generatedTokens); }},
    {"moert_tokens_drafted_total", "counter", "Tokens that were guessed.",
     [](const BackendStats &s) { return double(s.draftedTokens); }},
    {"moert_tokens_accepted_total", "counter",
     "Guessed tokens that were right.",
     [](const BackendStats &s) { return double(s.acceptedTokens); }},
    {"moert_requests_finished_total", "counter", "Generations that ended.",
     [](const BackendStats &s) { return double(s.finished); }},
    {"moert_requests_failed_total", "counter", "Generations that failed.",
     [](const BackendStats &s) { return double(s.failed); }},
    {"moert_requests_cancelled_total", "counter",
     "Generations whose clients left.",
     [](const BackendStats &s) { return double(s.cancelled); }},
    {"moert_requests_refused_total", "counter",
     "Requests that found the queue full.",
     [](const BackendStats &s) { return double(s.refused); }},
};

/// Names that gateways for inference score replicas by (the model server
/// protocol of Gateway API Inference Extension): vLLM's, which they look for
/// unless they are told others. Its counts of prefixes are in tokens too.
struct GatewayName {
  std::string_view name, ours;
};
constexpr GatewayName kGatewayNames[] = {
    {"vllm:num_requests_waiting", "moert_requests_queued"},
    {"vllm:num_requests_running", "moert_requests_running"},
    {"vllm:kv_cache_usage_perc", "moert_cache_usage_ratio"},
    {"vllm:prefix_cache_queries_total", "moert_prompt_tokens_total"},
    {"vllm:prefix_cache_hits_total", "moert_prompt_tokens_cached_total"},
    {"vllm:prompt_tokens_total", "moert_prompt_tokens_total"},
    {"vllm:generation_tokens_total", "moert_tokens_generated_total"},
};

/// A label's value: Prometheus escapes three characters.
std::string labelText(std::string_view text) {
  std::string result;
  for (char c : text)
    if (c == '\n')
      result += "\\n";
    else if (c == '"' || c == '\\')
      (result += '\\') += c;
    else
      result += c;
  return result;
}

/// `label` is the name of the label that tells the model.
void addMetric(const Metric &metric, std::string_view label,
               const Models &models, std::string &text) {
  text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name,
                      metric.help, metric.type);
  for (const auto &[id, stats] : models)
    text += fmt::format("{}{{{}=\"{}\"}} {}\n", metric.name, label,
                        labelText(id), metric.value(stats));
}

void addGatewayMetrics(const Models &models, std::string &text) {
  for (auto [name, ours] : kGatewayNames) {
    Metric metric = *std::ranges::find(kMetrics, ours, &Metric::name);
    metric.name = name;
    addMetric(metric, "model_name", models, text);
  }
  // The size of the cache stands in labels.
  constexpr std::string_view name = "vllm:cache_config_info";
  text += fmt::format("# HELP {0} Pages of the cache, and tokens in each.\n"
                      "# TYPE {0} gauge\n",
                      name);
  for (const auto &[id, stats] : models)
    text +=
        fmt::format("{}{{block_size=\"{}\",num_gpu_blocks=\"{}\","
                    "model_name=\"{}\"}} 1\n",
                    name, stats.pageTokens, stats.pagesTotal, labelText(id));
}

void addHistogram(const Models &models, std::string &text) {
  constexpr std::string_view name = "moert_step_seconds";
  text += fmt::format("# HELP {0} Steps of the engine by their time.\n"
                      "# TYPE {0} histogram\n",
                      name);
  for (const auto &[id, stats] : models) {
    std::string model = labelText(id);
    uint64_t count = 0;
    for (auto [seconds, steps] : stats.steps) {
      count += steps;
      text += fmt::format("{}_bucket{{model=\"{}\",le=\"{}\"}} {}\n", name,
                          model, seconds, count);
    }
    count += stats.slowerSteps;
    text += fmt::format("{0}_bucket{{model=\"{1}\",le=\"+Inf\"}} {2}\n"
                        "{0}_sum{{model=\"{1}\"}} {3}\n"
                        "{0}_count{{model=\"{1}\"}} {2}\n",
                        name, model, count, stats.stepSeconds);
  }
}
/// Only some steps are measured by device: shares of the first counter matter.
void addDevices(const Models &models, std::string &text) {
  constexpr std::string_view all = "moert_measured_step_seconds_total";
  text += fmt::format("# HELP {0} Time of the steps that were measured by "
                      "device.\n# TYPE {0} counter\n",
                      all);
  for (const auto &[id, stats] : models)
    text += fmt::format("{}{{model=\"{}\"}} {}\n", all, labelText(id),
                        stats.measuredSeconds);
  constexpr std::string_view name = "moert_device_seconds_total";
  text += fmt::format("# HELP {0} Time in these steps in which a device "
                      "worked (run) or waited for others (wait).\n"
                      "# TYPE {0} counter\n",
                      name);
  for (const auto &[id, stats] : models)
    for (const BackendStats::Device &device : stats.devices)
      for (auto [state, seconds] :
           {std::pair("run", device.run), std::pair("wait", device.wait)})
        text += fmt::format(
            "{}{{model=\"{}\",device=\"{}\",state=\"{}\"}} {}\n", name,
            labelText(id), labelText(device.name), state, seconds);
}
} // namespace

std::string metricsText(const Models &models) {
  std::string text;
  for (const Metric &metric : kMetrics)
    addMetric(metric, "model", models, text);
  addHistogram(models, text);
  addDevices(models, text);
  addGatewayMetrics(models, text);
  return text;
}

void reportMetrics(Exchange exchange) {
  Models models;
  for (const auto &backend : exchange.context->host.loaded())
    models.emplace_back(backend->facts().id, backend->stats());
  std::string text = metricsText(models);
  if (const auto &more = exchange.settings().moreMetrics)
    text += more();
  exchange.answer->send(200, "text/plain; version=0.0.4; charset=utf-8",
                        std::move(text));
}

void reportUsage(Exchange exchange) {
  Json data = Json::array();
  for (const auto &[key, usage] : exchange.context->usage.entries()) {
    const auto &[client, model] = key;
    if (!exchange.request.client.empty() && client != exchange.request.client)
      continue;
    data.push_back({{"client", client},
                    {"model", model},
                    {"requests", usage.requests},
                    {"prompt_tokens", usage.promptTokens},
                    {"cached_tokens", usage.cachedTokens},
                    {"completion_tokens", usage.generatedTokens}});
  }
  sendJson(*exchange.answer, {{"object", "list"}, {"data", std::move(data)}});
}

void showPage(Exchange exchange) {
  const bool isFolder = exchange.request.path.ends_with("/web");
  exchange.answer->send(302, "text/plain; charset=utf-8", "",
                        {{"Location", isFolder ? "./" : "../"}});
}

void reportHealth(Exchange exchange) {
  ModelHost::Health health = exchange.context->host.health();
  Json json = {{"status", health.state}};
  if (health.state == "ok")
    return sendJson(*exchange.answer, json);
  json["progress"] = health.progress;
  exchange.answer->send(503, "application/json", jsonText(json),
                        {{"Retry-After", "1"}});
}

void reportSlots(Exchange exchange) {
  Json list = Json::array();
  for (const auto &backend : exchange.context->host.loaded())
    for (const BackendSlot &slot : backend->slots()) {
      // A client sees its own; without keys all are.
      if (!exchange.request.client.empty() &&
          slot.client != exchange.request.client)
        continue;
      list.push_back({{"id", slot.id},
                      {"model", backend->facts().id},
                      {"n_ctx", backend->facts().contextTokens},
                      {"is_processing", slot.state != "queued"},
                      {"state", slot.state},
                      {"client", slot.client},
                      {"n_prompt_tokens", slot.promptTokens},
                      {"n_past", slot.position},
                      {"n_decoded", slot.generatedTokens}});
    }
  sendJson(*exchange.answer, list);
}

void showPlacement(Exchange exchange) {
  const ApiSettings &settings = exchange.settings();
  std::vector<ModelFacts> models = exchange.context->host.models();
  auto asked = exchange.request.query.find("model");
  std::string name = asked != exchange.request.query.end() ? asked->second
                     : models.empty()                      ? ""
                                                           : models[0].id;
  bool isKnown = std::ranges::any_of(
      models, [&](const ModelFacts &facts) { return facts.id == name; });
  if (!settings.placementPage || !isKnown)
    return exchange.fail({.status = 404,
                          .message = "there is no placement page of this model",
                          .code = "not_found"});
  StatusOr<std::string> page = settings.placementPage(name);
  if (!page)
    return exchange.fail(errorOf(page.status()));
  // Only the page's own scripts have the random number (nonce), so that no
  // others can run.
  std::string nonce = randomId(settings), text;
  constexpr std::string_view tag = "<script";
  std::string_view left = *page;
  for (size_t at = left.find(tag); at != left.npos; at = left.find(tag)) {
    text += left.substr(0, at + tag.size());
    text += fmt::format(" nonce=\"{}\"", nonce);
    left.remove_prefix(at + tag.size());
  }
  text += left;
  exchange.answer->send(
      200, "text/html; charset=utf-8", std::move(text),
      {{"Content-Security-Policy",
        fmt::format("default-src 'none'; script-src 'nonce-{}'; style-src "
                    "'unsafe-inline'; img-src data:; base-uri 'none'; "
                    "form-action 'none'; frame-ancestors 'none'",
                    nonce)},
       {"Referrer-Policy", "no-referrer"}});
}

} // namespace moert
