#include "runtime/chat/GenericTools.h"

#include "runtime/chat/History.h"

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
} // namespace

const ToolFormat &genericToolFormat() {
  static const ToolFormat format = {.name = "generic",
                                    .body = ToolFormat::Body::Json,
                                    .open = "<tool_call>\n",
                                    .close = "\n</tool_call>",
                                    .between = "\n"};
  return format;
}

Messages withGenericTools(Messages messages, const std::vector<Tool> &tools,
                          bool isRequired) {
  messages.variables().erase("tools");
  messages = withCallsAsText(std::move(messages));
  Json &list = messages.list();
  std::string text = toolText(tools, isRequired);
  if (!list.empty() && list[0]["role"] == "system")
    text = list[0]["content"].get<std::string>() + "\n\n" + text;
  messages.setSystem(text);
  return messages;
}

} // namespace moert
