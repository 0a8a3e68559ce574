#include "runtime/serve/api/assistants/RunSettings.h"

#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/openai/OpenAi.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// The messages of a thread, with the calls of finished steps and their answers
/// between them.
std::vector<MessageParts> conversation(const std::vector<StoredObject> &items) {
  std::vector<MessageParts> list;
  std::string lastRun; // Run of the last message, if the assistant wrote it.
  for (const StoredObject &item : items) {
    Json json = Json::parse(item.body);
    if (item.kind == "message") {
      MessageParts parts{.role = json["role"], .content = ""};
      for (const Json &part : json["content"])
        parts.content += part["text"]["value"].get_ref<const std::string &>();
      lastRun = json["run_id"].is_string() ? json["run_id"] : Json("");
      list.push_back(std::move(parts));
      continue;
    }
    // A step that only made a message says nothing new, and calls without an
    // answer cannot be shown to a model.
    if (json["type"] != "tool_calls" || json["status"] != "completed")
      continue;
    // Text and calls of one reply are one message.
    if (lastRun.empty() || lastRun != json["run_id"])
      list.push_back({.role = "assistant", .content = ""});
    lastRun.clear();
    size_t caller = list.size() - 1;
    for (const Json &call : json["step_details"]["tool_calls"]) {
      const Json &function = call["function"];
      list[caller].calls.push_back(
          {call["id"], function["name"], function["arguments"]});
      list.push_back({.role = "tool",
                      .content = function["output"],
                      .toolCallId = call["id"],
                      .name = function["name"]});
    }
  }
  return list;
}

/// Leaves the oldest messages out, a quarter of them at least, up to one of the
/// user. False if there is no such message.
bool dropOldest(std::vector<MessageParts> &list) {
  size_t from = std::max<size_t>(1, list.size() / 4);
  while (from < list.size() && list[from].role != "user")
    ++from;
  if (from >= list.size())
    return false;
  list.erase(list.begin(), list.begin() + ptrdiff_t(from));
  return true;
}
} // namespace

void readRunSettings(const Field &body, const ApiSettings &settings,
                     ChatCall &call) {
  GenerateCall &generate = call.generate;
  generate.model = body["model"].text().value_or("");
  call.options.noSpecial = settings.noSpecial;
  // An assistant is kept with its tools: one that does nothing would be a lie.
  for (const Field &tool : body["tools"].list(kMostTools))
    if (tool.isObject() && isHostedTool(tool))
      tool["type"].required().mustBe("\"function\"");
  readOpenAiTools(body, call);
  readSampling(body, settings, generate);
  readReasoningEffort(body["reasoning_effort"], call);
  Field format = body["response_format"];
  if (format.isText())
    (void)format.word({"auto"});
  else
    generate.format = readOpenAiFormat(body);
  if (auto most = body["max_completion_tokens"].integer(1, kMostRequestTokens))
    generate.reply.maxTokens = int32_t(*most);
}

Json newRun(const Exchange &exchange, const std::string &thread,
            const Json &assistant, const Json &body) {
  auto setting = [&](const char *key) {
    if (body.contains(key) && !body[key].is_null())
      return body[key];
    return assistant.contains(key) ? assistant[key] : Json(nullptr);
  };
  auto given = [&](const char *key, Json other) {
    return body.contains(key) && !body[key].is_null() ? body[key] : other;
  };
  int64_t now = secondsNow(exchange);
  Json run = {{"id", newId(exchange, "run_")},
              {"object", "thread.run"},
              {"created_at", now},
              {"assistant_id", assistant["id"]},
              {"thread_id", thread},
              {"status", "queued"},
              {"started_at", nullptr},
              {"expires_at", now + kSecondsForTools},
              {"cancelled_at", nullptr},
              {"failed_at", nullptr},
              {"completed_at", nullptr},
              {"required_action", nullptr},
              {"last_error", nullptr},
              {"incomplete_details", nullptr},
              {"usage", nullptr}};
  for (const char *key : {"model", "instructions", "tools", "temperature",
                          "top_p", "response_format", "reasoning_effort"})
    run[key] = setting(key);
  if (body.contains("additional_instructions") &&
      body["additional_instructions"].is_string()) {
    std::string text = run["instructions"].is_string()
                           ? std::string(run["instructions"]) + "\n"
                           : "";
    run["instructions"] = text + std::string(body["additional_instructions"]);
  }
  run["metadata"] = given("metadata", Json::object());
  run["tool_choice"] = given("tool_choice", "auto");
  run["parallel_tool_calls"] = given("parallel_tool_calls", true);
  run["max_prompt_tokens"] = given("max_prompt_tokens", nullptr);
  run["max_completion_tokens"] = given("max_completion_tokens", nullptr);
  run["truncation_strategy"] = given(
      "truncation_strategy", {{"type", "auto"}, {"last_messages", nullptr}});
  return run;
}

std::optional<ApiError> checkRun(const Json &json, const Json &run,
                                 const ApiSettings &settings) {
  Problem problem{.deadline = Deadline(settings.prepareTime)};
  Field body(json, problem);
  for (const char *key : {"instructions", "additional_instructions", "model"})
    (void)body[key].text();
  (void)readMetadata(body);
  (void)body["stream"].boolean();
  (void)body["max_prompt_tokens"].integer(1, kMostRequestTokens);
  if (Field strategy = body["truncation_strategy"]) {
    std::string type = strategy["type"]
                           .required()
                           .word({"auto", "last_messages"})
                           .value_or("");
    Field last = strategy["last_messages"];
    (void)(type == "last_messages" ? last.required() : last)
        .integer(1, int64_t(kMostMessages));
  }
  ChatCall call;
  readRunSettings(Field(run, problem), settings, call);
  return problem.error;
}

Prepared prepareRun(const Backend &backend, const ApiSettings &settings,
                    const Json &run, const std::vector<StoredObject> &items) {
  Problem problem{.deadline = Deadline(settings.prepareTime)};
  ChatCall base;
  Field body(run, problem);
  readRunSettings(body, settings, base);
  if (problem.error)
    return *problem.error;
  std::vector<MessageParts> messages = conversation(items);
  if (auto last = body["truncation_strategy"]["last_messages"].integer(
          1, int64_t(kMostMessages));
      last && messages.size() > size_t(*last))
    messages.erase(messages.begin(), messages.end() - *last);
  // The answer of a tool has no meaning without its call.
  while (!messages.empty() && messages.front().role == "tool")
    messages.erase(messages.begin());
  // A call that was forced has been made: what follows is the model's choice.
  if (!messages.empty() && messages.back().role == "tool" &&
      base.choice.kind != ToolChoice::Kind::None)
    base.choice = {};
  base.generate.streams = true;
  base.options.deadline = problem.deadline;
  while (true) {
    ChatCall call = base;
    for (const MessageParts &message : messages)
      addMessage(call, message);
    if (run["instructions"].is_string())
      addInstructions(call, run["instructions"].get_ref<const std::string &>());
    Prepared prepared = prepareChat(backend, settings, std::move(call));
    auto most = body["max_prompt_tokens"].integer(1, kMostRequestTokens);
    auto *error = std::get_if<ApiError>(&prepared);
    bool isTooLong =
        error ? error->code == "context_length_exceeded"
              : most && std::get<RunPlan>(prepared).requests[0].prompt.size() >
                            size_t(*most);
    if (!isTooLong)
      return prepared;
    if (!dropOldest(messages))
      return error ? *error
                   : ApiError{.message = fmt::format(
                                  "the last message alone has more than {} "
                                  "tokens, the run's limit",
                                  *most),
                              .param = "max_prompt_tokens",
                              .code = "max_prompt_tokens"};
  }
}

} // namespace moert
