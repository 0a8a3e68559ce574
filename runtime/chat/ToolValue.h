//===- ToolValue.h - Values of a tool's parameters --------------*- C++ -*-===//

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

/// Whether the schema of a tool's parameter allows strings alone.
bool parameterIsString(const std::vector<Tool> &tools, std::string_view tool,
                       std::string_view parameter);

/// A parameter's value, written as plain text, as JSON: of the types that its
/// schema allows the one that the text is, and a string if it is none of them.
std::string parameterJson(const std::vector<Tool> &tools, std::string_view tool,
                          std::string_view parameter, std::string_view text);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_TOOLVALUE_H
