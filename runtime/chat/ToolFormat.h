//===- ToolFormat.h - How models write calls of tools -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_TOOLFORMAT_H
#define MOE_RUNTIME_CHAT_TOOLFORMAT_H

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

class Tokenizer;

/// A function that a model may call.
struct Tool {
  std::string name;
  std::string description = {};
  /// The JSON schema of its arguments: an object; {} allows all objects.
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  /// Whether arguments that the schema does not allow must be impossible.
  bool isStrict = false;
};

/// How a model writes calls. Marks have the white space that models write
/// around them; a parser ignores it. Marks that are "" do not exist.
struct ToolFormat {
  enum class Body {
    Json,      ///< An object with the name and the arguments.
    JsonList,  ///< A list of such objects.
    NamedJson, ///< The name, then an object of arguments.
    NamedBare, ///< The same, whose keys have no quotes (BareJson.h).
    Tagged,    ///< The name, then each parameter between marks.
    Keywords,  ///< A call as Python writes it: NAME(KEY='text', KEY=3).
  };
  std::string name = {};
  Body body = Body::Json;
  std::string sectionOpen = {}, sectionClose = {}; ///< Marks around all calls.
  std::string open = {}, close = {};               ///< Marks around each call.
  std::string between = {};                        ///< Text between two calls.
  std::string nameClose = {}; ///< Text after the name; not used by Json.
  /// If it exists, attributes may stand between nameClose and it; a model
  /// writes `attributes`, in which kNumber stands for the call's number.
  std::string headEnd = {}, attributes = {};
  /// Between a name and the call's id after it, or between an id and the name
  /// after it.
  std::string idOpen = {}, idClose = {};
  /// For Json: the members that have the name, the arguments, and the id, which
  /// stands before the name or after the arguments; "" if there is none.
  /// Without a nameKey the name is the only member, and the arguments are its
  /// value.
  std::string nameKey = "name", argumentsKey = "arguments", idKey = {};
  bool idIsFirst = false;
  /// For Tagged: texts around a parameter's name and around its value.
  /// Attributes may stand before valueOpen. In parameterClose, kKey stands for
  /// the name.
  std::string parameterOpen = {}, parameterNameClose = {};
  std::string valueOpen = {}, parameterClose = {};
  /// For Tagged: marks around a value that is text, where a model may write it
  /// so ("<![CDATA[").
  std::string textOpen = {}, textClose = {};
  /// For Tagged: the attributes of a value, by its JSON type.
  std::map<std::string, std::string> typeAttributes = {};
  /// For Tagged: how values that are no strings are written.
  enum class Values {
    Json,
    Python, ///< Values are Python's literals (ValueText.h), or JSON.
    Nested, ///< Parameters of objects and lists nest (NestedValue.h).
  };
  Values values = Values::Json;
  /// Whether a call's name is its id, too: "functions.f:0".
  bool nameIsId = false;
  bool isBare = false; ///< Whether a reply that is one object may be a call.

  static constexpr char kKey = '\x01', kNumber = '\x02';

  /// Returns the text that ends the value of this parameter.
  std::string closeOf(std::string_view parameter) const;
  /// Returns the mark that begins the calls of a reply: sectionOpen or open.
  const std::string &firstMark() const {
    return sectionOpen.empty() ? open : sectionOpen;
  }
  /// For JsonList: whether sectionOpen ends with the bracket that opens the
  /// list. It does if nothing else tells the mark from a word of a text.
  bool opensList() const { return sectionOpen.ends_with('['); }
  /// The attributes of a value of this JSON type; "" if it has none.
  std::string attributesOf(const std::string &type) const;
};

/// Returns the forms known from families of models whose marks are in `text`,
/// which is what a prompt tells the model of its tools; the likeliest first.
/// Forms that no prompt tells are known by the control tokens that models have
/// for them.
std::vector<ToolFormat> knownToolFormats(std::string_view text,
                                         const Tokenizer &tokenizer);
/// The form of this name; null if there is none.
const ToolFormat *toolFormatNamed(std::string_view name);

/// `text` with the names of control tokens as controlBytes() of
/// StreamDecoder.h, up to the first token that ends generation.
std::string withControls(std::string_view text, const Tokenizer &tokenizer);
/// The form with withControls() of all its marks.
ToolFormat withControls(ToolFormat format, const Tokenizer &tokenizer);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_TOOLFORMAT_H
