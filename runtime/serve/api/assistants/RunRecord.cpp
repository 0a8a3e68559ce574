#include "runtime/serve/api/assistants/RunRecord.h"

#include "runtime/serve/api/Run.h"
#include "runtime/serve/api/assistants/Assistants.h"
#include "runtime/serve/api/assistants/RunSettings.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

std::string runEvent(const Json &object, std::string_view state) {
  std::string name = object["object"];
  return sseEvent(object, fmt::format("{}.{}", name, state));
}

void setRunEnd(Json &run, const std::string &status, int64_t now) {
  run["status"] = status;
  run["expires_at"] = nullptr;
  for (const char *state : {"cancelled", "failed", "completed"})
    if (status == state)
      run[status + "_at"] = now;
  run["required_action"] = nullptr;
}

bool endIdleRun(ObjectStore &store, Json &run, const std::string &from,
                const std::string &status, int64_t now) {
  std::string id = run["id"];
  setRunEnd(run, status, now);
  StatusOr<bool> isChanged = store.replace(id, from, status, jsonText(run));
  if (!isChanged || !*isChanged)
    return false;
  // The step whose tools were waited for.
  auto steps = store.withStatus("step", "in_progress");
  for (size_t i = 0; steps && i < steps->size(); ++i) {
    const StoredObject &step = (*steps)[i];
    if (step.parent != id)
      continue;
    Json json = Json::parse(step.body);
    json["status"] = status;
    json[status + "_at"] = now;
    (void)store.replace(step.id, step.status, status, jsonText(json));
  }
  return true;
}

/// Writes generated text to the record.
class RunRecord::Writer : public ReplyWriter {
public:
  explicit Writer(std::shared_ptr<RunRecord> record)
      : record_(std::move(record)) {}

  ErrorStyle errorStyle() const override { return ErrorStyle::OpenAi; }
  bool mayWait() const override { return true; }
  Json whole(std::span<const Choice>) override { return {}; }
  std::string delta(size_t, const Choice &choice, const Delta &delta) override {
    std::lock_guard lock(record_->mutex_);
    return record_->isOver_ ? "" : record_->delta(choice, delta);
  }
  std::string end(std::span<const Choice> choices) override {
    std::lock_guard lock(record_->mutex_);
    return record_->isOver_ ? "" : record_->finish(choices);
  }
  std::string error(const ApiError &error) override {
    std::lock_guard lock(record_->mutex_);
    return record_->isOver_ ? "" : record_->fail(error);
  }

private:
  std::shared_ptr<RunRecord> record_;
};

void RunRecord::start(const Exchange &exchange,
                      std::shared_ptr<Backend> backend, Json run,
                      std::shared_ptr<HttpAnswer> stream,
                      std::string firstEvents) {
  ObjectStore &store = *exchange.settings().store;
  std::string id = run["id"], thread = run["thread_id"];
  std::shared_ptr<RunRecord> record(
      new RunRecord(exchange.context, exchange.request.client, std::move(run),
                    std::move(stream)));
  exchange.context->runs.add(id, record);
  std::unique_lock lock(record->mutex_);
  if (record->stream_)
    record->stream_->begin(200, "text/event-stream",
                           {{"Cache-Control", "no-cache"}}, ": ping\n\n");
  firstEvents += runEvent(record->run_, "queued");
  record->run_["status"] = "in_progress";
  if (record->run_["started_at"].is_null())
    record->run_["started_at"] = record->now();
  record->store("queued");
  firstEvents += runEvent(record->run_, "in_progress");
  StatusOr<std::vector<StoredObject>> items = store.threadItems(thread);
  Prepared prepared =
      items ? prepareRun(*backend, exchange.settings(), record->run_, *items)
            : Prepared(storeError(items.status()));
  if (auto *error = std::get_if<ApiError>(&prepared)) {
    firstEvents += record->fail(*error);
    lock.unlock();
    record->write(std::move(firstEvents));
    record->end();
    return;
  }
  RunPlan plan = std::get<RunPlan>(std::move(prepared));
  record->facts_ = replyFacts(*backend, exchange.settings(), plan);
  lock.unlock();
  record->write(std::move(firstEvents));
  startRun(exchange, std::move(backend), std::move(plan),
           std::make_unique<Writer>(record), record);
}

void RunRecord::cancel() {
  std::function<void()> gone;
  {
    std::lock_guard lock(mutex_);
    if (isOver_)
      return;
    std::string events = endRun("cancelled");
    if (stream_) {
      stream_->write(events);
      stream_->end();
      stream_ = nullptr;
    }
    gone = std::move(gone_);
  }
  if (gone)
    gone();
}

bool RunRecord::setMetadata(Json metadata) {
  std::lock_guard lock(mutex_);
  if (isOver_)
    return false;
  run_["metadata"] = std::move(metadata);
  store("in_progress");
  return true;
}

void RunRecord::send(int status, std::string_view, std::string body,
                     HttpHeaders) {
  // An error before the first token.
  std::string events;
  {
    std::lock_guard lock(mutex_);
    if (isOver_)
      return;
    Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    ApiError error{.status = status, .message = "the generation failed"};
    if (json.is_object() && json.contains("error"))
      error.message = json["error"]["message"];
    events = fail(error);
  }
  write(std::move(events));
  end();
}

void RunRecord::write(std::string bytes) {
  std::lock_guard lock(mutex_);
  if (stream_ && !bytes.empty())
    stream_->write(std::move(bytes));
}

void RunRecord::end() {
  std::lock_guard lock(mutex_);
  if (stream_)
    stream_->end();
  stream_ = nullptr;
}

size_t RunRecord::pendingBytes() const { return 0; }

void RunRecord::onGone(std::function<void()> gone) {
  {
    std::lock_guard lock(mutex_);
    if (!isOver_) {
      gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

int64_t RunRecord::now() const { return secondsNow(context_->settings); }

std::string RunRecord::newId(const char *prefix) const {
  return prefix + randomId(context_->settings).substr(0, 24);
}

void RunRecord::store(const char *from) {
  // A thread that was deleted meanwhile has taken its run along.
  (void)context_->settings.store->replace(std::string(run_["id"]), from,
                                          std::string(run_["status"]),
                                          jsonText(run_));
}

std::string RunRecord::endRun(const char *status) {
  isOver_ = true;
  setRunEnd(run_, status, now());
  store("in_progress");
  context_->runs.remove(run_["id"]);
  return runEvent(run_, status) + std::string(kRunStreamEnd);
}

std::string RunRecord::fail(const ApiError &error) {
  bool isOverload = error.status == 503 || error.status == 429;
  run_["last_error"] = {{"code", isOverload           ? "rate_limit_exceeded"
                                 : error.status < 500 ? "invalid_prompt"
                                                      : "server_error"},
                        {"message", error.message}};
  std::string events;
  if (!message_.is_null())
    events = leaveMessage(/*isCut=*/true);
  return events + endRun("failed");
}

//===----------------------------------------------------------------------===//
// Steps: a message, or calls of tools
//===----------------------------------------------------------------------===//

Json RunRecord::newStep(const char *type, Json details) const {
  details["type"] = type;
  return {{"id", newId("step_")},
          {"object", "thread.run.step"},
          {"created_at", now()},
          {"run_id", run_["id"]},
          {"assistant_id", run_["assistant_id"]},
          {"thread_id", run_["thread_id"]},
          {"type", type},
          {"status", "in_progress"},
          {"cancelled_at", nullptr},
          {"completed_at", nullptr},
          {"expired_at", nullptr},
          {"failed_at", nullptr},
          {"last_error", nullptr},
          {"step_details", std::move(details)},
          {"usage", nullptr}};
}

std::string RunRecord::stepEvents(const Json &step) {
  return runEvent(step, "created") + runEvent(step, "in_progress");
}

std::string RunRecord::enterMessage() {
  message_ = {{"id", newId("msg_")},
              {"object", "thread.message"},
              {"created_at", now()},
              {"thread_id", run_["thread_id"]},
              {"status", "in_progress"},
              {"incomplete_details", nullptr},
              {"completed_at", nullptr},
              {"incomplete_at", nullptr},
              {"role", "assistant"},
              {"content", Json::array()},
              {"assistant_id", run_["assistant_id"]},
              {"run_id", run_["id"]},
              {"attachments", Json::array()},
              {"metadata", Json::object()}};
  messageStep_ =
      newStep("message_creation",
              {{"message_creation", {{"message_id", message_["id"]}}}});
  text_.clear();
  return stepEvents(messageStep_) + runEvent(message_, "created") +
         runEvent(message_, "in_progress");
}

std::string RunRecord::leaveMessage(bool isCut) {
  const char *state = isCut ? "incomplete" : "completed";
  message_["status"] = state;
  message_[std::string(state) + "_at"] = now();
  if (isCut)
    message_["incomplete_details"] = {
        {"reason", run_["last_error"].is_null() ? "max_tokens" : "run_failed"}};
  message_["content"].push_back(
      {{"type", "text"},
       {"text", {{"value", text_}, {"annotations", Json::array()}}}});
  messageStep_["status"] = "completed";
  messageStep_["completed_at"] = now();
  std::string run = run_["id"];
  // If the store has no room, the client still gets the text by the stream.
  Status added = context_->settings.store->add(
      {storedMessage(owner_, message_),
       storedObject("step", owner_, messageStep_, run, "completed")});
  if (!added && run_["last_error"].is_null())
    run_["last_error"] = {{"code", "server_error"},
                          {"message", added.message()}};
  std::string events =
      runEvent(message_, state) + runEvent(messageStep_, "completed");
  message_ = messageStep_ = nullptr;
  return events;
}

std::string RunRecord::enterCalls() {
  callStep_ = newStep("tool_calls", {{"tool_calls", Json::array()}});
  return stepEvents(callStep_);
}

std::string RunRecord::delta(const Choice &choice, const Delta &delta) {
  std::string events;
  switch (delta.kind) {
  case Delta::Kind::Text: {
    if (message_.is_null())
      events = enterMessage();
    text_ += delta.text;
    Json part = {
        {"index", 0},
        {"type", "text"},
        {"text", {{"value", delta.text}, {"annotations", Json::array()}}}};
    return events +
           sseEvent({{"id", message_["id"]},
                     {"object", "thread.message.delta"},
                     {"delta", {{"content", Json::array({std::move(part)})}}}},
                    "thread.message.delta");
  }
  case Delta::Kind::CallBegin:
  case Delta::Kind::CallArguments: {
    if (!message_.is_null())
      events = leaveMessage(/*isCut=*/false);
    if (callStep_.is_null())
      events += enterCalls();
    Json call = {{"index", delta.call}, {"type", "function"}};
    if (delta.kind == Delta::Kind::CallBegin) {
      call["id"] = choice.calls[delta.call].id;
      call["function"] = {{"name", choice.calls[delta.call].name},
                          {"arguments", ""},
                          {"output", nullptr}};
    } else {
      call["function"] = {{"arguments", delta.text}};
    }
    return events +
           sseEvent({{"id", callStep_["id"]},
                     {"object", "thread.run.step.delta"},
                     {"delta",
                      {{"step_details",
                        {{"type", "tool_calls"},
                         {"tool_calls", Json::array({std::move(call)})}}}}}},
                    "thread.run.step.delta");
  }
  // Threads have no place for reasoning.
  case Delta::Kind::Reasoning:
  case Delta::Kind::CallEnd:
  case Delta::Kind::Progress:
    break;
  }
  return events;
}

void RunRecord::addUsage(std::span<const Choice> choices) {
  auto before = [&](const char *key) {
    return run_["usage"].is_object() ? run_["usage"][key].get<int64_t>() : 0;
  };
  int64_t prompt = before("prompt_tokens") + facts_.promptTokens;
  int64_t generated =
      before("completion_tokens") + choices[0].stats.generatedTokens;
  run_["usage"] = {{"prompt_tokens", prompt},
                   {"completion_tokens", generated},
                   {"total_tokens", prompt + generated}};
}

std::string RunRecord::finish(std::span<const Choice> choices) {
  const Choice &choice = choices[0];
  addUsage(choices);
  bool isCut = choice.finish == Choice::Finish::Length;
  std::string events;
  if (message_.is_null() && choice.calls.empty())
    events = enterMessage();
  if (!message_.is_null())
    events += leaveMessage(isCut);
  if (!run_["last_error"].is_null())
    return events + endRun("failed");
  if (isCut) {
    run_["incomplete_details"] = {{"reason", "max_completion_tokens"}};
    return events + endRun("incomplete");
  }
  if (choice.calls.empty())
    return events + endRun("completed");

  // The client's turn: it runs the tools.
  Json required = Json::array(),
       &made = callStep_["step_details"]["tool_calls"];
  for (const ToolCall &call : choice.calls) {
    Json one = {
        {"id", call.id},
        {"type", "function"},
        {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    required.push_back(one);
    one["function"]["output"] = nullptr;
    made.push_back(std::move(one));
  }
  Status added = context_->settings.store->add(
      {storedObject("step", owner_, callStep_, run_["id"], "in_progress")});
  if (!added)
    return events + fail({.status = 500, .message = added.message()});
  isOver_ = true;
  run_["status"] = "requires_action";
  run_["expires_at"] = now() + kSecondsForTools;
  run_["required_action"] = {
      {"type", "submit_tool_outputs"},
      {"submit_tool_outputs", {{"tool_calls", std::move(required)}}}};
  store("in_progress");
  context_->runs.remove(run_["id"]);
  return events + runEvent(run_, "requires_action") +
         std::string(kRunStreamEnd);
}

} // namespace moert
