//===- JsonSchema.cpp - JSON schemas as grammars --------------------------===//

#include "runtime/constrain/JsonSchema.h"

#include "runtime/base/ContentHash.h"
#include "runtime/constrain/Decimal.h"
#include "runtime/constrain/Formats.h"
#include "runtime/constrain/JsonText.h"
#include "runtime/constrain/SchemaMerge.h"
#include "runtime/constrain/SchemaValidator.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace moert {

namespace {
using Json = nlohmann::json;

/// Schemas inside each other, after merging.
constexpr int kDeepestRule = 200;
/// Schemas and bytes of all of them, each with those inside it.
constexpr size_t kMaxRules = 50'000;
constexpr size_t kMaxBytes = size_t(32) << 20;
/// Choices that are followed one by one, all at the same time.
constexpr size_t kMostChoices = 1500;
/// Patterns of one object whose combinations are told apart.
constexpr size_t kMaxPatterns = 4;

/// The text of a schema, whatever bytes its strings have.
std::string textOf(const Json &schema) {
  return schema.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The value that a text has; discarded() if it has none.
Json valueOf(std::string_view text, const JsonTextOptions &options) {
  if (options.toJson) {
    std::optional<std::string> json = options.toJson(text);
    return Json::parse(json.value_or(""), nullptr, /*allow_exceptions=*/false);
  }
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// What tells the checks of one notation from those of another.
std::string keyOf(const char *what, const JsonTextOptions &options) {
  return std::to_string(int(options.notation)) + " " + what;
}

/// A check that judges whole values.
std::shared_ptr<const TextCheck>
valueCheck(std::shared_ptr<const SchemaValidator> validator, const Json &schema,
           const JsonTextOptions &options) {
  auto holds = [validator = std::move(validator), schema,
                options](std::string_view text) {
    const Json value = valueOf(text, options);
    return !value.is_discarded() && validator->accepts(schema, value);
  };
  return std::make_shared<const TextCheck>(
      keyOf("schema ", options) + textOf(schema), std::move(holds),
      TextCheck::Scope::Own, /*ofJson=*/true);
}

/// A check of numbers that have more digits than a scanner keeps.
std::shared_ptr<const TextCheck>
multipleCheck(const std::vector<Decimal> &divisors, const Json &words) {
  auto holds = [divisors](std::string_view text) {
    return std::ranges::all_of(divisors, [&](const Decimal &divisor) {
      return isMultiple(text, divisor);
    });
  };
  return std::make_shared<const TextCheck>("multiple " + textOf(words),
                                           std::move(holds));
}

/// A check that judges strings that are written as they are.
std::shared_ptr<const TextCheck>
plainCheck(std::shared_ptr<const SchemaValidator> validator,
           const std::string &key) {
  auto holds = [validator = std::move(validator)](std::string_view text) {
    return validator->accepts(validator->source().root, Json(text));
  };
  return std::make_shared<const TextCheck>("plain " + key, std::move(holds));
}

/// Texts in which a mark is nowhere.
TextCondition without(std::string_view mark) {
  return {.nfa = std::make_shared<const CharNfa>(CharNfa::ofTextsWith(mark)),
          .isNegated = true};
}

/// A check of a list so far, whose last item is complete.
std::shared_ptr<const TextCheck> uniqueCheck(const JsonTextOptions &options) {
  auto holds = [options](std::string_view text) {
    const Json list = valueOf(std::string(text) + "]", options);
    return list.is_array() && std::ranges::count(list, list.back()) == 1;
  };
  return std::make_shared<const TextCheck>(keyOf("unique item", options), holds,
                                           TextCheck::Scope::Enclosing,
                                           /*ofJson=*/true);
}

/// A number of items, characters or members; kUnbounded if it is too large to
/// matter.
int32_t countOf(const Json &words, const char *name, int32_t absent) {
  auto it = words.find(name);
  const auto count = it == words.end() ? absent : it->get<int32_t>();
  return count == INT32_MAX && name[1] == 'a' ? Expr::kUnbounded : count;
}

/// What keywords say about strings. `isExact` becomes false if a check has to
/// judge them, too.
StatusOr<TextRules> textRules(const Json &words, bool &isExact) {
  TextRules rules;
  rules.least = countOf(words, "minLength", 0);
  rules.most = countOf(words, "maxLength", Expr::kUnbounded);
  auto add = [&](const Pattern &pattern) {
    rules.conditions.insert(rules.conditions.end(), pattern.conditions.begin(),
                            pattern.conditions.end());
    isExact &= !pattern.rest;
  };
  if (auto patterns = words.find("pattern"); patterns != words.end())
    for (const Json &each : *patterns) {
      MOE_ASSIGN_OR_RETURN(Pattern pattern,
                           parsePattern(each.get_ref<const std::string &>(),
                                        RegexMatch::Anywhere));
      add(pattern);
    }
  if (auto formats = words.find("format"); formats != words.end())
    for (const Json &name : *formats) {
      if (const Pattern *pattern =
              patternOfFormat(name.get_ref<const std::string &>()))
        add(*pattern);
      else
        isExact = false;
    }
  return rules;
}

class SchemaTranslator {
public:
  SchemaTranslator(SchemaSource source, const JsonTextOptions &options)
      : validator_(std::make_shared<const SchemaValidator>(std::move(source))),
        options_(options), text_(grammar_, options) {}

  StatusOr<Grammar> run() {
    const RuleId root = grammar_.declare("root");
    MOE_ASSIGN_OR_RETURN(std::optional<ExprId> body,
                         translate(source().root, 0));
    if (!body)
      return schemaError("", "no value fits");
    grammar_.define(root, *body);
    return std::move(grammar_);
  }

private:
  /// An empty optional stands for a schema that no value satisfies.
  using Result = StatusOr<std::optional<ExprId>>;
  using MaybeExpr = std::optional<ExprId>;

  const SchemaSource &source() const { return validator_->source(); }

  /// Translates a schema into a rule, once for all places where it is.
  Result translate(const Json &schema, int depth) {
    if (schema.is_boolean())
      return schema == true ? MaybeExpr(text_.value()) : std::nullopt;
    if (schema.empty())
      return MaybeExpr(text_.value());
    if (depth > kDeepestRule)
      return schemaError("", "what is combined is nested too deep");
    std::string key = textOf(schema);
    bytes_ += key.size();
    if (bytes_ > kMaxBytes || rules_.size() > kMaxRules)
      return schemaError("", "too large: references and combinations are "
                             "written out in it too often");
    key = contentHash(
        std::span(reinterpret_cast<const uint8_t *>(key.data()), key.size()));
    auto [it, isNew] = rules_.try_emplace(key, Rule{});
    if (isNew) {
      // Recursive schemas refer to the rule before it is defined.
      it->second.id =
          grammar_.declare("schema " + std::to_string(rules_.size()));
      MOE_ASSIGN_OR_RETURN(MaybeExpr body, translateNew(schema, depth));
      Rule &rule = rules_[key];
      rule.isEmpty = !body;
      if (body)
        grammar_.define(rule.id, *body);
    }
    const Rule &rule = rules_[key];
    return rule.isEmpty ? MaybeExpr() : MaybeExpr(grammar_.rule(rule.id));
  }

  Result translateNew(const Json &schema, int depth) {
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
    const MergedSchema merged = mergedSchema(schema, source());
    Ways ways;
    for (const Json &words : merged.ways)
      MOE_RETURN_IF_ERROR(addWay(ways, words, depth));
    MOE_ASSIGN_OR_RETURN(MaybeExpr any, choice(std::move(ways)));
    return merged.isExact ? any : checked(any, schema);
  }

  /// What a value may be one of.
  struct Ways {
    std::vector<ExprId> exprs;
    std::vector<const Json *> constants;
    /// However many there are, they are one series.
    std::vector<JsonText::Variant> objects;
  };

  Result choice(Ways ways) {
    if (!ways.constants.empty())
      ways.exprs.push_back(anyConstant(ways.constants));
    if (!ways.objects.empty())
      ways.exprs.push_back(text_.objectOfAny(ways.objects));
    return choice(ways.exprs);
  }

  Result anyOf(const Json &schemas, int depth) {
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

  /// The JSON pointer of a value of the schema; "" if there is no equal one.
  std::string pointerTo(const Json &value) const {
    using Pointer = Json::json_pointer;
    if (auto found = pointerTo(value, source().root, Pointer()))
      return found->to_string();
    for (const auto &[reference, schema] : source().references)
      if (auto found = pointerTo(value, schema, Pointer()))
        return (reference.starts_with("#/") ? reference.substr(1) : "") +
               found->to_string();
    return "";
  }
  static std::optional<Json::json_pointer>
  pointerTo(const Json &value, const Json &in, const Json::json_pointer &at) {
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

  static Status add(Ways &ways, Result way) {
    if (way && *way)
      ways.exprs.push_back(**way);
    return way.status();
  }

  /// Adds a schema without combinations.
  Status addWay(Ways &ways, const Json &words, int depth) {
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

  static bool isObject(const Json &words) {
    static const Json kObject = Json::array({"object"});
    auto type = words.find("type");
    return type != words.end() && *type == kObject && !words.contains("enum");
  }

  MaybeExpr choice(const std::vector<ExprId> &ways) {
    return ways.empty() ? MaybeExpr() : MaybeExpr(grammar_.choice(ways));
  }

  MaybeExpr checked(MaybeExpr expr, const Json &schema) {
    if (!expr)
      return expr;
    return grammar_.checked(*expr, valueCheck(validator_, schema, options_));
  }

  /// Translates a schema without combinations.
  Result translateWords(const Json &words, int depth) {
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

  Result translateType(const std::string &type, const Json &words, int depth) {
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

  //===--------------------------------------------------------------------===//
  // Constants, strings and numbers
  //===--------------------------------------------------------------------===//

  /// Those of the constants that satisfy the other keywords.
  Result constants(const Json &words) {
    Json others = Json::object();
    for (const auto &[word, value] : words.items())
      if (word != "enum")
        others[word] = value;
    // Objects are closed here, too.
    if (words.contains("properties") &&
        !words.contains("additionalProperties")) {
      others["additionalProperties"] = false;
      if (words.contains("required"))
        for (const Json &name : words["required"])
          others["properties"].emplace(name.get<std::string>(), true);
    }
    std::vector<const Json *> values;
    for (const Json &value : words["enum"])
      if (validator_->accepts(others, value))
        values.push_back(&value);
    return values.empty() ? MaybeExpr() : MaybeExpr(anyConstant(values));
  }

  ExprId anyConstant(const std::vector<const Json *> &values) {
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

  Result translateText(const Json &words) {
    bool isExact = true;
    StatusOr<TextRules> rules = textRules(words, isExact);
    if (!rules)
      return rules.status();
    MaybeExpr text = text_.stringOf(*std::move(rules));
    return isExact ? text : checked(text, words);
  }

  Result translateNumber(const Json &words, bool isInteger) {
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

  //===--------------------------------------------------------------------===//
  // Lists
  //===--------------------------------------------------------------------===//

  /// How many different values a schema has at most, if it has few.
  static std::optional<int32_t> mostValues(const Json &schema) {
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

  Result translateList(const Json &words, int depth) {
    const int32_t least = countOf(words, "minItems", 0);
    int32_t most = countOf(words, "maxItems", Expr::kUnbounded);
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

  //===--------------------------------------------------------------------===//
  // Objects
  //===--------------------------------------------------------------------===//

  /// What an object may be, while it is put together.
  struct ObjectParts {
    std::vector<JsonText::Member> members;
    std::vector<JsonText::Rest> rest;
    std::vector<std::pair<Pattern, const Json *>> patterns;
    std::vector<std::string> known; ///< Names that have their own member.
    int32_t least = 0, most = Expr::kUnbounded;
    bool isExact = true;

    /// What members with other names have, if that is all there is about them.
    std::optional<ExprId> others;

    /// Whether members and others are all that is to be looked at.
    bool isPlain() const {
      return isExact && rest.size() == size_t(others.has_value()) &&
             (!others || known.size() == members.size()) && least == 0 &&
             most == Expr::kUnbounded;
    }
  };

  Result translateObject(const Json &words, int depth) {
    MOE_ASSIGN_OR_RETURN(std::optional<ObjectParts> parts,
                         objectParts(words, depth));
    return parts ? MaybeExpr(objectOf(*parts, words)) : MaybeExpr();
  }

  ExprId objectOf(const ObjectParts &parts, const Json &words) {
    const ExprId object =
        text_.objectOf(parts.members, parts.rest, parts.least, parts.most);
    return parts.isExact ? object : *checked(object, words);
  }

  /// Absent: no object satisfies the schema.
  StatusOr<std::optional<ObjectParts>> objectParts(const Json &words,
                                                   int depth) {
    static const Json kNone = Json::object(), kNoNames = Json::array(),
                      kAnything = true;
    auto keyword = [&](const char *name, const Json &absent) -> const Json & {
      auto it = words.find(name);
      return it == words.end() ? absent : *it;
    };
    ObjectParts parts;
    parts.least = countOf(words, "minProperties", 0);
    parts.most = countOf(words, "maxProperties", Expr::kUnbounded);
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
      MaybeExpr value;
      parts.known.push_back(name);
      if (names == true || validator_->accepts(names, Json(name))) {
        MOE_ASSIGN_OR_RETURN(
            value,
            parts.patterns.empty()
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
    // Required names without a schema of their own.
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

  /// The schema of a member, with those of the patterns that its name matches.
  static Json withPatterns(const Json &schema, const std::string &name,
                           const ObjectParts &parts) {
    Json all = Json::array({schema});
    for (const auto &[pattern, other] : parts.patterns)
      if (pattern.matches(name))
        all.push_back(*other);
    return all.size() == 1 ? schema : Json{{"allOf", std::move(all)}};
  }

  /// Adds members whose names are not known: for each set of patterns that a
  /// name may match.
  Status addRest(const Json &additional, const Json &names, ObjectParts &parts,
                 int depth) {
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

  Status addRestMember(std::vector<TextCondition> conditions,
                       const Json &schema, const Json &names,
                       ObjectParts &parts, int depth) {
    if (schema == false)
      return Status::ok();
    MOE_ASSIGN_OR_RETURN(MaybeExpr value, translate(schema, depth + 1));
    if (!value)
      return Status::ok();
    TextRules rules;
    if (names.is_object()) {
      const MergedSchema merged = mergedSchema(names, source());
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

  static bool isOfOneType(const char *type, const Json &types) {
    return std::ranges::find(types, Json(type)) != types.end();
  }

  struct Rule {
    RuleId id = -1;
    bool isEmpty = false;
  };

  const std::shared_ptr<const SchemaValidator> validator_;
  const JsonTextOptions options_;
  Grammar grammar_;
  JsonText text_;
  std::unordered_map<std::string, Rule> rules_; ///< By hash of the schema.
  size_t bytes_ = 0;
  bool isImpossible_ = false; ///< A required member has no value.
};
} // namespace

StatusOr<Grammar> parseJsonSchema(const nlohmann::ordered_json &schema,
                                  const JsonTextOptions &options) {
  MOE_ASSIGN_OR_RETURN(SchemaSource source, SchemaSource::read(schema));
  return SchemaTranslator(std::move(source), options).run();
}

StatusOr<std::optional<ExprId>>
addPlainText(Grammar &grammar, const nlohmann::ordered_json &schema,
             std::string_view end) {
  MOE_ASSIGN_OR_RETURN(SchemaSource source, SchemaSource::read(schema));
  const MergedSchema merged = mergedSchema(source.root, source);
  bool isExact = merged.isExact;
  const auto validator =
      std::make_shared<const SchemaValidator>(std::move(source));
  std::vector<ExprId> ways;
  for (const Json &words : merged.ways) {
    auto types = words.find("type");
    if (types != words.end() &&
        std::ranges::find(*types, Json("string")) == types->end())
      continue;
    MOE_ASSIGN_OR_RETURN(TextRules rules, textRules(words, isExact));
    rules.isJson = false;
    if (auto values = words.find("enum"); values != words.end()) {
      std::vector<std::string_view> texts;
      for (const Json &value : *values)
        if (value.is_string())
          texts.push_back(value.get_ref<const std::string &>());
      rules.conditions.push_back({.list = TextList::of(std::move(texts))});
    }
    if (!end.empty())
      rules.conditions.push_back(without(end));
    auto scanner = TextScanner::create(std::move(rules));
    if (!scanner->isEmpty())
      ways.push_back(grammar.scan(std::move(scanner)));
  }
  if (ways.empty())
    return std::optional<ExprId>();
  ExprId text = grammar.choice(std::move(ways));
  if (!isExact)
    text = grammar.checked(text, plainCheck(validator, textOf(Json(schema))));
  return std::optional(text);
}

ExprId addTextWithout(Grammar &grammar, std::string_view mark) {
  TextRules rules{.isJson = false};
  if (!mark.empty())
    rules.conditions.push_back(without(mark));
  return grammar.scan(TextScanner::create(std::move(rules)));
}

Grammar jsonObjects(const JsonTextOptions &options) {
  Grammar grammar;
  RuleId root = grammar.declare("root");
  grammar.define(root, JsonText(grammar, options).object());
  return grammar;
}

} // namespace moert
