#include "runtime/chat/ToolValue.h"

#include "runtime/base/JsonPlace.h"
#include "runtime/chat/JsonScanner.h"

#include <fmt/format.h>
#include <set>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
std::optional<Json> parsed(std::string_view text) {
  StatusOr<Json> json = parseJson("", text, int(JsonScanner::kMostNesting));
  return json ? std::optional(*std::move(json)) : std::nullopt;
}

const Json *schemaOf(const std::vector<Tool> &tools, std::string_view name,
                     std::string_view parameter) {
  for (const Tool &tool : tools) {
    if (tool.name != name || !tool.parameters.is_object() ||
        !tool.parameters.contains("properties"))
      continue;
    const Json &properties = tool.parameters["properties"];
    if (properties.is_object() && properties.contains(parameter))
      return &properties[std::string(parameter)];
  }
  return nullptr;
}

/// The names of the types that a schema allows; none if it does not say.
std::set<std::string> typesOf(const Json *schema) {
  std::set<std::string> types;
  if (!schema || !schema->is_object())
    return types;
  auto add = [&](const Json &type) {
    if (type.is_string())
      types.insert(type.get<std::string>());
  };
  if (auto type = schema->find("type"); type != schema->end()) {
    if (type->is_array())
      for (const Json &item : *type)
        add(item);
    else
      add(*type);
  }
  for (const char *key : {"anyOf", "oneOf"})
    if (auto list = schema->find(key);
        list != schema->end() && list->is_array())
      for (const Json &item : *list)
        types.merge(typesOf(&item));
  if (auto values = schema->find("enum");
      types.empty() && values != schema->end() && values->is_array())
    for (const Json &value : *values)
      types.insert(value.is_string() ? "string" : value.type_name());
  return types;
}

bool isOfType(const Json &value, const std::set<std::string> &types) {
  if (types.empty() || types.contains(value.type_name()))
    return true;
  return value.is_number_integer() && types.contains("integer");
}
} // namespace

std::string jsonEscaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '"':
      result += "\\\"";
      break;
    case '\\':
      result += "\\\\";
      break;
    case '\n':
      result += "\\n";
      break;
    case '\r':
      result += "\\r";
      break;
    case '\t':
      result += "\\t";
      break;
    default:
      if (uint8_t(c) < 0x20)
        result += fmt::format("\\u{:04x}", uint8_t(c));
      else
        result += c;
    }
  }
  return result;
}

std::string stringOf(std::string_view json) {
  std::optional<Json> value = parsed(json);
  return value && value->is_string() ? value->get<std::string>()
                                     : std::string();
}

std::optional<std::string> objectText(std::string_view text) {
  std::optional<Json> value = parsed(text);
  if (!value || !value->is_object())
    return std::nullopt;
  return value->dump();
}

bool parameterIsString(const std::vector<Tool> &tools, std::string_view tool,
                       std::string_view parameter) {
  return typesOf(schemaOf(tools, tool, parameter)) ==
         std::set<std::string>{"string"};
}

std::string parameterJson(const std::vector<Tool> &tools, std::string_view tool,
                          std::string_view parameter, std::string_view text) {
  std::set<std::string> types = typesOf(schemaOf(tools, tool, parameter));
  // Templates that print values as Python does taught models these words.
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}};
  std::optional<Json> value = parsed(text);
  for (auto [python, json] : words)
    if (text == python && !types.contains("string"))
      value = Json::parse(json);
  if (value && isOfType(*value, types))
    return value->dump();
  return "\"" + jsonEscaped(text) + "\"";
}

} // namespace moert
