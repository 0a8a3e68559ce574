#include "runtime/constrain/SchemaTranslator.h"

#include "runtime/base/ContentHash.h"
#include "runtime/constrain/SchemaChecks.h"
#include "runtime/constrain/SchemaMerge.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::json;

namespace {
/// Schemas inside each other, after merging.
constexpr int kDeepestRule = 200;
/// The most schemas in a document, and the most bytes of their texts together.
/// The text of a schema includes those that are nested in it, so that bytes
/// count once for each level of nesting.
constexpr size_t kMaxRules = 50'000;
constexpr size_t kMaxBytes = size_t(32) << 20;
/// Choices that are followed one by one, all at the same time.
constexpr size_t kMostChoices = 1500;

bool isObject(const Json &words) {
  static const Json kObject = Json::array({"object"});
  auto type = words.find("type");
  return type != words.end() && *type == kObject && !words.contains("enum");
}

/// Returns the greatest number of different values of a schema, if it is small.
std::optional<int32_t> mostValues(const Json &schema) {
  constexpr size_t kMostListed = 256;
  if (!schema.is_object())
    return std::nullopt;
  if (schema.contains("const"))
    return 1;
  if (auto it = schema.find("enum"); it != schema.end()) {
    if (it->size() > kMostListed)
      return std::nullopt;
    std::vector<Json> values;
    for (const Json &value : *it)
      if (std::ranges::find(values, value) == values.end())
        values.push_back(value);
    return int32_t(values.size());
  }
  auto type = schema.find("type");
  if (type == schema.end())
    return std::nullopt;
  int32_t sum = 0;
  for (const Json &each : type->is_array() ? *type : Json::array({*type})) {
    if (each != "boolean" && each != "null")
      return std::nullopt;
    sum += each == "boolean" ? 2 : 1;
  }
  return sum;
}
} // namespace

StatusOr<Grammar> SchemaTranslator::run() {
  const RuleId root = grammar_.declare("root");
  MOE_ASSIGN_OR_RETURN(std::optional<ExprId> body, translate(source().root, 0));
  if (!body)
    return schemaError("", "no value fits");
  grammar_.define(root, *body);
  return std::move(grammar_);
}

SchemaTranslator::Result SchemaTranslator::translate(const Json &schema,
                                                     int depth) {
  if (schema.is_boolean())
    return schema == true ? MaybeExpr(text_.value()) : std::nullopt;
  if (schema.empty())
    return MaybeExpr(text_.value());
  MOE_RETURN_IF_ERROR(checkTime());
  if (depth > kDeepestRule)
    return schemaError("", "what is combined is nested too deep");
  std::string key = schemaText(schema);
  bytes_ += key.size();
  if (bytes_ > kMaxBytes || rules_.size() > kMaxRules)
    return schemaError("", "too large: references and combinations are "
                           "written out in it too often");
  key = contentHash(
      std::span(reinterpret_cast<const uint8_t *>(key.data()), key.size()));
  auto [it, isNew] = rules_.try_emplace(key, Rule{});
  if (isNew) {
    // The rule is declared before its body is translated, because a recursive
    // schema refers to it.
    it->second.id = grammar_.declare("schema " + std::to_string(rules_.size()));
    MOE_ASSIGN_OR_RETURN(MaybeExpr body, translateNew(schema, depth));
    Rule &rule = rules_[key];
    rule.isEmpty = !body;
    if (body)
      grammar_.define(rule.id, *body);
  }
  const Rule &rule = rules_[key];
  return rule.isEmpty ? MaybeExpr() : MaybeExpr(grammar_.rule(rule.id));
}

SchemaTranslator::Result SchemaTranslator::translateNew(const Json &schema,
                                                        int depth) {
  if (schema.size() == 1) {
    const std::string word = schema.begin().key();
    if (word == "$ref")
      return translate(source().references.at(schema[word]), depth + 1);
    if (word == "anyOf" || word == "oneOf") {
      MOE_ASSIGN_OR_RETURN(MaybeExpr any, anyOf(schema[word], depth));
      const bool isExact =
          word == "anyOf" || areDisjoint(schema[word], source());
      return isExact ? any : checked(any, schema);
    }
  }
  if (!isCombined(schema))
    return translateWords(schema, depth);
  MOE_ASSIGN_OR_RETURN(const MergedSchema merged,
                       mergedSchema(schema, source(), deadline_));
  Ways ways;
  for (const Json &words : merged.ways)
    MOE_RETURN_IF_ERROR(addWay(ways, words, depth));
  MOE_ASSIGN_OR_RETURN(MaybeExpr any, choice(std::move(ways)));
  return merged.isExact ? any : checked(any, schema);
}

SchemaTranslator::Result SchemaTranslator::choice(Ways ways) {
  if (!ways.constants.empty())
    ways.exprs.push_back(anyConstant(ways.constants));
  if (!ways.objects.empty())
    ways.exprs.push_back(text_.objectOfAny(ways.objects));
  return choice(ways.exprs);
}

SchemaTranslator::Result SchemaTranslator::anyOf(const Json &schemas,
                                                 int depth) {
  Ways ways;
  for (const Json &schema : schemas) {
    const Json *words = resolved(schema, source());
    if (words && words->size() == 1 && words->contains("enum"))
      for (const Json &value : (*words)["enum"])
        ways.constants.push_back(&value);
    else if (words && isObject(*words) && !isCombined(*words))
      MOE_RETURN_IF_ERROR(addWay(ways, *words, depth + 1));
    else
      MOE_RETURN_IF_ERROR(add(ways, translate(schema, depth + 1)));
  }
  if (ways.exprs.size() > kMostChoices)
    return schemaError(pointerTo(schemas),
                       "over " + std::to_string(kMostChoices) +
                           " choices are neither constants nor objects that "
                           "properties, required and additionalProperties "
                           "describe; split them into objects");
  return choice(std::move(ways));
}

std::string SchemaTranslator::pointerTo(const Json &value) const {
  using Pointer = Json::json_pointer;
  if (auto found = pointerTo(value, source().root, Pointer()))
    return found->to_string();
  for (const auto &[reference, schema] : source().references)
    if (auto found = pointerTo(value, schema, Pointer()))
      return (reference.starts_with("#/") ? reference.substr(1) : "") +
             found->to_string();
  return "";
}

std::optional<Json::json_pointer>
SchemaTranslator::pointerTo(const Json &value, const Json &in,
                            const Json::json_pointer &at) {
  if (value.size() == in.size() && value == in)
    return at;
  if (in.is_object())
    for (const auto &[key, inner] : in.items())
      if (auto found = pointerTo(value, inner, at / key))
        return found;
  for (size_t i = 0; in.is_array() && i < in.size(); ++i)
    if (auto found = pointerTo(value, in[i], at / i))
      return found;
  return std::nullopt;
}

Status SchemaTranslator::add(Ways &ways, Result way) {
  if (way && *way)
    ways.exprs.push_back(**way);
  return way.status();
}

Status SchemaTranslator::addWay(Ways &ways, const Json &words, int depth) {
  if (!isObject(words))
    return add(ways, translateWords(words, depth));
  MOE_ASSIGN_OR_RETURN(std::optional<ObjectParts> parts,
                       objectParts(words, depth));
  if (parts && parts->isPlain())
    ways.objects.push_back({std::move(parts->members), parts->others});
  else if (parts)
    ways.exprs.push_back(objectOf(*parts, words));
  return Status::ok();
}

SchemaTranslator::MaybeExpr
SchemaTranslator::choice(const std::vector<ExprId> &ways) {
  return ways.empty() ? MaybeExpr() : MaybeExpr(grammar_.choice(ways));
}

SchemaTranslator::MaybeExpr SchemaTranslator::checked(MaybeExpr expr,
                                                      const Json &schema) {
  if (!expr)
    return expr;
  return grammar_.checked(*expr, valueCheck(validator_, schema, options_));
}

SchemaTranslator::Result SchemaTranslator::translateWords(const Json &words,
                                                          int depth) {
  if (words.contains("enum"))
    return constants(words);
  std::vector<std::string> types = {"object", "array",   "string",
                                    "number", "boolean", "null"};
  if (auto it = words.find("type"); it != words.end())
    types = it->get<std::vector<std::string>>();
  // An integer is a number, too.
  if (std::ranges::find(types, "number") != types.end())
    std::erase(types, "integer");
  std::vector<ExprId> ways;
  for (const std::string &type : types) {
    MOE_ASSIGN_OR_RETURN(MaybeExpr way, translateType(type, words, depth));
    if (way)
      ways.push_back(*way);
  }
  return choice(ways);
}

SchemaTranslator::Result
SchemaTranslator::translateType(const std::string &type, const Json &words,
                                int depth) {
  if (type == "object")
    return translateObject(words, depth);
  if (type == "array")
    return translateList(words, depth);
  if (type == "string")
    return translateText(words);
  if (type == "boolean")
    return MaybeExpr(text_.boolean());
  if (type == "null")
    return MaybeExpr(text_.null());
  return translateNumber(words, type == "integer");
}

//===----------------------------------------------------------------------===//
// Constants, strings and numbers
//===----------------------------------------------------------------------===//

SchemaTranslator::Result SchemaTranslator::constants(const Json &words) {
  Json others = Json::object();
  for (const auto &[word, value] : words.items())
    if (word != "enum")
      others[word] = value;
  // Objects are closed here, too.
  if (words.contains("properties") && !words.contains("additionalProperties")) {
    others["additionalProperties"] = false;
    if (words.contains("required"))
      for (const Json &name : words["required"])
        others["properties"].emplace(name.get<std::string>(), true);
  }
  std::vector<const Json *> values;
  for (const Json &value : words["enum"]) {
    MOE_RETURN_IF_ERROR(checkTime());
    if (validator_->accepts(others, value))
      values.push_back(&value);
  }
  return values.empty() ? MaybeExpr() : MaybeExpr(anyConstant(values));
}

ExprId SchemaTranslator::anyConstant(const std::vector<const Json *> &values) {
  std::vector<std::string_view> texts;
  std::vector<ExprId> ways;
  for (const Json *value : values)
    if (value->is_string())
      texts.push_back(value->get_ref<const std::string &>());
    else
      ways.push_back(text_.constant(*value));
  if (!texts.empty())
    ways.push_back(text_.stringOf(TextList::of(std::move(texts))));
  return grammar_.choice(std::move(ways));
}

SchemaTranslator::Result SchemaTranslator::translateText(const Json &words) {
  bool isExact = true;
  StatusOr<TextRules> rules = textRules(words, isExact);
  if (!rules)
    return rules.status();
  MaybeExpr text = text_.stringOf(*std::move(rules));
  return isExact ? text : checked(text, words);
}

SchemaTranslator::Result SchemaTranslator::translateNumber(const Json &words,
                                                           bool isInteger) {
  NumberRules rules{.isInteger = isInteger};
  auto bound = [&](const char *name, std::optional<Decimal> &into,
                   bool &excludes, bool isLower) {
    auto it = words.find(name);
    if (it == words.end())
      return;
    const Decimal value = Decimal::of(*it);
    const bool isExclusive = name[0] == 'e';
    const bool isNarrower = !into ||
                            (isLower ? value > *into : value < *into) ||
                            (value == *into && isExclusive);
    if (isNarrower) {
      into = value;
      excludes = isExclusive;
    }
  };
  bound("minimum", rules.least, rules.excludesLeast, true);
  bound("exclusiveMinimum", rules.least, rules.excludesLeast, true);
  bound("maximum", rules.most, rules.excludesMost, false);
  bound("exclusiveMaximum", rules.most, rules.excludesMost, false);
  if (auto divisors = words.find("multipleOf"); divisors != words.end())
    for (const Json &divisor : *divisors)
      rules.divisors.push_back(Decimal::of(divisor));
  MaybeExpr number = text_.numberOf(rules);
  if (number && !rules.divisors.empty())
    number = grammar_.checked(
        *number, multipleCheck(rules.divisors, words["multipleOf"]));
  return number;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

SchemaTranslator::Result SchemaTranslator::translateList(const Json &words,
                                                         int depth) {
  const int32_t least = schemaCount(words, "minItems", 0);
  int32_t most = schemaCount(words, "maxItems", Expr::kUnbounded);
  const bool isUnique = words.contains("uniqueItems");
  const bool isExact = !isUnique && !words.contains("contains");
  auto item = [&](const Json &schema) -> Result {
    MOE_ASSIGN_OR_RETURN(MaybeExpr expr, translate(schema, depth + 1));
    if (expr && isUnique)
      expr = grammar_.checked(*expr, uniqueCheck(options_));
    return expr;
  };
  std::vector<ExprId> first;
  bool endsEarly = false;
  if (auto it = words.find("prefixItems"); it != words.end())
    for (const Json &schema : *it) {
      MOE_ASSIGN_OR_RETURN(MaybeExpr expr, item(schema));
      endsEarly = !expr;
      if (endsEarly)
        break;
      first.push_back(*expr);
    }
  MaybeExpr rest;
  if (!endsEarly) {
    auto it = words.find("items");
    MOE_ASSIGN_OR_RETURN(rest, item(it == words.end() ? Json(true) : *it));
  }
  // After the last value that an item can have, no comma follows.
  if (auto it = words.find("items"); isUnique && rest && it != words.end())
    if (const auto values = mostValues(*it)) {
      const int32_t bound = int32_t(first.size()) + *values;
      most = most == Expr::kUnbounded ? bound : std::min(most, bound);
    }
  if ((!rest && least > int32_t(first.size())) ||
      (most != Expr::kUnbounded && least > most))
    return MaybeExpr();
  MaybeExpr list = text_.listOf(first, rest, least, most);
  return isExact ? list : checked(list, words);
}

} // namespace moert
