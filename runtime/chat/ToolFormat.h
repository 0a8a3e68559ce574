//===- ToolFormat.h - How models write calls of tools -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_TOOLFORMAT_H
#define MOE_RUNTIME_CHAT_TOOLFORMAT_H

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace moert {

/// A function that a model may call.
struct Tool {
  std::string name;
  std::string description = {};
  /// The JSON schema of its arguments: an object; {} allows all objects.
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  /// Whether arguments that the schema does not allow must be impossible.
  bool isStrict = false;
};

/// How a family of templates writes calls. Marks have the white space that
/// models write around them; a parser ignores it. Marks that are "" do not
/// exist.
struct ToolFormat {
  enum class Body {
    Json,      ///< An object with the name and the arguments.
    JsonList,  ///< A list of such objects.
    NamedJson, ///< The name, then an object of arguments.
    Tagged,    ///< The name, then each parameter between marks.
  };
  std::string_view name;
  /// Texts that a template of the family has: both of them.
  std::string_view sign, otherSign = "";
  Body body;
  std::string_view sectionOpen = "", sectionClose = ""; ///< Around all calls.
  std::string_view open = "", close = "";               ///< Around each call.
  std::string_view otherOpen = ""; ///< Another one that models write.
  std::string_view between = "";   ///< Between two calls.
  std::string_view nameClose = ""; ///< After the name; not of Json.
  /// Of Json: the member that has the arguments.
  std::string_view argumentsKey = "arguments";
  /// Of Tagged: around a parameter's name and around its value. Attributes may
  /// stand before valueOpen.
  std::string_view parameterOpen = "", parameterNameClose = "";
  std::string_view valueOpen = "", parameterClose = "";
  /// Of Tagged: attributes of values that are strings and of others.
  std::string_view stringAttribute = "", otherAttribute = "";
  /// A mark that is no part of a reply and begins no call.
  std::string_view dropped = "";
  bool nameIsId = false; ///< A call's name is its id too: "functions.f:0".
  bool isBare = false;   ///< A reply that is an object may be a call.
};

/// The form that a chat template describes; null if it describes none.
const ToolFormat *toolFormatOf(std::string_view templateSource);
/// The form of this name; null if there is none.
const ToolFormat *toolFormatNamed(std::string_view name);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_TOOLFORMAT_H
