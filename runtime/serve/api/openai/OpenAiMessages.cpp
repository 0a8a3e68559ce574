#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/openai/OpenAi.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// Arguments of a call: a text, or an object, as Ollama's clients send it.
std::string argumentsOf(const Field &arguments) {
  return arguments.isObject() ? arguments.json().dump()
                              : arguments.text().value_or("{}");
}

/// A call in the form {"name": ..., "arguments": ...}.
ToolCall readFunction(const Field &function) {
  return {.id = "",
          .name = function["name"].required().text().value_or(""),
          .arguments = argumentsOf(function["arguments"])};
}

std::vector<ToolCall> readCalls(const Field &list) {
  std::vector<ToolCall> calls;
  for (const Field &item : list.list(kMostTools)) {
    if (!item.object())
      continue;
    ToolCall call;
    if (Field custom = item["custom"])
      call = customCall(custom["name"].required(), custom["input"]);
    else
      call = readFunction(item["function"].required());
    call.id = item["id"].text().value_or("");
    calls.push_back(std::move(call));
  }
  return calls;
}

void addImages(const Field &images, Content &content) {
  for (const Field &image : images.list(kMostMessages)) {
    if (!content.text.empty())
      content.text += '\n';
    content.text += omitted("image");
    if (content.unread.place.empty())
      content.unread = {.place = image.path(), .kind = "image"};
  }
}

/// Returns the role of a message as templates know it. A message of any other
/// role is the user's, and begins with `frame`, which names the role.
std::string roleOf(const Field &field, std::string &frame) {
  const std::string role = field.text().value_or("user");
  for (const char *known : {"system", "developer", "user", "assistant", "tool"})
    if (role == known)
      return role;
  // The names of older clients and of Llama's and Gemma's templates.
  if (role == "function" || role == "ipython")
    return "tool";
  if (role == "model")
    return "assistant";
  field.note("is no role that models know: its text is the user's");
  frame = fmt::format("[{}]\n", role);
  return "user";
}

void readMessage(const Field &message, ChatCall &call) {
  if (!message.object())
    return;
  std::string frame;
  const std::string role = roleOf(message["role"].required(), frame);
  const bool isAssistant = role == "assistant";
  Field field = message["content"];
  // A tool may have nothing to say.
  if (!isAssistant && role != "tool")
    (void)field.required();
  Content content = readContent(field);
  // Ollama's clients send images beside the text.
  addImages(message["images"], content);
  content.text = frame + content.text + message["refusal"].text().value_or("");
  MessageParts parts = messageParts(role, std::move(content), message);
  parts.name = message["name"].text().value_or("");
  parts.toolCallId = message["tool_call_id"].text().value_or("");
  if (parts.name.empty())
    parts.name = message["tool_name"].text().value_or("");
  if (isAssistant) {
    if (message["audio"])
      parts.content += omitted("audio");
    // The names that servers and clients have for it.
    for (const char *name : {"reasoning_content", "reasoning", "thinking"})
      if (Field reasoning = message[name]; reasoning && parts.reasoning.empty())
        parts.reasoning = reasoning.isObject() ? itemText(reasoning)
                                               : readContent(reasoning).text;
    parts.calls = readCalls(message["tool_calls"]);
    if (Field function = message["function_call"])
      parts.calls.push_back(readFunction(function));
  }
  addMessage(call, std::move(parts));
}

/// A tool of this type and name among those of the call: its name there.
std::string offeredName(const Field &choice, bool isFlat,
                        const ChatCall &call) {
  const std::string type = choice["type"].text().value_or("");
  Field inner = type == "custom" ? choice["custom"] : choice["function"];
  Field name = (isFlat || !inner ? choice : inner)["name"];
  if (!name)
    name = choice["function"]["name"];
  const std::string text = name.required().text().value_or("");
  const std::string space = choice["namespace"].text().value_or("");
  for (const auto &[offered, origin] : call.origins)
    if (origin.name == text && (space.empty() || origin.space == space))
      return offered;
  auto isCalled = [&](const Tool &tool) { return tool.name == text; };
  if (std::ranges::none_of(call.tools, isCalled))
    name.fail("names none of the tools");
  return text;
}

ToolChoice::Kind choiceKind(const Field &word) {
  using Kind = ToolChoice::Kind;
  const std::string text =
      word.word({"none", "auto", "required"}).value_or("auto");
  return text == "none"       ? Kind::None
         : text == "required" ? Kind::Required
                              : Kind::Auto;
}

/// Removes the tools that the choice does not list.
void readAllowedTools(const Field &choice, bool isFlat, ChatCall &call) {
  Field allowed = choice["allowed_tools"] ? choice["allowed_tools"] : choice;
  call.choice.kind = choiceKind(allowed["mode"]);
  std::vector<std::string> names;
  for (const Field &item : allowed["tools"].required().list(kMostTools))
    if (!isHostedTool(item))
      names.push_back(offeredName(item, isFlat, call));
  call.allowed = std::move(names);
}

void readChoice(const Field &choice, bool isFlat, ChatCall &call) {
  using Kind = ToolChoice::Kind;
  if (!choice)
    return;
  if (choice.isText()) {
    call.choice.kind = choiceKind(choice);
    return;
  }
  if (!choice.isObject())
    return choice.mustBe("\"none\", \"auto\", \"required\" or a function");
  const std::string type = choice["type"].required().text().value_or("");
  if (type == "allowed_tools")
    return readAllowedTools(choice, isFlat, call);
  if (isHostedTool(choice))
    return choice["type"].note("is skipped: this server has no such tool");
  call.choice = {Kind::Named, offeredName(choice, isFlat, call)};
}

/// A tool whose input is one text, as the function that is offered for it.
Tool customTool(const Field &item) {
  Tool tool = readTool(item, item.none());
  Field format = item["format"];
  // Chat completions have the grammar in an object of its own.
  Field grammar = format["grammar"] ? format["grammar"] : format;
  if (Field definition = grammar["definition"])
    tool.description +=
        fmt::format("\n\nThe input has this form ({}):\n{}",
                    grammar["syntax"].text().value_or("grammar"),
                    definition.text().value_or(""));
  tool.parameters = {
      {"type", "object"},
      {"properties",
       {{"input",
         {{"type", "string"}, {"description", "The input, as a text."}}}}},
      {"required", {"input"}}};
  return tool;
}

void addTool(Tool tool, ToolOrigin origin, ChatCall &call) {
  auto isCalled = [&](const Tool &other) { return other.name == tool.name; };
  if (std::ranges::any_of(call.tools, isCalled))
    tool.name = origin.space + tool.name;
  if (origin.isCustom || !origin.space.empty())
    call.origins[tool.name] = std::move(origin);
  call.tools.push_back(std::move(tool));
}

void readToolOf(const Field &item, bool isFlat, const std::string &space,
                ChatCall &call) {
  if (!item.object())
    return;
  const std::string type = item["type"].required().text().value_or("");
  if (type == "namespace") {
    const std::string name = item["name"].required().text().value_or("");
    std::string about = item["description"].text().value_or("");
    for (const Field &inner : item["tools"].list(kMostTools)) {
      const size_t count = call.tools.size();
      readToolOf(inner, isFlat, name, call);
      // A note about all tools is given only once.
      if (call.tools.size() > count && !about.empty())
        call.tools[count].description =
            fmt::format("{}: {}\n\n{}", name, std::exchange(about, {}),
                        call.tools[count].description);
    }
    return;
  }
  if (isHostedTool(item))
    return item["type"].note("is skipped: this server has no such tool");
  if (type == "custom") {
    Field custom = item["custom"] ? item["custom"] : item;
    Tool tool = customTool(custom);
    std::string name = tool.name;
    return addTool(std::move(tool), {std::move(name), space, true}, call);
  }
  Field function = isFlat ? item : item["function"].required();
  Tool tool =
      readTool(function, function["parameters"] ? function["parameters"]
                                                : function["input_schema"]);
  std::string name = tool.name;
  addTool(std::move(tool), {std::move(name), space, false}, call);
}
} // namespace

bool isHostedTool(const Field &item) {
  const std::string type = item["type"].text().value_or("");
  if (type == "function" || type == "custom" || type == "namespace" ||
      item["function"])
    return false;
  // A type that is not known yet may have parameters and no name.
  return (!item["name"] && !type.empty()) ||
         (!item["parameters"] && !item["input_schema"]);
}

ToolCall customCall(const Field &name, const Field &input) {
  const std::string text = input.isText() ? *input.text()
                           : input        ? input.json().dump()
                                          : "";
  return {.id = "",
          .name = name.text().value_or(""),
          .arguments = jsonText(Json{{"input", text}})};
}

void readOpenAiMessages(const Field &messages, ChatCall &call) {
  std::vector<Field> list = messages.required().list(kMostMessages);
  if (messages.isList() && list.empty())
    messages.fail("must have one message at least");
  for (const Field &message : list)
    readMessage(message, call);
}

void readOpenAiTool(const Field &item, bool isFlat, ChatCall &call) {
  readToolOf(item, isFlat, "", call);
}

bool readOpenAiFunctions(const Field &body, ChatCall &call) {
  Field functions = body["functions"], choice = body["function_call"];
  for (const Field &item : functions.list(kMostTools)) {
    Tool tool = readTool(item, item["parameters"]);
    std::string name = tool.name;
    addTool(std::move(tool), {std::move(name), "", false}, call);
  }
  if (choice.isText())
    call.choice.kind = choice.word({"none", "auto"}) == "none"
                           ? ToolChoice::Kind::None
                           : ToolChoice::Kind::Auto;
  else if (choice && choice.object())
    call.choice = {ToolChoice::Kind::Named,
                   offeredName(choice, /*isFlat=*/true, call)};
  return functions && !functions.json().empty() && !body["tools"];
}

void readOpenAiTools(const Field &body, ChatCall &call, bool isFlat) {
  for (const Field &item : body["tools"].list(kMostTools))
    readOpenAiTool(item, isFlat, call);
  readChoice(body["tool_choice"], isFlat, call);
  if (call.choice.kind == ToolChoice::Kind::Required && call.tools.empty())
    body["tool_choice"].fail("needs tools, and there are none");
  call.parallelCalls = body["parallel_tool_calls"].boolean().value_or(true);
  setTools(call);
}

} // namespace moert
