//===- SchemaChecks.h - Checks of whole values ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_SCHEMACHECKS_H
#define MOE_RUNTIME_CONSTRAIN_SCHEMACHECKS_H

#include "runtime/constrain/Decimal.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/SchemaValidator.h"
#include "runtime/constrain/TextScanner.h"

#include <memory>
#include <string>
#include <vector>

namespace moert {

/// The text of a schema, whatever bytes its strings have.
std::string schemaText(const nlohmann::json &schema);

/// A check that judges whole values.
std::shared_ptr<const TextCheck>
valueCheck(std::shared_ptr<const SchemaValidator> validator,
           const nlohmann::json &schema, const JsonTextOptions &options);
/// A check of numbers that have more digits than a scanner keeps; `words` is
/// multipleOf.
std::shared_ptr<const TextCheck>
multipleCheck(const std::vector<Decimal> &divisors,
              const nlohmann::json &words);
/// A check that judges strings that are written as they are, by the
/// validator's whole schema, whose text `key` is.
std::shared_ptr<const TextCheck>
plainCheck(std::shared_ptr<const SchemaValidator> validator,
           const std::string &key);
/// A check of a list so far, whose last item is complete: it is in it once.
std::shared_ptr<const TextCheck> uniqueCheck(const JsonTextOptions &options);

/// A keyword's number of items, characters or members; kUnbounded if it is too
/// large to matter.
int32_t schemaCount(const nlohmann::json &words, const char *name,
                    int32_t absent);

/// What keywords say about strings. `isExact` becomes false if a check has to
/// judge them, too.
StatusOr<TextRules> textRules(const nlohmann::json &words, bool &isExact);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_SCHEMACHECKS_H
