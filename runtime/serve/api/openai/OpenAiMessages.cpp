#include "runtime/base/Text.h"
#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/openai/OpenAi.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
std::vector<ToolCall> readCalls(const Field &list) {
  std::vector<ToolCall> calls;
  for (const Field &item : list.list(kMostTools)) {
    if (!item.object())
      continue;
    (void)item["type"].word({"function"});
    Field function = item["function"].required();
    ToolCall call;
    call.id = item["id"].text().value_or("");
    call.name = function["name"].required().text().value_or("");
    Field arguments = function["arguments"];
    // Ollama's clients send an object.
    call.arguments = arguments.isObject() ? arguments.json().dump()
                                          : arguments.text().value_or("{}");
    calls.push_back(std::move(call));
  }
  return calls;
}

void readMessage(const Field &message, ChatCall &call) {
  if (!message.object())
    return;
  MessageParts parts;
  parts.role = message["role"]
                   .required()
                   .word({"system", "developer", "user", "assistant", "tool"})
                   .value_or("");
  bool isAssistant = parts.role == "assistant";
  // Templates know no developers; what they say has the same weight.
  if (parts.role == "developer")
    parts.role = "system";
  Field content = message["content"];
  if (!isAssistant)
    (void)content.required();
  parts.content = readContent(content, {"text", "input_text", "output_text"});
  message["images"].refuse("this model reads text alone");
  parts.name = message["name"].text().value_or("");
  parts.toolCallId = message["tool_call_id"].text().value_or("");
  if (parts.name.empty())
    parts.name = message["tool_name"].text().value_or("");
  if (isAssistant) {
    message["audio"].refuse("this model reads text alone");
    message["function_call"].refuse("use tool_calls");
    parts.reasoning = message["reasoning_content"].text().value_or("");
    if (parts.reasoning.empty())
      parts.reasoning = message["thinking"].text().value_or("");
    parts.calls = readCalls(message["tool_calls"]);
  }
  addMessage(call, std::move(parts));
}

ToolChoice readChoice(const Field &choice, const std::vector<Tool> &tools,
                      bool isFlat) {
  using Kind = ToolChoice::Kind;
  if (!choice.isObject()) {
    std::string word =
        choice && !choice.isText()
            ? (choice.mustBe("\"none\", \"auto\", \"required\" or a function"),
               "auto")
            : choice.word({"none", "auto", "required"}).value_or("auto");
    return {word == "none"       ? Kind::None
            : word == "required" ? Kind::Required
                                 : Kind::Auto};
  }
  (void)choice["type"].required().word({"function"});
  Field name = isFlat ? choice["name"] : choice["function"].required()["name"];
  ToolChoice result{Kind::Named, name.required().text().value_or("")};
  auto isCalled = [&](const Tool &tool) { return tool.name == result.name; };
  if (std::ranges::none_of(tools, isCalled))
    name.fail("names none of the tools");
  return result;
}
} // namespace

void readOpenAiMessages(const Field &messages, ChatCall &call) {
  std::vector<Field> list = messages.required().list(kMostMessages);
  if (messages.isList() && list.empty())
    messages.fail("must have one message at least");
  for (const Field &message : list)
    readMessage(message, call);
}

void readOpenAiTool(const Field &item, bool isFlat, ChatCall &call) {
  if (!item.object())
    return;
  (void)item["type"].required().word({"function"});
  Field function = isFlat ? item : item["function"].required();
  call.tools.push_back(readTool(function, function["parameters"]));
}

void readOpenAiTools(const Field &body, ChatCall &call, bool isFlat) {
  for (const Field &item : body["tools"].list(kMostTools))
    readOpenAiTool(item, isFlat, call);
  call.choice = readChoice(body["tool_choice"], call.tools, isFlat);
  if (call.choice.kind == ToolChoice::Kind::Required && call.tools.empty())
    body["tool_choice"].fail("needs tools, and there are none");
  call.parallelCalls = body["parallel_tool_calls"].boolean().value_or(true);
  setTools(call);
}

} // namespace moert
