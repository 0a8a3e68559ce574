#include "runtime/serve/api/ReplyWriter.h"

#include <fmt/format.h>

namespace moert {

std::optional<nlohmann::ordered_json>
argumentsObject(const std::string &arguments) {
  auto json = nlohmann::ordered_json::parse(arguments, nullptr,
                                            /*allow_exceptions=*/false);
  if (!json.is_object())
    return std::nullopt;
  return json;
}

std::string customInput(const std::string &arguments) {
  if (auto json = argumentsObject(arguments); json && json->contains("input"))
    if (const auto &input = (*json)["input"]; input.is_string())
      return input;
  return arguments;
}

std::string sseEvent(const nlohmann::ordered_json &data,
                     std::string_view event) {
  std::string name = event.empty() ? "" : fmt::format("event: {}\n", event);
  return fmt::format("{}data: {}\n\n", name, jsonText(data));
}

} // namespace moert
