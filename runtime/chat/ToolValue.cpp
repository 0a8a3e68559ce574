#include "runtime/chat/ToolValue.h"

#include "runtime/base/JsonPlace.h"
#include "runtime/chat/JsonScanner.h"
#include "runtime/chat/ValueText.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
std::optional<Json> parsed(std::string_view text) {
  StatusOr<Json> json = parseJson("", text, int(JsonScanner::kMostNesting));
  return json ? std::optional(*std::move(json)) : std::nullopt;
}

constexpr int kMostReferences = 16;

/// The schema that "#/..." names; null if there is none.
const Json *referenced(const Json &reference, const Json &root) {
  if (!reference.is_string() ||
      !reference.get_ref<const std::string &>().starts_with("#"))
    return nullptr;
  try {
    Json::json_pointer pointer(
        reference.get_ref<const std::string &>().substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const Json::exception &) { // For example, an index is no number.
    return nullptr;
  }
}

void addTypes(const Json &schema, const Json &root, int depth,
              std::set<std::string> &types, std::vector<Json> &values,
              bool &isOpen) {
  if (!schema.is_object() || depth > kMostReferences) {
    isOpen = true;
    return;
  }
  if (auto it = schema.find("$ref"); it != schema.end()) {
    const Json *other = referenced(*it, root);
    return other ? addTypes(*other, root, depth + 1, types, values, isOpen)
                 : void(isOpen = true);
  }
  if (auto it = schema.find("const"); it != schema.end()) {
    values.push_back(*it);
    types.insert(it->type_name());
    return;
  }
  if (auto it = schema.find("enum"); it != schema.end() && it->is_array()) {
    for (const Json &value : *it) {
      values.push_back(value);
      types.insert(value.type_name());
    }
    return;
  }
  for (const char *key : {"anyOf", "oneOf", "allOf"})
    if (auto it = schema.find(key);
        it != schema.end() && it->is_array() && !it->empty()) {
      for (const Json &item : *it)
        addTypes(item, root, depth + 1, types, values, isOpen);
      return;
    }
  auto type = schema.find("type");
  if (type == schema.end()) {
    isOpen = true;
    return;
  }
  // Values of a type without values of its own are all allowed.
  for (const Json &name : type->is_array() ? *type : Json::array({*type}))
    if (name.is_string())
      types.insert(name.get<std::string>());
  if (schema.value("nullable", Json(false)) == true)
    types.insert("null");
}

/// JSON text without white space around it, if `text` is a value that the types
/// allow.
std::optional<std::string> written(const ValueTypes &allowed,
                                   std::string_view text) {
  std::optional<Json> value = parsed(text);
  if (!value || !Json::accept(text))
    return std::nullopt;
  if (!allowed.values.empty())
    return std::ranges::find(allowed.values, *value) != allowed.values.end()
               ? std::optional<std::string>(text)
               : std::nullopt;
  // Whole numbers may have more than 64 bits, or a fraction of zero.
  const bool isInteger =
      value->is_number() && allowed.allows("integer") &&
      std::trunc(value->get<double>()) == value->get<double>();
  return isInteger || allowed.allows(value->type_name())
             ? std::optional<std::string>(text)
             : std::nullopt;
}
} // namespace

bool ValueTypes::allows(std::string_view type) const {
  return types.empty() || std::ranges::find(types, type) != types.end();
}

ValueTypes valueTypes(const Json &schema, const Json &root) {
  std::set<std::string> types;
  ValueTypes result;
  bool isOpen = false;
  addTypes(schema, root, 0, types, result.values, isOpen);
  if (isOpen) {
    result.values.clear();
    return result;
  }
  // A constant beside a type is one of its values.
  auto isConstant = [&](const std::string &type) {
    return std::ranges::any_of(result.values, [&](const Json &value) {
      return value.type_name() == type;
    });
  };
  if (!std::ranges::all_of(types, isConstant))
    result.values.clear();
  result.types.assign(types.begin(), types.end());
  result.isString = schema.is_object() && schema.contains("type") &&
                    schema["type"] == "string" && types.size() == 1;
  return result;
}

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

const Json &toolSchema(const std::vector<Tool> &tools, std::string_view name) {
  static const Json none;
  auto it = std::ranges::find(tools, name, &Tool::name);
  return it == tools.end() ? none : it->parameters;
}

const Json &parameterSchema(const std::vector<Tool> &tools,
                            std::string_view tool, std::string_view parameter) {
  static const Json none;
  const Json &schema = toolSchema(tools, tool);
  if (!schema.is_object())
    return none;
  auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object())
    return none;
  auto it = properties->find(std::string(parameter));
  return it == properties->end() ? none : *it;
}

std::string valueJson(const Json &schema, const Json &root,
                      std::string_view text) {
  const ValueTypes allowed = valueTypes(schema, root);
  const std::string asText = "\"" + jsonEscaped(text) + "\"";
  if (allowed.isText())
    return asText;
  // If only constants are allowed, a text that is equal to one stands for it.
  if (!allowed.values.empty())
    if (auto value = written(allowed, asText))
      return *value;
  const size_t first = text.find_first_not_of(" \t\r\n");
  std::string_view inner =
      first == text.npos
          ? std::string_view()
          : text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
  if (auto value = written(allowed, inner))
    return *value;
  // Templates that print values as Python does taught models its notation.
  if (!allowed.types.empty() && !allowed.allows("string"))
    if (std::optional<std::string> json = jsonOfPython(inner))
      if (auto value = written(allowed, *json))
        return *value;
  const bool mayBeNull = !allowed.types.empty() && allowed.allows("null");
  if (mayBeNull &&
      (inner == "None" || (inner.empty() && !allowed.allows("string"))))
    return "null";
  return asText;
}

} // namespace moert
