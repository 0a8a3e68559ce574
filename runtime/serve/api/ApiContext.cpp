#include "runtime/serve/api/ApiContext.h"

#include "runtime/base/JsonPlace.h"
#include "runtime/base/Text.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Run.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>
#include <utility>

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
  size_t names = 0;
  for (const std::string &note : problem.notes)
    logOnce(exchange, note);
  for (const auto &[key, value] : body.items())
    if (!problem.known.contains(key) && key.size() <= mostNameBytes &&
        names++ < mostNames)
      logOnce(exchange, fmt::format("{} has no effect", key));
}

void ApiContext::later(const std::string &client, uint64_t bytes,
                       std::function<void()> job) const {
  if (settings.later)
    settings.later(client, bytes, std::move(job));
  else
    job();
}

BodyJson::BodyJson(Exchange &exchange) : bytes_(exchange.bodyBytes) {
  const std::string body = std::exchange(exchange.request.body, {});
  StatusOr<Json> json = parseJson("body", body, kMostRequestNesting);
  if (json)
    json_ = *std::move(json);
  else
    exchange.fail({.message = json.status().message(), .code = "invalid_json"});
}

BodyJson::~BodyJson() {
  if (json_)
    takeApart(*json_);
  json_.reset();
  if (bytes_ >= kMuchMemory)
    returnFreeMemory();
}

std::optional<std::string> modelNamed(const Exchange &exchange,
                                      const std::string &name) {
  const std::vector<ModelFacts> models = exchange.context->host.models();
  auto isCalled = [&](const std::string &id) {
    return std::ranges::find(models, id, &ModelFacts::id) != models.end();
  };
  if (isCalled(name))
    return name;
  std::string untagged =
      name.ends_with(":latest") ? name.substr(0, name.rfind(':')) : name;
  if (isCalled(untagged))
    return untagged;
  return std::nullopt;
}

std::optional<std::string> knownModel(const Exchange &exchange,
                                      const std::string &name) {
  if (name.empty())
    return name;
  if (std::optional<std::string> found = modelNamed(exchange, name))
    return found;
  if (exchange.settings().acceptsAnyModel &&
      exchange.context->host.models().size() == 1)
    return "";
  exchange.fail({.status = 404,
                 .message = fmt::format("model {} does not exist; "
                                        "/v1/models lists those that do",
                                        moert::quoted(name)),
                 .param = "model",
                 .code = "model_not_found"});
  return std::nullopt;
}

void withModel(
    Exchange exchange, const std::string &name,
    std::function<void(const Exchange &, std::shared_ptr<Backend>)> then) {
  ModelHost &host = exchange.context->host;
  const std::optional<std::string> known = knownModel(exchange, name);
  if (!known)
    return;
  struct Opening {
    Exchange exchange;
    std::function<void(const Exchange &, std::shared_ptr<Backend>)> then;

    void go(StatusOr<std::shared_ptr<Backend>> backend) const {
      if (backend)
        then(exchange, *std::move(backend));
      else
        exchange.fail(errorOf(backend.status(), kStoppingSeconds));
    }
  };
  auto opening =
      std::make_shared<Opening>(std::move(exchange), std::move(then));
  host.open(*known, [opening, here = std::this_thread::get_id()](
                        StatusOr<std::shared_ptr<Backend>> backend) {
    if (std::this_thread::get_id() == here)
      return opening->go(std::move(backend));
    // The thread that has loaded the model loads the next one.
    Exchange &exchange = opening->exchange;
    exchange.context->later(
        exchange.request.client, exchange.bodyBytes, [opening, backend] {
          Exchange &exchange = opening->exchange;
          exchange.deadline = Deadline(exchange.settings().prepareTime);
          opening->go(backend);
        });
  });
}

void answerChat(Exchange exchange, ChatCall call, MakeWriter writer) {
  std::string model = call.generate.model;
  setClient(exchange, call.generate);
  withModel(
      std::move(exchange), model,
      [call = std::move(call), writer = std::move(writer)](
          const Exchange &exchange, std::shared_ptr<Backend> backend) mutable {
        call.options.deadline = exchange.deadline;
        Prepared prepared =
            prepareChat(*backend, exchange.settings(), std::move(call));
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
            [call = std::move(call),
             write](const Exchange &exchange,
                    std::shared_ptr<Backend> backend) mutable {
              call.options.deadline = exchange.deadline;
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
