//===- SchemaMerge.h - Schemas without combinations -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_SCHEMAMERGE_H
#define MOE_RUNTIME_CONSTRAIN_SCHEMAMERGE_H

#include "runtime/constrain/SchemaSource.h"

#include <vector>

namespace moert {

/// Schemas of which a value satisfies one. None of them is a boolean or has
/// $ref, allOf, anyOf, oneOf, not, if, or a keyword that depends on others.
struct MergedSchema {
  std::vector<nlohmann::json> ways;
  /// Every value that a way accepts is one that the schema accepts. Otherwise
  /// they accept more.
  bool isExact = true;
};

/// Whether a schema has keywords that mergedSchema() looks into; otherwise it
/// is itself the only way.
bool isCombined(const nlohmann::json &schema);

/// Merges what a schema (SchemaSource) combines: the keywords of allOf are
/// those of one schema, those of anyOf and oneOf of several ones. Fails with
/// Usage once the deadline has passed.
StatusOr<MergedSchema> mergedSchema(const nlohmann::json &schema,
                                    const SchemaSource &source,
                                    const Deadline &deadline);

/// Follows references that have nothing beside them. Null if that ends at a
/// boolean, or does not end.
const nlohmann::json *resolved(const nlohmann::json &schema,
                               const SchemaSource &source);

/// Whether it is certain that no value satisfies two of these schemas.
bool areDisjoint(const nlohmann::json &schemas, const SchemaSource &source);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_SCHEMAMERGE_H
