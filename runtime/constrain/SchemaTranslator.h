//===- SchemaTranslator.h - From a JSON schema to a grammar -----*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_SCHEMATRANSLATOR_H
#define MOE_RUNTIME_CONSTRAIN_SCHEMATRANSLATOR_H

#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/JsonText.h"
#include "runtime/constrain/SchemaValidator.h"

#include <memory>
#include <optional>
#include <unordered_map>

namespace moert {

/// Makes the grammar of one schema, for parseJsonSchema().
class SchemaTranslator {
public:
  SchemaTranslator(SchemaSource source, const JsonTextOptions &options,
                   const Deadline &deadline)
      : deadline_(deadline),
        validator_(std::make_shared<const SchemaValidator>(std::move(source))),
        options_(options), text_(grammar_, options) {}

  /// Fails with Usage; the message has the JSON pointer of what cannot be held,
  /// or says that the deadline has passed.
  StatusOr<Grammar> run();

private:
  using Json = nlohmann::json;
  /// An empty optional stands for a schema that no value satisfies.
  using MaybeExpr = std::optional<ExprId>;
  using Result = StatusOr<MaybeExpr>;

  const SchemaSource &source() const { return validator_->source(); }

  /// The alternatives for a value.
  struct Ways {
    std::vector<ExprId> exprs;
    std::vector<const Json *> constants;
    /// However many there are, they are one series.
    std::vector<JsonText::Variant> objects;
  };

  /// Translates a schema into a rule, once for all places where it is.
  Result translate(const Json &schema, int depth);
  Result translateNew(const Json &schema, int depth);
  Result choice(Ways ways);
  MaybeExpr choice(const std::vector<ExprId> &ways);
  Result anyOf(const Json &schemas, int depth);
  /// Returns the JSON pointer to the first part of the schema that is equal to
  /// `value`, or "" if no part is.
  std::string pointerTo(const Json &value) const;
  static std::optional<Json::json_pointer>
  pointerTo(const Json &value, const Json &in, const Json::json_pointer &at);
  static Status add(Ways &ways, Result way);
  /// Adds a schema without combinations.
  Status addWay(Ways &ways, const Json &words, int depth);
  MaybeExpr checked(MaybeExpr expr, const Json &schema);
  /// Translates a schema without combinations.
  Result translateWords(const Json &words, int depth);
  Result translateType(const std::string &type, const Json &words, int depth);

  // Constants, strings, numbers and lists.
  /// Those of the constants that satisfy the other keywords.
  Result constants(const Json &words);
  ExprId anyConstant(const std::vector<const Json *> &values);
  Result translateText(const Json &words);
  Result translateNumber(const Json &words, bool isInteger);
  Result translateList(const Json &words, int depth);

  // Objects (SchemaObjects.cpp).
  /// What an object may be, while it is put together.
  struct ObjectParts {
    std::vector<JsonText::Member> members;
    std::vector<JsonText::Rest> rest;
    std::vector<std::pair<Pattern, const Json *>> patterns;
    /// Names of members that have their own schema.
    std::vector<std::string> known;
    int32_t least = 0, most = Expr::kUnbounded;
    bool isExact = true;

    /// The schema of members with other names, if there is no more to check.
    std::optional<ExprId> others;

    /// Whether members and others are all that is to be looked at.
    bool isPlain() const {
      return isExact && rest.size() == size_t(others.has_value()) &&
             (!others || known.size() == members.size()) && least == 0 &&
             most == Expr::kUnbounded;
    }
  };

  Result translateObject(const Json &words, int depth);
  ExprId objectOf(const ObjectParts &parts, const Json &words);
  /// Absent: no object satisfies the schema.
  StatusOr<std::optional<ObjectParts>> objectParts(const Json &words,
                                                   int depth);
  /// The schema of a member, with those of the patterns that its name matches.
  static Json withPatterns(const Json &schema, const std::string &name,
                           const ObjectParts &parts);
  /// Adds members whose names are not known: for each set of patterns that a
  /// name may match.
  Status addRest(const Json &additional, const Json &names, ObjectParts &parts,
                 int depth);
  Status addRestMember(std::vector<TextCondition> conditions,
                       const Json &schema, const Json &names,
                       ObjectParts &parts, int depth);

  struct Rule {
    RuleId id = -1;
    bool isEmpty = false;
  };

  Status checkTime() const { return deadline_.check(kCompilingSchema); }

  const Deadline deadline_;
  const std::shared_ptr<const SchemaValidator> validator_;
  const JsonTextOptions options_;
  Grammar grammar_;
  JsonText text_;
  std::unordered_map<std::string, Rule> rules_; ///< Keys are hashes of schemas.
  size_t bytes_ = 0;
  bool isImpossible_ = false; ///< Whether a required member can have no value.
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_SCHEMATRANSLATOR_H
