#include "runtime/serve/api/ApiContext.h"

#include "runtime/base/JsonPlace.h"
#include "runtime/base/Text.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Run.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

namespace moert {

using Json = nlohmann::ordered_json;

/// Seconds after which a client may try again: a server that is stopping has
/// then most likely been replaced by another.
static constexpr int32_t kStoppingSeconds = 5;

void setClient(const Exchange &exchange, GenerateCall &call) {
  const std::string &client = exchange.request.client;
  call.client = client.empty() ? call.user : client;
  if (!client.empty())
    call.priority = std::min(call.priority, 0);
}

void logOnce(const Exchange &exchange, const std::string &what) {
  const auto &log = exchange.settings().log;
  std::string line = fmt::format("{}: {}", exchange.request.path, what);
  if (log && exchange.context->lines.add(line))
    log(line);
}

void logSkipped(const Exchange &exchange, const Json &body,
                const Problem &problem) {
  if (!exchange.settings().log)
    return;
  constexpr size_t mostNameBytes = 64, mostNames = 32;
  std::vector<std::string> names;
  for (const auto &[key, value] : body.items())
    if (!problem.known.contains(key) && key.size() <= mostNameBytes &&
        names.size() < mostNames)
      names.push_back(key);
  if (names.empty() && problem.notes.empty())
    return;
  std::vector<std::string> parts = problem.notes;
  if (!names.empty())
    parts.push_back(
        fmt::format("fields that have no effect: {}", fmt::join(names, ", ")));
  logOnce(exchange, fmt::format("{}", fmt::join(parts, "; ")));
}

void ApiContext::later(const std::string &client, uint64_t bytes,
                       std::function<void()> job) const {
  if (settings.later)
    settings.later(client, bytes, std::move(job));
  else
    job();
}

std::optional<Json> bodyJson(const Exchange &exchange) {
  StatusOr<Json> json =
      parseJson("body", exchange.request.body, kMostRequestNesting);
  if (json)
    return *std::move(json);
  exchange.fail({.message = json.status().message(), .code = "invalid_json"});
  return std::nullopt;
}

void withModel(
    Exchange exchange, const std::string &name,
    std::function<void(const Exchange &, std::shared_ptr<Backend>)> then) {
  ModelHost &host = exchange.context->host;
  std::string known = name;
  // Ollama's clients add a tag to names.
  std::string untagged =
      name.ends_with(":latest") ? name.substr(0, name.rfind(':')) : name;
  std::vector<ModelFacts> models = host.models();
  auto isCalled = [&](const std::string &id) {
    return std::ranges::any_of(
        models, [&](const ModelFacts &facts) { return facts.id == id; });
  };
  if (!name.empty() && !isCalled(name)) {
    if (isCalled(untagged)) {
      known = untagged;
    } else if (models.size() == 1 && exchange.settings().acceptsAnyModel) {
      known.clear();
    } else {
      exchange.fail({.status = 404,
                     .message = fmt::format("model {} does not exist; "
                                            "/v1/models lists those that do",
                                            moert::quoted(name)),
                     .param = "model",
                     .code = "model_not_found"});
      return;
    }
  }
  auto shared = std::make_shared<Exchange>(std::move(exchange));
  auto go = [shared, then = std::move(then)](
                StatusOr<std::shared_ptr<Backend>> backend) {
    if (backend)
      then(*shared, *std::move(backend));
    else
      shared->fail(errorOf(backend.status(), kStoppingSeconds));
  };
  host.open(known, [shared, go = std::move(go),
                    here = std::this_thread::get_id()](
                       StatusOr<std::shared_ptr<Backend>> backend) {
    if (std::this_thread::get_id() == here)
      return go(std::move(backend));
    // The thread that has loaded the model loads the next one.
    shared->context->later(shared->request.client, shared->request.body.size(),
                           [go, backend] { go(backend); });
  });
}

void answerChat(Exchange exchange, ChatCall call, MakeWriter writer) {
  std::string model = call.generate.model;
  setClient(exchange, call.generate);
  withModel(
      std::move(exchange), model,
      [call = std::move(call), writer = std::move(writer)](
          const Exchange &exchange, std::shared_ptr<Backend> backend) {
        Prepared prepared = prepareChat(*backend, exchange.settings(), call);
        if (auto *error = std::get_if<ApiError>(&prepared))
          return exchange.fail(*error);
        RunPlan plan = std::get<RunPlan>(std::move(prepared));
        ReplyFacts facts = replyFacts(*backend, exchange.settings(), plan);
        startRun(exchange, std::move(backend), std::move(plan), writer(facts));
      });
}

void answerPrompt(Exchange exchange, ChatCall call,
                  Json (*write)(const ChatPrompt &)) {
  std::string model = call.generate.model;
  withModel(std::move(exchange), model,
            [call = std::move(call), write](const Exchange &exchange,
                                            std::shared_ptr<Backend> backend) {
              auto prompt = chatPrompt(*backend, call);
              if (auto *error = std::get_if<ApiError>(&prompt))
                exchange.fail(*error);
              else
                sendJson(*exchange.answer, write(std::get<ChatPrompt>(prompt)));
            });
}

void answerTokenCount(Exchange exchange, ChatCall call) {
  answerPrompt(std::move(exchange), std::move(call),
               [](const ChatPrompt &prompt) -> Json {
                 return {{"object", "response.input_tokens"},
                         {"input_tokens", prompt.tokens.size()}};
               });
}

} // namespace moert
