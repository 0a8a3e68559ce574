//===- JsonSchema.cpp - JSON schemas as grammars --------------------------===//

#include "runtime/constrain/JsonSchema.h"

#include "runtime/base/Text.h"
#include "runtime/constrain/JsonText.h"
#include "runtime/constrain/Regex.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace moert {

namespace {
using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 100;
/// An enum of more values is refused, as is a schema of more rules.
constexpr size_t kMaxValues = 10'000;

/// The keywords that limit values, with the type that they are about; keywords
/// of "" are about all types.
struct Keyword {
  std::string_view name, type;
};
constexpr Keyword kKeywords[] = {{"type", ""},
                                 {"enum", ""},
                                 {"const", ""},
                                 {"anyOf", ""},
                                 {"oneOf", ""},
                                 {"allOf", ""},
                                 {"$ref", ""},
                                 {"properties", "object"},
                                 {"required", "object"},
                                 {"additionalProperties", "object"},
                                 {"items", "array"},
                                 {"prefixItems", "array"},
                                 {"minItems", "array"},
                                 {"maxItems", "array"},
                                 {"minLength", "string"},
                                 {"maxLength", "string"},
                                 {"pattern", "string"},
                                 {"format", "string"},
                                 {"minimum", "integer"},
                                 {"maximum", "integer"},
                                 {"exclusiveMinimum", "integer"},
                                 {"exclusiveMaximum", "integer"}};
constexpr std::string_view kAnnotations[] = {
    "title",    "description", "default", "examples",    "$schema",
    "$id",      "$comment",    "$defs",   "definitions", "deprecated",
    "readOnly", "writeOnly",   "$anchor"};
constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                       "integer", "boolean", "null"};

/// Formats as regular expressions; dates have at most 31 days in any month.
struct Format {
  std::string_view name, pattern;
};
#define MOE_DATE "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
#define MOE_TIME                                                               \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?"                   \
  "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define MOE_BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
constexpr Format kFormats[] = {
    {"date", MOE_DATE},
    {"time", MOE_TIME},
    {"date-time", MOE_DATE "T" MOE_TIME},
    {"uuid", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"},
    {"ipv4", MOE_BYTE "(\\." MOE_BYTE "){3}"}};

/// A JSON pointer (RFC 6901).
class Pointer {
public:
  Pointer() = default;
  explicit Pointer(std::string text) : text_(std::move(text)) {}

  Pointer operator/(std::string_view key) const {
    Pointer result = *this;
    result.text_ += '/';
    for (char c : key)
      result.text_ += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return result;
  }
  Pointer operator/(size_t index) const {
    return *this / std::string_view(std::to_string(index));
  }
  Status error(std::string_view message) const {
    return Status(StatusCode::Usage, "schema at " + moert::quoted("#" + text_) +
                                         ": " + std::string(message));
  }

private:
  std::string text_;
};

class SchemaTranslator {
public:
  SchemaTranslator(const Json &root, const JsonTextOptions &options)
      : root_(root), text_(grammar_, options) {}

  StatusOr<Grammar> run() {
    RuleId id = grammar_.declare("#");
    MOE_ASSIGN_OR_RETURN(std::optional<ExprId> body, translate(root_, {}, 0));
    if (!body)
      return Pointer().error("no value fits");
    grammar_.define(id, *body);
    return std::move(grammar_);
  }

private:
  /// An empty optional stands for a schema that no value satisfies.
  using Result = StatusOr<std::optional<ExprId>>;

  Result translate(const Json &schema, const Pointer &at, int depth) {
    if (depth > kMaxDepth)
      return at.error("schemas are nested too deep");
    if (schema.is_boolean())
      return schema.get<bool>() ? std::optional(text_.value()) : std::nullopt;
    if (!schema.is_object())
      return at.error("a schema is an object or a boolean");
    MOE_RETURN_IF_ERROR(checkKeywords(schema, at));
    for (std::string_view whole :
         {"$ref", "anyOf", "oneOf", "allOf", "const", "enum"})
      if (schema.contains(whole))
        return translateWhole(whole, schema, at, depth);
    MOE_ASSIGN_OR_RETURN(std::vector<std::string> types, typesOf(schema, at));
    if (types.empty())
      return std::optional(text_.value());
    std::vector<ExprId> ways;
    for (const std::string &type : types) {
      MOE_ASSIGN_OR_RETURN(std::optional<ExprId> way,
                           translateType(type, schema, at, depth));
      if (way)
        ways.push_back(*way);
    }
    return anyOf(std::move(ways));
  }

  std::optional<ExprId> anyOf(std::vector<ExprId> ways) {
    if (ways.empty())
      return std::nullopt;
    return grammar_.choice(std::move(ways));
  }

  static Status checkKeywords(const Json &schema, const Pointer &at) {
    for (const auto &[name, value] : schema.items()) {
      bool isKnown = std::ranges::find(kKeywords, std::string_view(name),
                                       &Keyword::name) != std::end(kKeywords) ||
                     std::ranges::find(kAnnotations, std::string_view(name)) !=
                         std::end(kAnnotations);
      if (!isKnown)
        return (at / name).error("this keyword is not supported");
    }
    return Status::ok();
  }

  /// Translates a keyword that describes the whole value, such as const. Other
  /// keywords in the same schema would have to hold too, and are not supported.
  Result translateWhole(std::string_view keyword, const Json &schema,
                        const Pointer &at, int depth) {
    for (const Keyword &other : kKeywords) {
      bool isSame = other.name == keyword || !schema.contains(other.name);
      // "type" is allowed next to const and enum: it is checked with each
      // constant.
      bool isType =
          other.name == "type" && (keyword == "const" || keyword == "enum");
      if (!isSame && !isType)
        return (at / other.name)
            .error("this keyword is not supported beside " +
                   std::string(keyword));
    }
    const Json &value = schema[keyword];
    const Pointer place = at / keyword;
    if (keyword == "$ref")
      return translateReference(value, place, depth);
    if (keyword == "const")
      return constants(Json::array({value}), schema, place, at);
    if (!value.is_array() || value.empty())
      return place.error("expected a list that is not empty");
    if (keyword == "enum")
      return constants(value, schema, place, at);
    if (keyword == "allOf" && value.size() > 1)
      return place.error("only one schema is supported here");
    if (keyword == "oneOf")
      for (size_t i = 0; i < value.size(); ++i)
        for (size_t k = 0; k < i; ++k)
          if (!areDisjoint(value[k], value[i], 0))
            return (place / i).error(
                "a value may fit this schema and schema " + std::to_string(k) +
                "; use anyOf, or give both a required member with different "
                "constants");
    std::vector<ExprId> ways;
    for (size_t i = 0; i < value.size(); ++i) {
      MOE_ASSIGN_OR_RETURN(std::optional<ExprId> way,
                           translate(value[i], place / i, depth + 1));
      if (way)
        ways.push_back(*way);
    }
    return anyOf(std::move(ways));
  }

  //===--------------------------------------------------------------------===//
  // References
  //===--------------------------------------------------------------------===//

  /// Returns the schema that a pointer names; null where there is none.
  const Json *find(std::string_view reference) const {
    if (!reference.starts_with("#") ||
        (reference.size() > 1 && reference[1] != '/'))
      return nullptr;
    try {
      Json::json_pointer pointer{std::string(reference.substr(1))};
      return root_.contains(pointer) ? &root_.at(pointer) : nullptr;
    } catch (const Json::exception &) { // An index that is no number, and such.
      return nullptr;
    }
  }

  Result translateReference(const Json &value, const Pointer &at, int depth) {
    if (!value.is_string())
      return at.error("expected a string");
    const std::string &reference = value.get_ref<const std::string &>();
    const Json *schema = find(reference);
    if (!schema)
      return at.error("the schema has no " + moert::quoted(reference) +
                      "; references to other documents are not supported");
    RuleId id = grammar_.declare(reference);
    if (id != 0 && !isOpen_.contains(id)) {
      isOpen_.insert(id);
      MOE_ASSIGN_OR_RETURN(
          std::optional<ExprId> body,
          translate(*schema, Pointer(reference.substr(1)), depth + 1));
      if (!body)
        return at.error("no value fits " + moert::quoted(reference));
      grammar_.define(id, *body);
    }
    return std::optional(grammar_.rule(id));
  }

  //===--------------------------------------------------------------------===//
  // Types and constants
  //===--------------------------------------------------------------------===//

  static StatusOr<std::vector<std::string>> typesOf(const Json &schema,
                                                    const Pointer &at) {
    std::vector<std::string> types;
    if (auto it = schema.find("type"); it != schema.end()) {
      Json list = it->is_array() ? *it : Json::array({*it});
      for (const Json &type : list) {
        if (!type.is_string() ||
            std::ranges::find(
                kTypes,
                std::string_view(type.get_ref<const std::string &>())) ==
                std::end(kTypes))
          return (at / "type")
              .error("expected object, array, string, number, "
                     "integer, boolean or null");
        types.push_back(type);
      }
      if (types.empty())
        return (at / "type").error("expected a type");
    } else {
      // Without "type", a keyword for one type does not restrict values of
      // other types. Schemas that omit "type" mean the types that their
      // keywords describe, so only those are accepted.
      for (const Keyword &keyword : kKeywords)
        if (!keyword.type.empty() && schema.contains(keyword.name) &&
            std::ranges::find(types, keyword.type) == types.end())
          types.emplace_back(keyword.type);
    }
    for (const Keyword &keyword : kKeywords)
      if (!keyword.type.empty() && schema.contains(keyword.name) &&
          std::ranges::find(types, keyword.type) == types.end()) {
        bool isNumber = keyword.type == "integer" &&
                        std::ranges::find(types, "number") != types.end();
        if (isNumber)
          return (at / keyword.name)
              .error("limits are only supported for type integer");
      }
    if (std::ranges::find(types, "number") != types.end() &&
        std::ranges::find(types, "integer") != types.end())
      for (std::string_view limit :
           {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
        if (schema.contains(limit))
          return (at / limit)
              .error("limits are only supported for type integer");
    return types;
  }

  static bool hasType(const Json &value, std::string_view type) {
    if (type == "integer")
      return value.is_number_integer() ||
             (value.is_number() &&
              std::nearbyint(value.get<double>()) == value.get<double>());
    return type == "object"    ? value.is_object()
           : type == "array"   ? value.is_array()
           : type == "string"  ? value.is_string()
           : type == "number"  ? value.is_number()
           : type == "boolean" ? value.is_boolean()
                               : value.is_null();
  }

  Result constants(const Json &values, const Json &schema, const Pointer &place,
                   const Pointer &at) {
    if (values.size() > kMaxValues)
      return place.error("more than " + std::to_string(kMaxValues) + " values");
    std::vector<std::string> types;
    if (schema.contains("type")) {
      MOE_ASSIGN_OR_RETURN(types, typesOf(schema, at));
    }
    std::vector<ExprId> ways;
    for (const Json &value : values)
      if (types.empty() || std::ranges::any_of(types, [&](const auto &type) {
            return hasType(value, type);
          }))
        ways.push_back(grammar_.bytes(value.dump()));
    return anyOf(std::move(ways));
  }

  Result translateType(std::string_view type, const Json &schema,
                       const Pointer &at, int depth) {
    if (type == "object")
      return translateObject(schema, at, depth);
    if (type == "array")
      return translateArray(schema, at, depth);
    if (type == "string")
      return translateString(schema, at);
    if (type == "integer")
      return translateInteger(schema, at);
    return std::optional(type == "number"    ? text_.number()
                         : type == "boolean" ? text_.boolean()
                                             : text_.null());
  }

  //===--------------------------------------------------------------------===//
  // Objects
  //===--------------------------------------------------------------------===//

  Result translateObject(const Json &schema, const Pointer &at, int depth) {
    static const Json kNone = Json::object(), kNoNames = Json::array(),
                      kAnything = true;
    auto keyword = [&](const char *name, const Json &absent) -> const Json & {
      auto it = schema.find(name);
      return it == schema.end() ? absent : *it;
    };
    const Json &properties = keyword("properties", kNone);
    const Json &required = keyword("required", kNoNames);
    const Json &additional = keyword("additionalProperties", kAnything);
    if (!properties.is_object())
      return (at / "properties").error("expected an object");
    if (!required.is_array())
      return (at / "required").error("expected a list of names");
    std::set<std::string> open, known;
    for (const Json &name : required) {
      if (!name.is_string())
        return (at / "required").error("expected a list of names");
      open.insert(name.get<std::string>());
    }
    std::vector<JsonText::Member> members;
    auto add = [&](const std::string &name, ExprId value) {
      ExprId text = text_.member(grammar_.bytes(Json(name).dump()), value);
      members.push_back({text, open.erase(name) > 0});
      known.insert(name);
    };
    for (const auto &[name, value] : properties.items()) {
      MOE_ASSIGN_OR_RETURN(
          std::optional<ExprId> expr,
          translate(value, at / "properties" / name, depth + 1));
      known.insert(name);
      if (expr)
        add(name, *expr);
      else if (open.contains(name))
        return (at / "properties" / name)
            .error("no value fits this required member");
    }
    MOE_ASSIGN_OR_RETURN(
        std::optional<ExprId> rest,
        translate(additional, at / "additionalProperties", depth + 1));
    // Required names without a schema of their own.
    for (const Json &name : required) {
      if (known.contains(name.get<std::string>()))
        continue;
      if (!rest)
        return (at / "required")
            .error(moert::quoted(name.get<std::string>()) +
                   " is required, but additionalProperties forbids it");
      add(name, *rest);
    }
    // Every text without further members is valid too, and models that are
    // free to add some do.
    const bool isClosed = schema.contains("properties") &&
                          !schema.contains("additionalProperties");
    std::optional<ExprId> more;
    if (rest && !isClosed)
      more = text_.member(
          known.empty() ? text_.string() : text_.stringExcept(known), *rest);
    return std::optional(text_.objectOf(members, more));
  }

  //===--------------------------------------------------------------------===//
  // Lists, strings and integers
  //===--------------------------------------------------------------------===//

  static StatusOr<int32_t> countOf(const Json &schema, const char *name,
                                   int32_t absent, const Pointer &at) {
    auto it = schema.find(name);
    if (it == schema.end())
      return absent;
    if (!it->is_number() || it->get<double>() < 0 ||
        it->get<double>() > kMaxRepetitions || !hasType(*it, "integer"))
      return (at / name).error("expected an integer from 0 to " +
                               std::to_string(kMaxRepetitions));
    return int32_t(it->get<double>());
  }

  Result translateArray(const Json &schema, const Pointer &at, int depth) {
    MOE_ASSIGN_OR_RETURN(int32_t least, countOf(schema, "minItems", 0, at));
    MOE_ASSIGN_OR_RETURN(int32_t most,
                         countOf(schema, "maxItems", Expr::kUnbounded, at));
    std::vector<ExprId> first;
    bool endsEarly = false;
    if (auto it = schema.find("prefixItems"); it != schema.end()) {
      if (!it->is_array())
        return (at / "prefixItems").error("expected a list of schemas");
      for (size_t i = 0; i < it->size() && !endsEarly; ++i) {
        MOE_ASSIGN_OR_RETURN(
            std::optional<ExprId> item,
            translate((*it)[i], at / "prefixItems" / i, depth + 1));
        endsEarly = !item;
        if (item)
          first.push_back(*item);
      }
    }
    std::optional<ExprId> rest;
    if (auto it = schema.find("items"); it == schema.end()) {
      rest = text_.value();
    } else {
      if (it->is_array())
        return (at / "items").error("a list of schemas is called prefixItems");
      MOE_ASSIGN_OR_RETURN(rest, translate(*it, at / "items", depth + 1));
    }
    if (endsEarly)
      rest = std::nullopt;
    bool isTooLong = !rest && least > int32_t(first.size());
    if (isTooLong || (most != Expr::kUnbounded && least > most))
      return std::optional<ExprId>();
    return std::optional(text_.listOf(first, rest, least, most));
  }

  Result translateString(const Json &schema, const Pointer &at) {
    bool hasLength =
        schema.contains("minLength") || schema.contains("maxLength");
    MOE_ASSIGN_OR_RETURN(int32_t least, countOf(schema, "minLength", 0, at));
    MOE_ASSIGN_OR_RETURN(int32_t most,
                         countOf(schema, "maxLength", Expr::kUnbounded, at));
    auto pattern = schema.find("pattern"), format = schema.find("format");
    if (pattern == schema.end() && format == schema.end()) {
      if (most != Expr::kUnbounded && least > most)
        return std::optional<ExprId>();
      return std::optional(hasLength ? text_.stringOfLength(least, most)
                                     : text_.string());
    }
    for (const char *name : {"minLength", "maxLength", "format"})
      if (schema.contains(name) &&
          (pattern != schema.end() || std::string_view(name) != "format"))
        return (at / name).error(
            "this keyword is not supported beside " +
            std::string(pattern != schema.end() ? "pattern" : "format"));
    bool isPattern = pattern != schema.end();
    const Json &word = isPattern ? *pattern : *format;
    const Pointer place = at / (isPattern ? "pattern" : "format");
    if (!word.is_string())
      return place.error("expected a string");
    std::string expression = word.get<std::string>();
    if (!isPattern) {
      const auto *known = std::ranges::find(
          kFormats, std::string_view(expression), &Format::name);
      if (known == std::end(kFormats))
        return place.error("this format is not supported; known ones are date, "
                           "time, date-time, uuid and ipv4");
      expression = known->pattern;
    }
    StatusOr<ExprId> content =
        addRegex(grammar_, expression,
                 isPattern ? RegexMatch::Anywhere : RegexMatch::Whole,
                 JsonText::character);
    if (!content)
      return place.error(content.status().message());
    return std::optional(text_.quoted(*content));
  }

  Result translateInteger(const Json &schema, const Pointer &at) {
    std::optional<int64_t> least, most;
    auto limit = [&](const char *name, std::optional<int64_t> &into,
                     bool isLower, bool isExclusive) {
      auto it = schema.find(name);
      if (it == schema.end())
        return Status::ok();
      // A double represents every integer up to 2^53.
      constexpr double kMost = 9007199254740992.0;
      double value = it->is_number() ? it->get<double>() : NAN;
      if (!(std::abs(value) <= kMost))
        return (at / name).error("expected a number up to 2^53");
      auto bound = int64_t(isLower ? std::ceil(value) : std::floor(value));
      if (isExclusive && double(bound) == value)
        bound += isLower ? 1 : -1;
      if (!into)
        into = bound;
      into = isLower ? std::max(*into, bound) : std::min(*into, bound);
      return Status::ok();
    };
    MOE_RETURN_IF_ERROR(limit("minimum", least, true, false));
    MOE_RETURN_IF_ERROR(limit("exclusiveMinimum", least, true, true));
    MOE_RETURN_IF_ERROR(limit("maximum", most, false, false));
    MOE_RETURN_IF_ERROR(limit("exclusiveMaximum", most, false, true));
    if (least && most && *least > *most)
      return std::optional<ExprId>();
    return std::optional(text_.integersBetween(least, most));
  }

  //===--------------------------------------------------------------------===//
  // oneOf
  //===--------------------------------------------------------------------===//

  /// Follows references, at most a few: circles are not disjoint from anything.
  const Json *resolved(const Json &schema) const {
    const Json *at = &schema;
    for (int i = 0; i < 8 && at && at->is_object() && at->contains("$ref"); ++i)
      at = (*at)["$ref"].is_string()
               ? find((*at)["$ref"].get_ref<const std::string &>())
               : nullptr;
    return at && at->is_object() ? at : nullptr;
  }

  /// Whether it is certain that no value fits both schemas.
  bool areDisjoint(const Json &one, const Json &two, int depth) const {
    const Json *a = resolved(one), *b = resolved(two);
    if (!a || !b || depth > 8)
      return false;
    std::optional<Json> valuesOfA = valuesOf(*a), valuesOfB = valuesOf(*b);
    if (valuesOfA && valuesOfB)
      return std::ranges::none_of(*valuesOfA, [&](const Json &value) {
        return std::ranges::find(*valuesOfB, value) != valuesOfB->end();
      });
    StatusOr<std::vector<std::string>> typesOfA = typesOf(*a, {}),
                                       typesOfB = typesOf(*b, {});
    if (!typesOfA || !typesOfB || !a->contains("type") || !b->contains("type"))
      return false;
    auto isNumber = [](const std::string &type) {
      return type == "integer" || type == "number";
    };
    bool shareType = std::ranges::any_of(*typesOfA, [&](const auto &x) {
      return std::ranges::any_of(*typesOfB, [&](const auto &y) {
        return x == y || (isNumber(x) && isNumber(y));
      });
    });
    if (!shareType)
      return true;
    // Objects that both need a member for which no value fits both.
    if (*typesOfA != std::vector<std::string>{"object"} ||
        *typesOfB != *typesOfA || !a->contains("properties") ||
        !b->contains("properties") || !a->contains("required") ||
        !b->contains("required"))
      return false;
    return std::ranges::any_of((*a)["required"], [&](const Json &name) {
      const Json &ofA = (*a)["properties"], &ofB = (*b)["properties"];
      return name.is_string() && ofA.is_object() && ofB.is_object() &&
             std::ranges::find((*b)["required"], name) !=
                 (*b)["required"].end() &&
             ofA.contains(name.get<std::string>()) &&
             ofB.contains(name.get<std::string>()) &&
             areDisjoint(ofA[name.get<std::string>()],
                         ofB[name.get<std::string>()], depth + 1);
    });
  }

  /// Returns the constants of a schema that consists of constants only.
  static std::optional<Json> valuesOf(const Json &schema) {
    if (schema.contains("const"))
      return Json::array({schema["const"]});
    if (schema.contains("enum") && schema["enum"].is_array())
      return schema["enum"];
    return std::nullopt;
  }

  const Json &root_;
  Grammar grammar_;
  JsonText text_;
  std::set<RuleId> isOpen_; ///< References whose rules have been begun.
};
} // namespace

StatusOr<Grammar> parseJsonSchema(const Json &schema,
                                  const JsonTextOptions &options) {
  return SchemaTranslator(schema, options).run();
}

Grammar jsonObjects(const JsonTextOptions &options) {
  Grammar grammar;
  RuleId root = grammar.declare("root");
  grammar.define(root, JsonText(grammar, options).object());
  return grammar;
}

} // namespace moert
