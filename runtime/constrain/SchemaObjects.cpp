// Objects of JSON schemas.
#include "runtime/constrain/SchemaChecks.h"
#include "runtime/constrain/SchemaMerge.h"
#include "runtime/constrain/SchemaTranslator.h"

#include <algorithm>
#include <set>

namespace moert {

using Json = nlohmann::json;

namespace {
/// Patterns of one object whose combinations are told apart.
constexpr size_t kMaxPatterns = 4;

bool isOfOneType(const char *type, const Json &types) {
  return std::ranges::find(types, Json(type)) != types.end();
}
} // namespace

SchemaTranslator::Result SchemaTranslator::translateObject(const Json &words,
                                                           int depth) {
  MOE_ASSIGN_OR_RETURN(std::optional<ObjectParts> parts,
                       objectParts(words, depth));
  return parts ? MaybeExpr(objectOf(*parts, words)) : MaybeExpr();
}

ExprId SchemaTranslator::objectOf(const ObjectParts &parts, const Json &words) {
  const ExprId object =
      text_.objectOf(parts.members, parts.rest, parts.least, parts.most);
  return parts.isExact ? object : *checked(object, words);
}

StatusOr<std::optional<SchemaTranslator::ObjectParts>>
SchemaTranslator::objectParts(const Json &words, int depth) {
  static const Json kNone = Json::object(), kNoNames = Json::array(),
                    kAnything = true;
  auto keyword = [&](const char *name, const Json &absent) -> const Json & {
    auto it = words.find(name);
    return it == words.end() ? absent : *it;
  };
  ObjectParts parts;
  parts.least = schemaCount(words, "minProperties", 0);
  parts.most = schemaCount(words, "maxProperties", Expr::kUnbounded);
  for (const auto &[text, schema] :
       keyword("patternProperties", kNone).items()) {
    MOE_ASSIGN_OR_RETURN(Pattern pattern,
                         parsePattern(text, RegexMatch::Anywhere));
    parts.patterns.emplace_back(std::move(pattern), &schema);
  }
  const Json &properties = keyword("properties", kNone);
  // Every text without further members is valid too, and models that are
  // free to add some do.
  const bool isClosed =
      words.contains("properties") && !words.contains("additionalProperties");
  const Json &additional = keyword("additionalProperties", kAnything);
  const Json &names = keyword("propertyNames", kAnything);
  std::set<std::string> required;
  for (const Json &name : keyword("required", kNoNames))
    required.insert(name.get<std::string>());
  auto add = [&](const std::string &name, const Json &schema) -> Status {
    MOE_RETURN_IF_ERROR(checkTime());
    MaybeExpr value;
    parts.known.push_back(name);
    if (names == true || validator_->accepts(names, Json(name))) {
      MOE_ASSIGN_OR_RETURN(
          value, parts.patterns.empty()
                     ? translate(schema, depth + 1)
                     : translate(withPatterns(schema, name, parts), depth + 1));
    }
    const bool isRequired = required.erase(name) > 0;
    if (value)
      parts.members.push_back({name, *value, isRequired});
    else
      isImpossible_ |= isRequired;
    return Status::ok();
  };
  const bool wasImpossible = std::exchange(isImpossible_, false);
  for (const auto &[name, schema] : properties.items())
    MOE_RETURN_IF_ERROR(add(name, schema));
  // Adds required names that have no schema of their own.
  for (const std::string &name : std::set<std::string>(required)) {
    const bool hasPattern =
        std::ranges::any_of(parts.patterns, [&](const auto &pattern) {
          return pattern.first.matches(name);
        });
    MOE_RETURN_IF_ERROR(add(name, hasPattern ? kAnything : additional));
  }
  if (std::exchange(isImpossible_, wasImpossible))
    return std::optional<ObjectParts>();
  MOE_RETURN_IF_ERROR(
      addRest(isClosed ? Json(false) : additional, names, parts, depth));
  const auto needed = int32_t(std::ranges::count_if(
      parts.members, [](const auto &member) { return member.isRequired; }));
  if (parts.most != Expr::kUnbounded &&
      std::max(parts.least, needed) > parts.most)
    return std::optional<ObjectParts>();
  if (parts.rest.empty() && parts.least > int32_t(parts.members.size()))
    return std::optional<ObjectParts>();
  // Additional members may have the same name, which counts once.
  if (parts.least > 0 && !parts.rest.empty())
    parts.isExact = false;
  return std::optional(std::move(parts));
}

Json SchemaTranslator::withPatterns(const Json &schema, const std::string &name,
                                    const ObjectParts &parts) {
  Json all = Json::array({schema});
  for (const auto &[pattern, other] : parts.patterns)
    if (pattern.matches(name))
      all.push_back(*other);
  return all.size() == 1 ? schema : Json{{"allOf", std::move(all)}};
}

Status SchemaTranslator::addRest(const Json &additional, const Json &names,
                                 ObjectParts &parts, int depth) {
  bool isOpaque = parts.patterns.size() > kMaxPatterns;
  for (const auto &[pattern, schema] : parts.patterns)
    isOpaque |= pattern.rest || pattern.conditions.size() != 1;
  if (isOpaque && !parts.patterns.empty()) {
    parts.isExact = false;
    return addRestMember({}, Json(true), names, parts, depth);
  }
  const size_t count = parts.patterns.size();
  for (size_t subset = 0; subset < size_t(1) << count; ++subset) {
    std::vector<TextCondition> conditions;
    Json schemas = Json::array();
    for (size_t i = 0; i < count; ++i) {
      const bool isIn = subset >> i & 1;
      TextCondition condition = parts.patterns[i].first.conditions[0];
      condition.isNegated ^= !isIn;
      conditions.push_back(std::move(condition));
      if (isIn)
        schemas.push_back(*parts.patterns[i].second);
    }
    const Json schema = schemas.empty()       ? additional
                        : schemas.size() == 1 ? schemas[0]
                                              : Json{{"allOf", schemas}};
    MOE_RETURN_IF_ERROR(
        addRestMember(std::move(conditions), schema, names, parts, depth));
  }
  return Status::ok();
}

Status SchemaTranslator::addRestMember(std::vector<TextCondition> conditions,
                                       const Json &schema, const Json &names,
                                       ObjectParts &parts, int depth) {
  if (schema == false)
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(MaybeExpr value, translate(schema, depth + 1));
  if (!value)
    return Status::ok();
  TextRules rules;
  if (names.is_object()) {
    MOE_ASSIGN_OR_RETURN(const MergedSchema merged,
                         mergedSchema(names, source(), deadline_));
    const bool isSimple = merged.isExact && merged.ways.size() == 1 &&
                          !merged.ways[0].contains("enum");
    if (isSimple) {
      MOE_ASSIGN_OR_RETURN(rules, textRules(merged.ways[0], parts.isExact));
    } else {
      parts.isExact = false;
    }
    if (isSimple && merged.ways[0].contains("type") &&
        !isOfOneType("string", merged.ways[0]["type"]))
      return Status::ok();
  } else if (names == false) {
    return Status::ok();
  }
  rules.conditions.insert(rules.conditions.end(), conditions.begin(),
                          conditions.end());
  if (!parts.known.empty())
    rules.conditions.push_back(
        {.list = TextList::of({parts.known.begin(), parts.known.end()}),
         .isNegated = true});
  if (conditions.empty() && names == true)
    parts.others = *value;
  if (MaybeExpr name = text_.nameOf(std::move(rules)))
    parts.rest.push_back({*name, *value});
  return Status::ok();
}

} // namespace moert
