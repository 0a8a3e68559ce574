#include "runtime/base/Text.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/ollama/Ollama.h"

#include <chrono>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// The version of Ollama whose interface this is. Clients refuse older ones.
constexpr const char *kOllamaVersion = "0.12.6";

Json detailsJson(const ModelFacts &facts) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", facts.architecture},
          {"families", {facts.architecture}},
          {"parameter_size",
           fmt::format("{:.1f}B", double(facts.parameters) / 1e9)},
          {"quantization_level", facts.quantization}};
}

Json ollamaModelJson(const ModelFacts &facts) {
  return {{"name", facts.id},
          {"model", facts.id},
          {"modified_at", isoTime(facts.created)},
          {"size", facts.bytes},
          {"digest", facts.digest},
          {"details", detailsJson(facts)}};
}

Json capabilities(const Backend &backend) {
  Json list = {"completion"};
  // Models whose template has no form for calls are told of tools in words.
  const ChatFormat *format = backend.chatFormat();
  if (format)
    list.push_back("tools");
  if (format && format->speech()->reasons())
    list.push_back("thinking");
  return list;
}
} // namespace

std::string isoTime(int64_t seconds) {
  std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

void ollamaTags(Exchange exchange) {
  Json models = Json::array();
  for (const ModelFacts &facts : exchange.context->host.models())
    models.push_back(ollamaModelJson(facts));
  sendJson(*exchange.answer, {{"models", std::move(models)}});
}

void ollamaRunning(Exchange exchange) {
  Json models = Json::array();
  for (const auto &backend : exchange.context->host.loaded()) {
    Json json = ollamaModelJson(backend->facts());
    json.erase("modified_at");
    // Clients take so many years for ever.
    constexpr std::chrono::hours forEver{int64_t{292} * 365 * 24};
    const auto left =
        exchange.context->host.keptFor(backend->facts().id).value_or(forEver);
    json["expires_at"] =
        isoTime(secondsNow(exchange.settings()) +
                std::chrono::ceil<std::chrono::seconds>(left).count());
    json["size_vram"] = 0;
    json["context_length"] = backend->facts().contextTokens;
    models.push_back(std::move(json));
  }
  sendJson(*exchange.answer, {{"models", std::move(models)}});
}

void ollamaShow(Exchange exchange) {
  auto name =
      readBody<std::string>(exchange, [](const Field &body, std::string &name) {
        Field field = body["model"] ? body["model"] : body["name"];
        name = (field ? field : body["model"].required()).text().value_or("");
      });
  if (!name)
    return;
  withModel(std::move(exchange), *name,
            [](const Exchange &exchange, std::shared_ptr<Backend> backend) {
              const ModelFacts &facts = backend->facts();
              sendJson(*exchange.answer,
                       {{"modelfile", ""},
                        {"parameters", ""},
                        {"template", facts.chatTemplate},
                        {"details", detailsJson(facts)},
                        {"model_info",
                         {{"general.architecture", facts.architecture},
                          {"general.parameter_count", facts.parameters},
                          {facts.architecture + ".context_length",
                           facts.contextTokens}}},
                        {"capabilities", capabilities(*backend)},
                        {"modified_at", isoTime(facts.created)}});
            });
}

void ollamaVersion(Exchange exchange) {
  sendJson(*exchange.answer, {{"version", kOllamaVersion}});
}

void ollamaPull(Exchange exchange) {
  bool streams = true;
  auto name = readBody<std::string>(
      exchange, [&](const Field &body, std::string &name) {
        Field field = body["model"] ? body["model"] : body["name"];
        name = (field ? field : body["model"].required()).text().value_or("");
        streams = body["stream"].boolean().value_or(true);
      });
  if (!name)
    return;
  // Nothing is downloaded: the models that are served are there already.
  if (!modelNamed(exchange, *name)) {
    std::string served;
    for (const ModelFacts &facts : exchange.context->host.models())
      served += (served.empty() ? "" : ", ") + facts.id;
    return exchange.fail(
        {.status = 404,
         .message = fmt::format(
             "this server fetches no models, and serves {}: get a GGUF of {} "
             "with another program, such as hf download USER/MODEL FILE.gguf, "
             "and serve it with moert serve FILE.gguf",
             served, moert::quoted(*name)),
         .param = "model",
         .code = "model_not_found"});
  }
  const Json success = {{"status", "success"}};
  if (!streams)
    return sendJson(*exchange.answer, success);
  exchange.answer->send(200, "application/x-ndjson",
                        jsonText({{"status", "pulling manifest"}}) + "\n" +
                            jsonText(success) + "\n");
}

} // namespace moert
