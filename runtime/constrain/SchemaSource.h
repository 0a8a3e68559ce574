//===- SchemaSource.h - JSON schemas in one form ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_SCHEMASOURCE_H
#define MOE_RUNTIME_CONSTRAIN_SCHEMASOURCE_H

#include "runtime/base/Deadline.h"
#include "runtime/base/Status.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace moert {

/// A schema whose keywords have been checked, in the form of draft 2020-12, of
/// whatever draft it was. It is a boolean or has only keywords that limit
/// values, of which these have one form: `type`, `pattern`, `format` and
/// `multipleOf` are lists, `const` is an `enum`, `nullable` a type, `items` is
/// what follows `prefixItems`.
struct SchemaSource {
  nlohmann::json root;
  /// The schemas that `$ref` names, by its text.
  std::map<std::string, nlohmann::json> references;

  /// Fails with Usage; the message has the JSON pointer of what is wrong.
  static StatusOr<SchemaSource> read(const nlohmann::ordered_json &schema,
                                     const Deadline &deadline = {});
};

/// The name of the work, for the error when a deadline passes
/// (Deadline::check).
inline constexpr std::string_view kCompilingSchema = "compiling the schema";

/// Returns Usage for a place in a schema, a JSON pointer without its #.
Status schemaError(std::string_view pointer, std::string_view message);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_SCHEMASOURCE_H
