#include "runtime/base/Text.h"
#include "runtime/serve/api/assistants/Assistants.h"
#include "runtime/serve/api/assistants/RunRecord.h"
#include "runtime/serve/api/assistants/RunSettings.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// Ends a run that waited too long for its tools.
void expire(const Exchange &exchange, Json &run) {
  int64_t now = secondsNow(exchange);
  if (run["status"] == "requires_action" && run["expires_at"] < now)
    endIdleRun(*exchange.settings().store, run, "requires_action", "expired",
               now);
}

std::optional<Json> runOf(const Exchange &exchange) {
  if (!findObject(exchange, "thread", exchange.names[0]))
    return std::nullopt;
  auto run = findObject(exchange, "run", exchange.names[1], exchange.names[0]);
  if (run)
    expire(exchange, *run);
  return run;
}

/// The data with which a run begins.
struct RunStart {
  Json run;
  /// A thread and messages that are stored first.
  std::vector<StoredObject> before;
  std::string events; ///< Text of the events about them.
  bool streams = false;
};

void startNewRun(Exchange exchange, RunStart start) {
  std::string model =
      start.run["model"].is_string() ? start.run["model"] : Json("");
  withModel(std::move(exchange), model,
            [start = std::move(start)](const Exchange &exchange,
                                       std::shared_ptr<Backend> backend) {
              Json run = start.run;
              run["model"] = backend->facts().id;
              std::vector<StoredObject> objects = start.before;
              objects.push_back(storedObject("run", exchange.request.client,
                                             run, run["thread_id"], "queued"));
              if (!addObjects(exchange, objects))
                return;
              std::string events = start.events + runEvent(run, "created");
              if (!start.streams)
                sendJson(*exchange.answer, run);
              RunRecord::start(exchange, std::move(backend), std::move(run),
                               start.streams ? exchange.answer : nullptr,
                               std::move(events));
            });
}

/// Reads a request for a run in a thread, whose own messages are in `start`.
bool readRun(const Exchange &exchange, const std::string &thread,
             const Json &body, RunStart &start) {
  Problem problem;
  std::string id =
      Field(body, problem)["assistant_id"].required().text().value_or("");
  if (problem.error) {
    exchange.fail(*problem.error);
    return false;
  }
  std::optional<Json> assistant = findObject(exchange, "assistant", id);
  if (!assistant)
    return false;
  start.run = newRun(exchange, thread, *assistant, body);
  if (auto error = checkRun(body, start.run, exchange.settings())) {
    exchange.fail(*error);
    return false;
  }
  start.streams = Field(body, problem)["stream"].boolean().value_or(false);
  return true;
}
} // namespace

std::optional<Json> activeRun(const Exchange &exchange,
                              const std::string &thread) {
  // The database allows a thread one such run, and it is its last one.
  auto page = exchange.settings().store->list({.kind = "run",
                                               .owner = exchange.request.client,
                                               .parent = thread,
                                               .limit = 1});
  if (!page) {
    exchange.fail(storeError(page.status()));
    return std::nullopt;
  }
  if (page->objects.empty())
    return Json(nullptr);
  Json run = Json::parse(page->objects[0].body);
  expire(exchange, run);
  for (const char *status : {"queued", "in_progress", "requires_action"})
    if (run["status"] == status)
      return run;
  return Json(nullptr);
}

bool isFree(const Exchange &exchange, const std::string &thread) {
  std::optional<Json> run = activeRun(exchange, thread);
  if (run && run->is_object())
    exchange.fail({.message = fmt::format(
                       "thread {} has the run {}, which is {}: wait "
                       "until it ends, or cancel it",
                       moert::quoted(thread), std::string((*run)["id"]),
                       std::string((*run)["status"])),
                   .code = "run_active"});
  return run && run->is_null();
}

void createRun(Exchange exchange) {
  const std::string thread = exchange.names[0];
  std::optional<Json> body;
  if (findObject(exchange, "thread", thread) && isFree(exchange, thread))
    body = bodyObject(exchange);
  RunStart start;
  if (!body || !readRun(exchange, thread, *body, start))
    return;
  Problem problem;
  addMessages(exchange, thread, Field(*body, problem)["additional_messages"],
              start.before);
  if (problem.error)
    return exchange.fail(*problem.error);
  startNewRun(std::move(exchange), std::move(start));
}

void createThreadAndRun(Exchange exchange) {
  std::optional<Json> body = bodyObject(exchange);
  if (!body)
    return;
  Problem problem;
  Json given = body->contains("thread") && (*body)["thread"].is_object()
                   ? (*body)["thread"]
                   : Json::object();
  Field field(given, problem);
  Json thread = newThread(exchange, field);
  std::string id = thread["id"];
  RunStart start;
  start.before.push_back(
      storedObject("thread", exchange.request.client, thread));
  addMessages(exchange, id, field["messages"], start.before);
  if (problem.error)
    return exchange.fail(*problem.error);
  start.events = runEvent(thread, "created");
  if (readRun(exchange, id, *body, start))
    startNewRun(std::move(exchange), std::move(start));
}

void listRuns(Exchange exchange) {
  // findObject() also ends the run if it waited too long.
  if (findObject(exchange, "thread", exchange.names[0]) &&
      activeRun(exchange, exchange.names[0]))
    answerList(exchange, {.kind = "run", .parent = exchange.names[0]});
}

void retrieveRun(Exchange exchange) {
  if (auto run = runOf(exchange))
    sendJson(*exchange.answer, *run);
}

void modifyRun(Exchange exchange) {
  std::optional<Json> run = runOf(exchange);
  std::optional<Json> body = run ? bodyObject(exchange) : std::optional<Json>();
  std::optional<Json> metadata =
      body ? metadataOf(exchange, *body) : std::nullopt;
  if (!metadata)
    return;
  (*run)["metadata"] = *metadata;
  // While the run generates, the metadata of its record count.
  auto record = exchange.context->runs.find((*run)["id"]);
  if ((record && record->setMetadata(*std::move(metadata))) ||
      changeObject(exchange, *run, (*run)["status"]))
    sendJson(*exchange.answer, *run);
}

void cancelRun(Exchange exchange) {
  std::optional<Json> run = runOf(exchange);
  if (!run)
    return;
  std::string id = (*run)["id"], status = (*run)["status"];
  if (auto record = exchange.context->runs.find(id)) {
    record->cancel();
    run = runOf(exchange);
    if (run)
      sendJson(*exchange.answer, *run);
    return;
  }
  bool isOpen = status == "requires_action";
  if (isOpen && endIdleRun(*exchange.settings().store, *run, status,
                           "cancelled", secondsNow(exchange)))
    return sendJson(*exchange.answer, *run);
  exchange.fail(
      {.message = fmt::format("a run that is {} cannot be cancelled", status),
       .code = "run_not_active"});
}

namespace {
/// Puts what tools said into the step that waits for it. The error if the
/// answers are not those of its calls.
std::optional<ApiError> takeOutputs(Json &step, const Json &json) {
  Problem problem;
  Field body(json, problem);
  Json &calls = step["step_details"]["tool_calls"];
  Field outputs = body["tool_outputs"].required();
  for (const Field &item : outputs.list(kMostTools)) {
    Field id = item["tool_call_id"].required();
    std::string name = id.text().value_or("");
    bool isKnown = false;
    for (Json &call : calls) {
      if (call["id"] != name)
        continue;
      isKnown = true;
      call["function"]["output"] =
          item["output"].required().text().value_or("");
    }
    if (!isKnown)
      id.fail("names no call that the run waits for");
  }
  for (const Json &call : calls)
    if (call["function"]["output"].is_null())
      outputs.fail(fmt::format("lacks the answer to the call {}",
                               moert::quoted(std::string(call["id"]))));
  return problem.error;
}

/// The step of the run that waits for tools.
std::optional<Json> openStep(const Exchange &exchange, const Json &run) {
  auto steps =
      exchange.settings().store->list({.kind = "step",
                                       .owner = exchange.request.client,
                                       .parent = run["id"],
                                       .limit = 1});
  if (!steps || steps->objects.empty()) {
    exchange.fail(
        steps ? ApiError{.status = 500, .message = "the run has lost its step"}
              : storeError(steps.status()));
    return std::nullopt;
  }
  return Json::parse(steps->objects[0].body);
}
} // namespace

void submitToolOutputs(Exchange exchange) {
  std::optional<Json> run = runOf(exchange);
  if (!run)
    return;
  if ((*run)["status"] != "requires_action")
    return exchange.fail(
        {.message = fmt::format("the run is {} and waits for no tools",
                                std::string((*run)["status"])),
         .code = "run_not_waiting"});
  std::optional<Json> body = bodyObject(exchange);
  std::optional<Json> step =
      body ? openStep(exchange, *run) : std::optional<Json>();
  if (!step)
    return;
  if (auto error = takeOutputs(*step, *body))
    return exchange.fail(*error);
  Problem problem;
  bool streams = Field(*body, problem)["stream"].boolean().value_or(false);
  if (problem.error)
    return exchange.fail(*problem.error);
  std::string model = (*run)["model"];
  withModel(
      std::move(exchange), model,
      [run = *std::move(run), step = *std::move(step),
       streams](const Exchange &exchange, std::shared_ptr<Backend> backend) {
        ObjectStore &store = *exchange.settings().store;
        Json next = run, done = step;
        next["status"] = "queued";
        next["required_action"] = nullptr;
        std::string id = run["id"];
        StatusOr<bool> isChanged =
            store.replace(id, "requires_action", "queued", jsonText(next));
        if (!isChanged)
          return exchange.fail(storeError(isChanged.status()));
        if (!*isChanged)
          return exchange.fail({.message = "the run waits for no tools by now",
                                .code = "run_not_waiting"});
        done["status"] = "completed";
        done["completed_at"] = secondsNow(exchange);
        (void)store.replace(std::string(step["id"]), "in_progress", "completed",
                            jsonText(done));
        if (!streams)
          sendJson(*exchange.answer, next);
        RunRecord::start(exchange, std::move(backend), std::move(next),
                         streams ? exchange.answer : nullptr,
                         runEvent(done, "completed"));
      });
}

void listRunSteps(Exchange exchange) {
  if (runOf(exchange))
    answerList(exchange, {.kind = "step", .parent = exchange.names[1]});
}

void retrieveRunStep(Exchange exchange) {
  if (!runOf(exchange))
    return;
  if (auto step =
          findObject(exchange, "step", exchange.names[2], exchange.names[1]))
    sendJson(*exchange.answer, *step);
}

void endAbandonedRuns(const ApiSettings &settings) {
  for (const char *status : {"queued", "in_progress"}) {
    auto runs = settings.store->withStatus("run", status);
    for (size_t i = 0; runs && i < runs->size(); ++i) {
      Json run = Json::parse((*runs)[i].body);
      run["last_error"] = {
          {"code", "server_error"},
          {"message", "the server ended while the run was in progress"}};
      endIdleRun(*settings.store, run, status, "failed", secondsNow(settings));
    }
  }
}

} // namespace moert
