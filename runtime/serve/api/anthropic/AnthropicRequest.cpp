#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/anthropic/Anthropic.h"
#include "runtime/serve/api/anthropic/BillingHeader.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// Adds the answer of a tool.
void addResult(const Field &block, std::string before, ChatCall &call) {
  MessageParts parts =
      messageParts("tool", readContent(block["content"]), block);
  if (block["is_error"].boolean().value_or(false))
    parts.content = "Error: " + parts.content;
  parts.content = std::move(before) + parts.content;
  parts.toolCallId = block["tool_use_id"].required().text().value_or("");
  addMessage(call, std::move(parts));
}

/// The blocks of one message, which may become several: answers of tools are
/// messages of their own, before what the user says.
void readBlocks(const std::string &role, const Field &message,
                const Field &blocks, ChatCall &call) {
  Content content;
  std::vector<ToolCall> calls;
  bool hasAnswers = false;
  for (const Field &block : blocks.list(kMostMessages)) {
    if (block.isText()) {
      readPart(block, content);
      continue;
    }
    if (!block.object())
      continue;
    const std::string type = block["type"].required().text().value_or("");
    if (type == "tool_use") {
      Field input = block["input"].required();
      calls.push_back({.id = block["id"].required().text().value_or(""),
                       .name = block["name"].required().text().value_or(""),
                       .arguments = input.isText()   ? *input.text()
                                    : input.object() ? input.json().dump()
                                                     : ""});
    } else if (type == "tool_result") {
      hasAnswers = true;
      // Anthropic's clients put answers first. The text before one stays there.
      std::string before;
      if (std::string text = std::exchange(content.text, {}); !text.empty())
        before = fmt::format("[{0}]\n{1}\n[/{0}]\n", role, text);
      addResult(block, std::move(before), call);
    } else {
      readPart(block, content);
    }
  }
  if (hasAnswers && content.text.empty())
    return;
  MessageParts said = messageParts(role, std::move(content), message);
  said.calls = std::move(calls);
  addMessage(call, std::move(said));
}

void readMessages(const Field &messages, ChatCall &call) {
  std::vector<Field> list = messages.required().list(kMostMessages);
  if (messages.isList() && list.empty())
    messages.fail("must have one message at least");
  for (const Field &message : list) {
    if (!message.object())
      continue;
    std::string role = message["role"]
                           .required()
                           .word({"user", "assistant", "system"})
                           .value_or("");
    Field content = message["content"].required();
    if (content.isList())
      readBlocks(role, message, content, call);
    else
      addMessage(call, messageParts(role, readContent(content), message));
  }
}

/// The schemas of tools that Anthropic defines and clients run.
struct TypedTool {
  std::string_view prefix; ///< Beginning of `type`, which a date follows.
  const char *description, *schema;
};
constexpr TypedTool kTypedTools[] = {
    {"bash_", "Runs a command in a shell whose state lasts.",
     R"({"type": "object", "properties": {
         "command": {"type": "string", "description": "The command."},
         "restart": {"type": "boolean",
                     "description": "Starts the shell anew."}}})"},
    {"text_editor_",
     "Views and changes text files. view shows a file, or a part of it, or "
     "lists a folder; create writes a new file; str_replace replaces a text "
     "that occurs once; insert adds text after a line.",
     R"({"type": "object", "properties": {
         "command": {"type": "string",
                     "enum": ["view", "create", "str_replace", "insert"]},
         "path": {"type": "string"},
         "view_range": {"type": "array", "items": {"type": "integer"}},
         "file_text": {"type": "string"},
         "old_str": {"type": "string"},
         "new_str": {"type": "string"},
         "insert_line": {"type": "integer"},
         "insert_text": {"type": "string"}},
         "required": ["command", "path"]})"}};

void readTool(const Field &item, ChatCall &call) {
  const std::string type = item["type"].text().value_or("custom");
  if (type == "custom" || (item["input_schema"] && item["name"])) {
    call.tools.push_back(
        moert::readTool(item, item["input_schema"].required()));
    return;
  }
  for (const TypedTool &typed : kTypedTools)
    if (type.starts_with(typed.prefix)) {
      Tool tool = moert::readTool(item, item.none());
      tool.description = typed.description;
      tool.parameters = Json::parse(typed.schema);
      call.tools.push_back(std::move(tool));
      return;
    }
  item["type"].note("is skipped: this server has no such tool");
}

void readTools(const Field &body, ChatCall &call) {
  for (const Field &item : body["tools"].list(kMostTools))
    if (item.object())
      readTool(item, call);
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
  generate.format = readGrammar(format["schema"].required(), body.none(),
                                body.none(), body.none());
}
} // namespace

void readAnthropic(const Field &body, const ApiSettings &settings,
                   bool needsLimit, ChatCall &call) {
  GenerateCall &generate = call.generate;
  generate.model = body["model"].text().value_or("");
  call.options.noSpecial = settings.noSpecial;
  call.callIdPrefix = "toolu_";
  if (Field system = body["system"]) {
    Content content = readContent(system);
    content.text = withoutBillingHeader(std::move(content.text));
    addMessage(call, messageParts("system", std::move(content), system));
  }
  readMessages(body["messages"], call);
  // A last message of the assistant is the beginning of the answer.
  call.options.continuesLast = true;
  readTools(body, call);
  if (Field thinking = body["thinking"]) {
    const std::string type = thinking["type"].required().text().value_or("");
    // The budget is the model's to keep: nothing cuts its reasoning short.
    (void)thinking["budget_tokens"].integer(0, kMostRequestTokens);
    if (type == "disabled")
      call.options.thinking = Thinking::Off;
    else if (type == "enabled")
      call.messages.variables()["enable_thinking"] = true;
    else if (type != "adaptive")
      thinking["type"].note("is skipped: it is enabled, disabled or adaptive");
  }
  readSampling(body, settings, generate);
  generate.reply.stops = readStops(body["stop_sequences"]);
  Field most = body["max_tokens"];
  if (needsLimit)
    (void)most.required();
  generate.reply.maxTokens =
      int32_t(most.integer(1, kMostRequestTokens).value_or(-1));
  generate.streams = body["stream"].boolean().value_or(false);
  readReasoningEffort(body["output_config"]["effort"], call);
  readOutputFormat(body, generate);
  readService(body, generate);
  if (Field user = body["metadata"]["user_id"]; user.isText())
    generate.user = *user.text();
}

} // namespace moert
