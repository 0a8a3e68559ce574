#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/anthropic/Anthropic.h"
#include "runtime/serve/api/anthropic/BillingHeader.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// The blocks of one message, which may become several: answers of tools are
/// messages of their own, before what the user says.
void readBlocks(const std::string &role, const Field &content, ChatCall &call) {
  MessageParts said{.role = role, .content = ""};
  bool hasAnswers = false;
  for (const Field &block : content.list(kMostMessages)) {
    if (!block.object())
      continue;
    std::string type = block["type"]
                           .required()
                           .word({"text", "thinking", "redacted_thinking",
                                  "tool_use", "tool_result"})
                           .value_or("");
    if (type == "text") {
      said.content += block["text"].required().text().value_or("");
    } else if (type == "thinking") {
      said.reasoning += block["thinking"].required().text().value_or("");
    } else if (type == "tool_use") {
      ToolCall toolCall;
      toolCall.id = block["id"].required().text().value_or("");
      toolCall.name = block["name"].required().text().value_or("");
      Field input = block["input"].required();
      if (input.object())
        toolCall.arguments = input.json().dump();
      said.calls.push_back(std::move(toolCall));
    } else if (type == "tool_result") {
      hasAnswers = true;
      std::string text = readContent(block["content"], {"text"});
      if (block["is_error"].boolean().value_or(false))
        text = "Error: " + text;
      addMessage(
          call,
          {.role = "tool",
           .content = std::move(text),
           .toolCallId = block["tool_use_id"].required().text().value_or("")});
    }
  }
  if (!hasAnswers || !said.content.empty())
    addMessage(call, std::move(said));
}

void readMessages(const Field &messages, ChatCall &call) {
  std::vector<Field> list = messages.required().list(kMostMessages);
  if (messages.isList() && list.empty())
    messages.fail("must have one message at least");
  for (const Field &message : list) {
    if (!message.object())
      continue;
    std::string role =
        message["role"].required().word({"user", "assistant"}).value_or("");
    Field content = message["content"].required();
    if (content.isList())
      readBlocks(role, content, call);
    else
      addMessage(call, {.role = role, .content = readContent(content, {})});
  }
}

void readTools(const Field &body, ChatCall &call) {
  for (const Field &item : body["tools"].list(kMostTools)) {
    if (!item.object())
      continue;
    // Other types are tools that Anthropic's own servers run.
    (void)item["type"].word({"custom"});
    call.tools.push_back(readTool(item, item["input_schema"].required()));
  }
  using Kind = ToolChoice::Kind;
  Field choice = body["tool_choice"];
  if (choice.object()) {
    std::string type = choice["type"]
                           .required()
                           .word({"auto", "any", "tool", "none"})
                           .value_or("auto");
    call.parallelCalls =
        !choice["disable_parallel_tool_use"].boolean().value_or(false);
    if (type == "any")
      call.choice.kind = Kind::Required;
    if (type == "none")
      call.choice.kind = Kind::None;
    if (type == "tool") {
      Field name = choice["name"].required();
      call.choice = {Kind::Named, name.text().value_or("")};
      auto isCalled = [&](const Tool &tool) {
        return tool.name == call.choice.name;
      };
      if (std::ranges::none_of(call.tools, isCalled))
        name.fail("names none of the tools");
    } else if (type == "any" && call.tools.empty()) {
      choice.fail("needs tools, and there are none");
    }
  }
  setTools(call);
}

/// The schema of the answer: `output_config.format`, or `output_format`, as
/// beta versions of the interface called it.
void readOutputFormat(const Field &body, GenerateCall &generate) {
  Field format =
      oneOf({body["output_config"]["format"], body["output_format"]});
  if (!format.object())
    return;
  (void)format["type"].required().word({"json_schema"});
  generate.grammar = readGrammar(format["schema"].required(), body.none(),
                                 body.none(), body.none());
}
} // namespace

void readAnthropic(const Field &body, const ApiSettings &settings,
                   bool needsLimit, ChatCall &call) {
  GenerateCall &generate = call.generate;
  generate.model = body["model"].text().value_or("");
  call.options.noSpecial = settings.noSpecial;
  call.callIdPrefix = "toolu_";
  if (Field system = body["system"])
    addMessage(
        call, {.role = "system",
               .content = withoutBillingHeader(readContent(system, {"text"}))});
  readMessages(body["messages"], call);
  // A last message of the assistant is the beginning of the answer.
  call.options.continuesLast = true;
  readTools(body, call);
  if (Field thinking = body["thinking"]) {
    std::string type = thinking["type"]
                           .required()
                           .word({"enabled", "disabled", "adaptive"})
                           .value_or("");
    // The budget is the model's to keep: nothing cuts its reasoning short.
    (void)thinking["budget_tokens"].integer(0, kMostRequestTokens);
    if (type == "disabled")
      call.options.thinking = Thinking::Off;
    else if (type == "enabled")
      call.messages.variables()["enable_thinking"] = true;
  }
  readSampling(body, settings, generate);
  generate.reply = ReplyOptions::forChat();
  generate.reply.stops = readStops(body["stop_sequences"]);
  Field most = body["max_tokens"];
  if (needsLimit)
    (void)most.required();
  generate.reply.maxTokens =
      int32_t(most.integer(1, kMostRequestTokens).value_or(-1));
  generate.streams = body["stream"].boolean().value_or(false);
  if (auto effort = body["output_config"]["effort"].word(
          {"low", "medium", "high", "xhigh", "max"}))
    setReasoningEffort(*effort, call);
  readOutputFormat(body, generate);
}

} // namespace moert
