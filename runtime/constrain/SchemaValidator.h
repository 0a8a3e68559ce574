//===- SchemaValidator.h - Whether a schema accepts a value -----*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_SCHEMAVALIDATOR_H
#define MOE_RUNTIME_CONSTRAIN_SCHEMAVALIDATOR_H

#include "runtime/constrain/Regex.h"
#include "runtime/constrain/SchemaSource.h"

#include <mutex>
#include <set>

namespace moert {

/// Judges whole values as JSON Schema (draft 2020-12) does, formats included:
/// objects are not closed where it does not say so. A number that is no integer
/// of 64 bits is the shortest decimal of its double. Threads may share it.
class SchemaValidator {
public:
  explicit SchemaValidator(SchemaSource source) : source_(std::move(source)) {}

  /// `schema` has the form of SchemaSource; its references are those of the
  /// source.
  bool accepts(const nlohmann::json &schema,
               const nlohmann::json &value) const {
    int64_t left = kMostCalls;
    return accepts(schema, value, Call{0, &left});
  }
  const SchemaSource &source() const { return source_; }

private:
  using Json = nlohmann::json;
  /// Schemas that are asked about values and what is inside them. Of a value
  /// that needs more the answer is no.
  static constexpr int64_t kMostCalls = 2'000'000;
  /// Depth of a question, and number of questions that may still be asked.
  struct Call {
    int depth;
    int64_t *left;
    Call operator+(int more) const { return {depth + more, left}; }
  };

  bool accepts(const Json &schema, const Json &value, Call call) const;
  bool acceptsNumber(const Json &schema, const Json &value) const;
  bool acceptsText(const Json &schema, const std::string &text) const;
  bool acceptsList(const Json &schema, const Json &value, Call call) const;
  bool acceptsObject(const Json &schema, const Json &value, Call call) const;
  bool acceptsCombined(const Json &schema, const Json &value, Call call) const;
  bool matches(const std::string &pattern, const std::string &text) const;

  /// Adds the members and items that unevaluatedProperties and unevaluatedItems
  /// do not apply to.
  void addEvaluated(const Json &schema, const Json &value, Call call,
                    std::set<std::string> &names) const;
  void addEvaluated(const Json &schema, const Json &value, Call call,
                    std::set<size_t> &items) const;
  /// Calls `visit` for the schemas inside this one that describe the same value
  /// and accept it.
  template <class Visit>
  void visitAccepting(const Json &schema, const Json &value, Call call,
                      Visit visit) const;

  SchemaSource source_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Pattern>> patterns_;
};

/// Whether two values are equal, as JSON Schema has it: numbers by their value.
bool areEqual(const nlohmann::json &one, const nlohmann::json &two);

/// Whether no two items of a list are equal.
bool areUnique(const nlohmann::json &list);

/// Whether a value is of a type, such as "integer".
bool isOfType(const nlohmann::json &value, std::string_view type);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_SCHEMAVALIDATOR_H
