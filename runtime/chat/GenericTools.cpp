#include "runtime/chat/GenericTools.h"

#include <cctype>
#include <cstdint>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
std::string toolText(const std::vector<Tool> &tools, bool isRequired) {
  std::string text = "# Tools\n\nEach line is a tool that you may call, as "
                     "JSON with its name, its purpose and the JSON schema of "
                     "its arguments:\n";
  for (const Tool &tool : tools) {
    Json json = {{"name", tool.name},
                 {"description", tool.description},
                 {"parameters", tool.parameters}};
    text += json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  text += "To call one, write its name and its arguments as JSON between these "
          "marks, for each call anew:\n<tool_call>\n{\"name\": \"NAME\", "
          "\"arguments\": {}}\n</tool_call>\nIts answer comes between "
          "<tool_response> and </tool_response>.";
  return text + (isRequired ? " Answer with a call and nothing else."
                            : " If no tool helps, answer without a call.");
}

/// The text of a message, which may be a list of parts.
std::string contentOf(const Json &message) {
  const Json content = message.value("content", Json());
  if (content.is_string())
    return content;
  std::string text;
  for (const Json &part : content)
    if (part.is_object() && part.contains("text") && part["text"].is_string())
      text += part["text"];
  return text;
}

/// Calls as the model would have written them.
std::string callText(const Json &calls) {
  std::string text;
  for (const Json &call : calls) {
    if (!call.is_object() || !call.contains("function"))
      continue;
    const Json &function = call["function"];
    const Json arguments = function.value("arguments", Json::object());
    Json name = function.value("name", Json(""));
    text += fmt::format(
        "{}<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
        text.empty() ? "" : "\n", name.dump(),
        arguments.is_string() ? arguments.get<std::string>()
                              : arguments.dump());
  }
  return text;
}

std::string joined(std::string text, const std::string &more,
                   const char *between) {
  if (text.empty() || more.empty())
    return text + more;
  return text + between + more;
}
/// Whether a template reads the variable `tools`.
bool readsTools(std::string_view source) {
  constexpr std::string_view name = "tools";
  auto isInName = [&](size_t at) {
    return at < source.size() &&
           (isalnum(uint8_t(source[at])) || source[at] == '_');
  };
  for (size_t at = source.find(name); at != source.npos;
       at = source.find(name, at + 1))
    if ((at == 0 || !isInName(at - 1)) && !isInName(at + name.size()))
      return true;
  return false;
}
} // namespace

bool needsGenericTools(std::string_view source) {
  return !toolFormatOf(source) || !readsTools(source);
}

const ToolFormat &genericToolFormat() {
  static constexpr ToolFormat format = {.name = "generic",
                                        .sign = "",
                                        .body = ToolFormat::Body::Json,
                                        .open = "<tool_call>\n",
                                        .close = "\n</tool_call>",
                                        .between = "\n"};
  return format;
}

Messages withGenericTools(Messages messages, const std::vector<Tool> &tools,
                          const GenericToolOptions &options) {
  messages.variables().erase("tools");
  Json list = Json::array();
  bool wasTool = false;
  for (Json &message : messages.list()) {
    const Json role = message.value("role", Json());
    if (role == "tool") {
      std::string answer =
          "<tool_response>\n" + contentOf(message) + "\n</tool_response>";
      // The answers to calls of one message are one message.
      if (wasTool)
        list.back()["content"] = joined(list.back()["content"], answer, "\n");
      else
        list.push_back({{"role", "user"}, {"content", answer}});
      wasTool = true;
      continue;
    }
    if (role == "user" && wasTool) {
      list.back()["content"] =
          joined(list.back()["content"], contentOf(message), "\n");
      wasTool = false;
      continue;
    }
    wasTool = false;
    if (message.contains("tool_calls")) {
      message["content"] =
          joined(contentOf(message), callText(message["tool_calls"]), "\n");
      message.erase("tool_calls");
    }
    list.push_back(std::move(message));
  }
  messages.list() = std::move(list);

  std::string text = toolText(tools, options.isRequired);
  Json &all = messages.list();
  bool hasSystem = !all.empty() && all[0]["role"] == "system";
  if (hasSystem) {
    text = joined(contentOf(all[0]), text, "\n\n");
    if (options.isInUserMessage)
      all.erase(0);
  }
  if (!options.isInUserMessage) {
    messages.setSystem(text);
  } else if (!all.empty() && all[0]["role"] == "user") {
    all[0]["content"] = joined(text, contentOf(all[0]), "\n\n");
  } else {
    all.insert(all.begin(), {{"role", "user"}, {"content", text}});
  }
  return messages;
}

} // namespace moert
