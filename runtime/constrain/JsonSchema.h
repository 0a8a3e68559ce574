//===- JsonSchema.h - JSON schemas as grammars ------------------*- C++ -*-===//
//
// Translates a JSON schema (draft 2020-12) into a grammar of JSON texts, every
// one of which the schema accepts. It does not hold the other way round: of the
// texts of a value the grammar has one form. Members come in the order of
// `properties`, then additional ones; numbers of integer type have no fraction
// and no exponent; white space is at most a line break with indentation, or a
// blank.
//
// Nothing is ignored: a keyword that limits values and is not supported is an
// error that names its place. Annotations (title, description, default,
// examples, ...) limit nothing.
//
// supported                       | how
// --------------------------------|------------------------------------------
// true, false, {}                 | false only where a member or item is absent
// type, a name or a list          |
// enum, const                     | their texts as they are
// anyOf                           |
// oneOf                           | if no value fits two: distinct types, or a
//                                 | required member with distinct constants
// allOf                           | if it has one schema
// $ref to "#", "#/..."            | also recursive
// properties, required,           | a required name that has no schema is an
//   additionalProperties          |   additional one; with properties and
//   without
//                                 |   additionalProperties there are no others
// items, prefixItems, minItems,   |
//   maxItems                      |
// minLength, maxLength, pattern   | pattern alone, or lengths
// format                          | date, time, date-time, uuid, ipv4
// minimum, maximum, and           | of integers
//   exclusive ones                |
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_JSONSCHEMA_H
#define MOE_RUNTIME_CONSTRAIN_JSONSCHEMA_H

#include "runtime/constrain/Grammar.h"

#include <nlohmann/json.hpp>

namespace moert {

struct JsonTextOptions {
  /// Whether white space may be between the parts of a text. Without it the
  /// text is as short as can be.
  bool hasSpaces = true;
};

/// Returns the grammar of JSON texts that `schema` accepts. Fails with Usage;
/// the message has the JSON pointer of what is wrong or not supported.
StatusOr<Grammar> parseJsonSchema(const nlohmann::ordered_json &schema,
                                  const JsonTextOptions &options = {});

/// Returns the grammar of all JSON objects.
Grammar jsonObjects(const JsonTextOptions &options = {});

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_JSONSCHEMA_H
