//===- ToolValue.h - Values of a tool's parameters --------------*- C++ -*-===//
//
// Where a form writes parameters between marks, strings are plain text and
// other values are JSON. What a parameter's schema says decides which of them a
// value is; mask, parser and prompt all ask here.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_TOOLVALUE_H
#define MOE_RUNTIME_CHAT_TOOLVALUE_H

#include "runtime/chat/ToolFormat.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The inside of a JSON string whose value is `text`. Works on any piece of a
/// text, even of a character.
std::string jsonEscaped(std::string_view text);

/// The value of a JSON string with its quotes; "" if it is none.
std::string stringOf(std::string_view json);

/// `text` without comments and white space, if it is a JSON object of bounded
/// depth.
std::optional<std::string> objectText(std::string_view text);

/// The schema of a tool's parameter; null, which allows all values, if the
/// tool, or the parameter, has none.
const nlohmann::ordered_json &parameterSchema(const std::vector<Tool> &tools,
                                              std::string_view tool,
                                              std::string_view parameter);
/// The whole schema of a tool, to which references in it are; null if there is
/// no such tool.
const nlohmann::ordered_json &toolSchema(const std::vector<Tool> &tools,
                                         std::string_view tool);

/// The values that are allowed.
struct ValueTypes {
  /// The names of JSON's types; empty: all.
  std::vector<std::string> types;
  /// The only values; empty: all of the types.
  std::vector<nlohmann::ordered_json> values;

  bool allows(std::string_view type) const;
  /// Whether a value is text whatever it looks like: any string is allowed, and
  /// nothing else.
  bool isText() const { return values.empty() && isString; }
  bool isString = false; ///< The schema says {"type": "string"}.
};
ValueTypes valueTypes(const nlohmann::ordered_json &schema,
                      const nlohmann::ordered_json &root);

/// Returns JSON for a value that was written as plain text: the text itself if
/// it is JSON of a value or type that the schema allows, else the text as a
/// string.
std::string valueJson(const nlohmann::ordered_json &schema,
                      const nlohmann::ordered_json &root,
                      std::string_view text);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_TOOLVALUE_H
