#include "runtime/serve/api/assistants/Assistants.h"
#include "runtime/serve/api/assistants/RunSettings.h"

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
const char *const kTexts[] = {"name", "description", "instructions"};

/// Takes the fields of `body` that are there over to an assistant.
std::optional<ApiError> update(Json &assistant, const Json &json,
                               const ApiSettings &settings) {
  Problem problem;
  Field body(json, problem);
  for (const char *key : kTexts)
    (void)body[key].text();
  (void)body["model"].text();
  body["tool_resources"]["code_interpreter"]["file_ids"].refuse(
      "this server keeps no files");
  body["tool_resources"]["file_search"]["vector_store_ids"].refuse(
      "this server keeps no files");
  if (json.contains("metadata"))
    assistant["metadata"] = readMetadata(body);
  for (const char *key :
       {"model", "name", "description", "instructions", "tools", "temperature",
        "top_p", "response_format", "reasoning_effort"})
    if (json.contains(key))
      assistant[key] = json[key];
  if (assistant["tools"].is_null())
    assistant["tools"] = Json::array();
  if (assistant["response_format"].is_null())
    assistant["response_format"] = "auto";
  if (!problem.error) {
    (void)Field(assistant, problem)["model"].required();
    ChatCall call;
    readRunSettings(Field(assistant, problem), settings, call);
  }
  return problem.error;
}

std::optional<Json> assistantOf(const Exchange &exchange) {
  return findObject(exchange, "assistant", exchange.names[0]);
}
} // namespace

void createAssistant(Exchange exchange) {
  std::optional<Json> body = bodyObject(exchange);
  if (!body)
    return;
  Json assistant = {{"id", newId(exchange, "asst_")},
                    {"object", "assistant"},
                    {"created_at", secondsNow(exchange)},
                    {"name", nullptr},
                    {"description", nullptr},
                    {"model", nullptr},
                    {"instructions", nullptr},
                    {"tools", Json::array()},
                    {"tool_resources", Json::object()},
                    {"metadata", Json::object()},
                    {"temperature", nullptr},
                    {"top_p", nullptr},
                    {"response_format", "auto"},
                    {"reasoning_effort", nullptr}};
  if (auto error = update(assistant, *body, exchange.settings()))
    return exchange.fail(*error);
  if (addObjects(exchange, {storedObject("assistant", exchange.request.client,
                                         assistant)}))
    sendJson(*exchange.answer, assistant);
}

void listAssistants(Exchange exchange) {
  answerList(exchange, {.kind = "assistant"});
}

void retrieveAssistant(Exchange exchange) {
  if (auto assistant = assistantOf(exchange))
    sendJson(*exchange.answer, *assistant);
}

void modifyAssistant(Exchange exchange) {
  std::optional<Json> assistant = assistantOf(exchange);
  std::optional<Json> body =
      assistant ? bodyObject(exchange) : std::optional<Json>();
  if (!body)
    return;
  if (auto error = update(*assistant, *body, exchange.settings()))
    return exchange.fail(*error);
  if (changeObject(exchange, *assistant))
    sendJson(*exchange.answer, *assistant);
}

void deleteAssistant(Exchange exchange) {
  answerDelete(exchange, "assistant", exchange.names[0], "assistant");
}

} // namespace moert
