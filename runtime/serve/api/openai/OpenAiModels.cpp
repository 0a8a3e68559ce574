#include "runtime/base/Text.h"
#include "runtime/serve/api/ollama/Ollama.h"
#include "runtime/serve/api/openai/OpenAi.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// A model as clients of OpenAI and of Anthropic know it: their fields have
/// names of their own.
Json modelJson(const ModelFacts &facts) {
  return {{"id", facts.id},
          {"object", "model"},
          {"created", facts.created},
          {"owned_by", "moert"},
          {"type", "model"},
          {"display_name", facts.id},
          {"created_at", isoTime(facts.created)},
          {"meta",
           {{"architecture", facts.architecture},
            {"n_ctx", facts.contextTokens},
            {"n_params", facts.parameters},
            {"size", facts.bytes},
            {"loaded", facts.isLoaded}}}};
}
} // namespace

void listModels(Exchange exchange) {
  Json json = {{"object", "list"}, {"data", Json::array()}};
  for (const ModelFacts &facts : exchange.context->host.models())
    json["data"].push_back(modelJson(facts));
  auto idAt = [&](size_t index) {
    return json["data"].empty() ? Json(nullptr) : json["data"][index]["id"];
  };
  const Json first = idAt(0), last = idAt(json["data"].size() - 1);
  json["has_more"] = false;
  json["first_id"] = first;
  json["last_id"] = last;
  sendJson(*exchange.answer, json);
}

void describeModel(Exchange exchange) {
  for (const ModelFacts &facts : exchange.context->host.models())
    if (facts.id == exchange.names[0])
      return sendJson(*exchange.answer, modelJson(facts));
  exchange.fail({.status = 404,
                 .message = fmt::format("model {} does not exist; /v1/models "
                                        "lists those that do",
                                        moert::quoted(exchange.names[0])),
                 .param = "model",
                 .code = "model_not_found"});
}

} // namespace moert
