//===- JsonSchema.h - JSON schemas as grammars ------------------*- C++ -*-===//
//
// Translates a JSON schema (draft 2020-12, with the spellings of older drafts
// and OpenAPI's nullable) into the grammar of the JSON texts that it accepts:
// members in any order, strings in every spelling, integers such as 15, 15.0
// and 1.5e1, white space of up to 128 characters and 8 line ends wherever JSON
// allows it. Numbers are held to bounds and multipleOf in every digit, as
// decimals (NumberScanner.h says which spellings are left out); a bound that
// is no integer of 64 bits is the shortest decimal of the double that it is
// read as.
//
// One thing is not as JSON Schema has it: an object whose schema has
// `properties` and no `additionalProperties` has no other members but required
// ones. Models that are free to add some do.
//
// Types, properties, patternProperties, required, items, lengths, counts,
// patterns, formats, bounds, multipleOf, enum, const, anyOf, allOf and $ref
// lead the text: what cannot become valid is never begun. oneOf, not, if,
// uniqueItems, contains, dependentRequired and the like lead as far as a
// grammar can; then they are checked where the value would end
// (SchemaValidator.h). Annotations and unknown words have no effect.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_JSONSCHEMA_H
#define MOE_RUNTIME_CONSTRAIN_JSONSCHEMA_H

#include "runtime/base/Deadline.h"
#include "runtime/constrain/Grammar.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace moert {

struct JsonTextOptions {
  /// Whether white space may be between the parts of a text.
  bool hasSpaces = true;
  enum class Notation : uint8_t {
    Json,
    /// Python's spellings beside JSON's: True, False, None, and strings in
    /// single quotes.
    Python,
    /// Strings are plain text between two of any of `quotes`, names of members
    /// are plain text, and True, False and None stand beside JSON's words.
    Bare,
  };
  Notation notation = Notation::Json;
  std::vector<std::string> quotes = {};
  /// Converts a text of another notation to JSON, for what has to be checked.
  std::optional<std::string> (*toJson)(std::string_view text) = nullptr;
};

/// Returns the grammar of JSON texts that `schema` accepts. Fails with Usage;
/// the message has the JSON pointer of what is wrong or cannot be held, or says
/// that the deadline has passed.
StatusOr<Grammar> parseJsonSchema(const nlohmann::ordered_json &schema,
                                  const JsonTextOptions &options = {},
                                  const Deadline &deadline = {});

/// Adds the strings that `schema` accepts, as plain text without quotes and
/// escapes, in which `end`, if it is not "", is nowhere: for texts between
/// marks. Absent if it accepts no string. Fails as parseJsonSchema() does.
StatusOr<std::optional<ExprId>>
addPlainText(Grammar &grammar, const nlohmann::ordered_json &schema,
             std::string_view end, const Deadline &deadline = {});

/// Adds any text in which `mark`, if it is not "", is nowhere.
ExprId addTextWithout(Grammar &grammar, std::string_view mark);

/// Returns the grammar of all JSON objects.
Grammar jsonObjects(const JsonTextOptions &options = {});

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_JSONSCHEMA_H
