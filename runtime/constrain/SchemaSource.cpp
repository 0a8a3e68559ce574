#include "runtime/constrain/SchemaSource.h"

#include "runtime/base/Text.h"
#include "runtime/constrain/Formats.h"
#include "runtime/constrain/Regex.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace moert {

using Json = nlohmann::json;
using Source = nlohmann::ordered_json;

Status schemaError(std::string_view pointer, std::string_view message) {
  return Status(StatusCode::Usage,
                "schema at " + moert::quoted("#" + std::string(pointer)) +
                    ": " + std::string(message));
}

namespace {
constexpr int kDeepestSource = 100;
/// Schemas inside each other and beside each other, and values of all enums.
constexpr size_t kMaxSchemas = 100'000;
constexpr size_t kMaxValues = 100'000;
/// Schemas of one list, and names of one object.
constexpr size_t kMaxEntries = 4000, kMaxNames = 20'000;

constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                       "integer", "boolean", "null"};

/// A JSON pointer (RFC 6901).
class Place {
public:
  Place() = default;
  explicit Place(std::string text) : text_(std::move(text)) {}

  Place operator/(std::string_view key) const {
    Place result = *this;
    result.text_ += '/';
    for (char c : key)
      result.text_ += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return result;
  }
  Place operator/(size_t index) const {
    return *this / std::string_view(std::to_string(index));
  }
  Status error(std::string_view message) const {
    return schemaError(text_, message);
  }

private:
  std::string text_;
};

/// The text of a reference without %XX.
std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    auto digit = [&](size_t at) {
      const char c = at < text.size() ? text[at] : 'x';
      return c >= '0' && c <= '9'                     ? c - '0'
             : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                      : -1;
    };
    if (text[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
      result += char(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

class SchemaReader {
public:
  SchemaReader(const Source &root, const Deadline &deadline)
      : root_(root), deadline_(deadline) {}

  StatusOr<SchemaSource> run() {
    MOE_ASSIGN_OR_RETURN(result_.root, read(root_, {}, 0));
    for (size_t i = 0; i < open_.size(); ++i) {
      const std::string reference = open_[i].first;
      const Source *schema = find(reference);
      if (!schema)
        return open_[i].second.error(
            "the schema has no " + moert::quoted(reference) +
            "; references to other documents are not supported");
      const bool isPointer = reference.starts_with("#/");
      MOE_ASSIGN_OR_RETURN(
          Json read,
          this->read(*schema, isPointer ? Place(reference.substr(1)) : Place(),
                     0));
      result_.references[reference] = std::move(read);
    }
    return std::move(result_);
  }

private:
  /// A schema that is being read.
  struct Words {
    const Source &from;
    const Place &at;
    int depth;
    Json to = Json::object();

    const Source *find(const char *name) const {
      auto it = from.find(name);
      return it == from.end() ? nullptr : &*it;
    }
  };

  StatusOr<Json> read(const Source &schema, const Place &at, int depth) {
    if (depth > kDeepestSource)
      return at.error("schemas are nested too deep");
    if (++count_ > kMaxSchemas)
      return at.error("the whole has more than " + std::to_string(kMaxSchemas) +
                      " schemas");
    MOE_RETURN_IF_ERROR(deadline_.check(kCompilingSchema));
    if (schema.is_boolean())
      return Json(schema.get<bool>());
    if (!schema.is_object())
      return at.error("a schema is an object or a boolean");
    Words words{schema, at, depth};
    MOE_RETURN_IF_ERROR(readReference(words));
    MOE_RETURN_IF_ERROR(readTypes(words));
    MOE_RETURN_IF_ERROR(readConstants(words));
    MOE_RETURN_IF_ERROR(readNumbers(words));
    MOE_RETURN_IF_ERROR(readTexts(words));
    MOE_RETURN_IF_ERROR(readObjects(words));
    MOE_RETURN_IF_ERROR(readLists(words));
    MOE_RETURN_IF_ERROR(readCombinations(words));
    if (auto other = words.to.find("not"); other != words.to.end()) {
      if (*other == true || other->empty())
        return Json(false);
      if (*other == false)
        words.to.erase(other);
    }
    return withNull(std::move(words));
  }

  /// Handles OpenAPI's `nullable`.
  static Json withNull(Words words) {
    const Source *nullable = words.find("nullable");
    if (!nullable || *nullable != true)
      return std::move(words.to);
    if (words.to.contains("type") && !words.to.contains("enum") &&
        !words.to.contains("anyOf") && !words.to.contains("oneOf")) {
      words.to["type"].push_back("null");
      return std::move(words.to);
    }
    return Json{{"anyOf", {std::move(words.to), {{"type", {"null"}}}}}};
  }

  //===--------------------------------------------------------------------===//
  // References
  //===--------------------------------------------------------------------===//

  Status readReference(Words &words) {
    for (const char *name : {"$ref", "$dynamicRef", "$recursiveRef"}) {
      const Source *value = words.find(name);
      if (!value)
        continue;
      if (!value->is_string())
        return (words.at / name).error("expected a string");
      const auto reference = decoded(value->get<std::string>());
      if (name[1] != 'r' && countAnchors(root_, reference, 0) > 1)
        return (words.at / name)
            .error("what " + moert::quoted(reference) +
                   " refers to depends on the place from which it is reached, "
                   "which is not supported");
      if (seen_.insert(reference).second)
        open_.push_back({reference, words.at / name});
      if (words.to.contains("$ref"))
        words.to["allOf"].push_back({{"$ref", reference}});
      else
        words.to["$ref"] = reference;
    }
    return Status::ok();
  }

  /// Returns the schema that a reference names; null where there is none.
  const Source *find(const std::string &reference) const {
    if (reference == "#")
      return &root_;
    if (reference.starts_with("#/")) {
      try {
        const Source::json_pointer pointer(reference.substr(1));
        return root_.contains(pointer) ? &root_.at(pointer) : nullptr;
      } catch (
          const Source::exception &) { // For example, an index is no number.
        return nullptr;
      }
    }
    return findNamed(root_, reference, 0);
  }

  /// Looks for `$anchor` and `$id`.
  static const Source *findNamed(const Source &schema,
                                 const std::string &reference, int depth) {
    if (depth > 2 * kDeepestSource || !schema.is_structured())
      return nullptr;
    if (schema.is_object()) {
      for (const char *name : {"$anchor", "$dynamicAnchor"})
        if (auto it = schema.find(name);
            it != schema.end() && it->is_string() &&
            "#" + it->get<std::string>() == reference)
          return &schema;
      for (const char *name : {"$id", "id"})
        if (auto it = schema.find(name);
            it != schema.end() && it->is_string() &&
            isSameId(it->get_ref<const std::string &>(), reference))
          return &schema;
    }
    for (const Source &value : schema)
      if (const Source *found = findNamed(value, reference, depth + 1))
        return found;
    return nullptr;
  }

  static size_t countAnchors(const Source &schema, const std::string &reference,
                             int depth) {
    if (depth > 2 * kDeepestSource || !schema.is_structured())
      return 0;
    size_t count = 0;
    for (const char *name : {"$anchor", "$dynamicAnchor"})
      if (schema.is_object() && schema.contains(name) &&
          schema[name].is_string() &&
          reference.ends_with("#" + schema[name].get<std::string>()))
        ++count;
    for (const Source &value : schema)
      count += countAnchors(value, reference, depth + 1);
    return count;
  }

  static bool isSameId(const std::string &id, const std::string &reference) {
    auto name = [](std::string text) {
      if (text.ends_with("#"))
        text.pop_back();
      return text;
    };
    auto last = [](const std::string &text) {
      return text.substr(text.rfind('/') + 1);
    };
    const std::string one = name(id), two = name(reference);
    return !one.empty() &&
           (one == two || (two.find("://") == two.npos && last(one) == two));
  }

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//

  static Status readTypes(Words &words) {
    const Source *type = words.find("type");
    if (!type)
      return Status::ok();
    std::vector<Source> list = type->is_array()
                                   ? type->get<std::vector<Source>>()
                                   : std::vector<Source>{*type};
    std::set<std::string> types;
    for (const Source &each : list) {
      if (!each.is_string() ||
          std::ranges::find(
              kTypes, std::string_view(each.get_ref<const std::string &>())) ==
              std::end(kTypes))
        return (words.at / "type")
            .error("expected object, array, string, number, integer, boolean "
                   "or null");
      types.insert(each.get<std::string>());
    }
    if (types.empty())
      return (words.at / "type").error("expected a type");
    words.to["type"] = types;
    return Status::ok();
  }

  Status readConstants(Words &words) {
    if (const Source *list = words.find("enum")) {
      if (!list->is_array())
        return (words.at / "enum").error("expected a list");
      MOE_RETURN_IF_ERROR(countValues(*list, words.at / "enum"));
      words.to["enum"] = Json(*list);
    }
    if (const Source *value = words.find("const")) {
      MOE_RETURN_IF_ERROR(countValues(*value, words.at / "const"));
      const Json list = Json::array({Json(*value)});
      if (words.to.contains("enum"))
        words.to["allOf"].push_back({{"enum", list}});
      else
        words.to["enum"] = list;
    }
    return Status::ok();
  }

  static bool isDeeper(const Source &value, int depth) {
    if (!value.is_structured())
      return false;
    return depth == 0 || std::ranges::any_of(value, [&](const Source &inner) {
             return isDeeper(inner, depth - 1);
           });
  }

  Status countValues(const Source &list, const Place &at) {
    if (isDeeper(list, kDeepestSource))
      return at.error("values are nested too deep");
    const size_t more = list.size();
    values_ += more;
    if (values_ > kMaxValues)
      return at.error("the whole has more than " + std::to_string(kMaxValues) +
                      " values");
    return Status::ok();
  }

  static Status readNumbers(Words &words) {
    for (const char *name :
         {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      const Source *value = words.find(name);
      if (!value)
        continue;
      const bool isFlag = name[0] == 'e' && value->is_boolean();
      if (!value->is_number() && !isFlag)
        return (words.at / name).error("expected a number");
      if (!isFlag)
        words.to[name] = Json(*value);
    }
    // In draft 4, `exclusiveMinimum` and `exclusiveMaximum` are flags of the
    // other bounds.
    for (auto [flag, bound] : {std::pair{"exclusiveMinimum", "minimum"},
                               {"exclusiveMaximum", "maximum"}})
      if (const Source *value = words.find(flag);
          value && *value == true && words.to.contains(bound)) {
        words.to[flag] = words.to[bound];
        words.to.erase(bound);
      }
    if (const Source *value = words.find("multipleOf")) {
      if (!value->is_number() || !(value->get<double>() > 0))
        return (words.at / "multipleOf").error("expected a number above 0");
      words.to["multipleOf"] = Json::array({Json(*value)});
    }
    return Status::ok();
  }

  static Status readTexts(Words &words) {
    MOE_RETURN_IF_ERROR(readCounts(words, {"minLength", "maxLength"}));
    if (const Source *pattern = words.find("pattern")) {
      MOE_RETURN_IF_ERROR(checkPattern(*pattern, words.at / "pattern"));
      words.to["pattern"] = Json::array({Json(*pattern)});
    }
    if (const Source *format = words.find("format")) {
      if (!format->is_string())
        return (words.at / "format").error("expected a string");
      const auto &name = format->get_ref<const std::string &>();
      if (patternOfFormat(name) || name == "regex")
        words.to["format"] = Json::array({name});
    }
    return Status::ok();
  }

  static Status checkPattern(const Source &pattern, const Place &at) {
    if (!pattern.is_string())
      return at.error("expected a string");
    StatusOr<Pattern> parsed = parsePattern(
        pattern.get_ref<const std::string &>(), RegexMatch::Anywhere);
    return parsed ? Status::ok() : at.error(parsed.status().message());
  }

  static Status readCounts(Words &words,
                           std::initializer_list<const char *> names) {
    for (const char *name : names) {
      const Source *value = words.find(name);
      if (!value)
        continue;
      const double count = value->is_number() ? value->get<double>() : -1;
      if (!(count >= 0) || std::floor(count) != count)
        return (words.at / name).error("expected an integer from 0 on");
      words.to[name] = int64_t(std::min(count, double(INT32_MAX)));
    }
    return Status::ok();
  }

  //===--------------------------------------------------------------------===//
  // Objects, lists and combinations
  //===--------------------------------------------------------------------===//

  Status readSchemas(Words &words, std::initializer_list<const char *> names) {
    for (const char *name : names)
      if (const Source *value = words.find(name)) {
        MOE_ASSIGN_OR_RETURN(words.to[name],
                             read(*value, words.at / name, words.depth + 1));
      }
    return Status::ok();
  }

  /// Reads an object whose members are schemas.
  Status readSchemasByName(Words &words, const char *name) {
    const Source *value = words.find(name);
    if (!value)
      return Status::ok();
    const Place at = words.at / name;
    if (!value->is_object())
      return at.error("expected an object");
    MOE_RETURN_IF_ERROR(checkNames(*value, at));
    Json &to = words.to[name] = Json::object();
    for (const auto &[key, schema] : value->items()) {
      if (std::string_view(name) == "patternProperties")
        MOE_RETURN_IF_ERROR(checkPattern(Source(key), at / key));
      MOE_ASSIGN_OR_RETURN(to[key], read(schema, at / key, words.depth + 1));
    }
    return Status::ok();
  }

  static Status checkEntries(const Source &list, const Place &at) {
    if (list.size() > kMaxEntries)
      return at.error("more than " + std::to_string(kMaxEntries) + " schemas");
    return Status::ok();
  }

  static Status checkNames(const Source &names, const Place &at) {
    if (names.size() > kMaxNames)
      return at.error("more than " + std::to_string(kMaxNames) + " names");
    return Status::ok();
  }

  StatusOr<Json> readList(const Source &list, const Place &at, int depth) {
    if (!list.is_array())
      return at.error("expected a list of schemas");
    MOE_RETURN_IF_ERROR(checkEntries(list, at));
    Json result = Json::array();
    for (size_t i = 0; i < list.size(); ++i) {
      MOE_ASSIGN_OR_RETURN(Json each, read(list[i], at / i, depth + 1));
      result.push_back(std::move(each));
    }
    return result;
  }

  static StatusOr<Json> readNames(const Source &list, const Place &at) {
    std::set<std::string> names;
    for (const Source &name : list) {
      if (!list.is_array() || !name.is_string())
        return at.error("expected a list of names");
      names.insert(name.get<std::string>());
    }
    return Json(names);
  }

  Status readObjects(Words &words) {
    MOE_RETURN_IF_ERROR(readCounts(words, {"minProperties", "maxProperties"}));
    MOE_RETURN_IF_ERROR(readSchemasByName(words, "properties"));
    MOE_RETURN_IF_ERROR(readSchemasByName(words, "patternProperties"));
    MOE_RETURN_IF_ERROR(readSchemasByName(words, "dependentSchemas"));
    MOE_RETURN_IF_ERROR(
        readSchemas(words, {"additionalProperties", "propertyNames",
                            "unevaluatedProperties"}));
    // Draft 3 has a boolean in the property's schema, which says nothing of the
    // property's value.
    if (const Source *names = words.find("required");
        names && !names->is_boolean()) {
      if (!names->is_array())
        return (words.at / "required").error("expected a list of names");
      MOE_RETURN_IF_ERROR(checkNames(*names, words.at / "required"));
      MOE_ASSIGN_OR_RETURN(words.to["required"],
                           readNames(*names, words.at / "required"));
    }
    for (const char *name : {"dependentRequired", "dependencies"}) {
      const Source *value = words.find(name);
      if (!value)
        continue;
      const Place at = words.at / name;
      if (!value->is_object())
        return at.error("expected an object");
      for (const auto &[key, needed] : value->items()) {
        if (needed.is_array()) {
          MOE_ASSIGN_OR_RETURN(words.to["dependentRequired"][key],
                               readNames(needed, at / key));
        } else if (std::string_view(name) == "dependencies") {
          MOE_ASSIGN_OR_RETURN(words.to["dependentSchemas"][key],
                               read(needed, at / key, words.depth + 1));
        } else {
          return (at / key).error("expected a list of names");
        }
      }
    }
    return Status::ok();
  }

  Status readLists(Words &words) {
    MOE_RETURN_IF_ERROR(readCounts(words, {"minItems", "maxItems"}));
    if (words.find("contains"))
      MOE_RETURN_IF_ERROR(readCounts(words, {"minContains", "maxContains"}));
    const char *rest = "items";
    const Source *items = words.find("items");
    const Source *first = words.find("prefixItems");
    const bool isOld = items && items->is_array();
    if (isOld) {
      first = items;
      rest = "additionalItems";
    }
    if (first) {
      MOE_ASSIGN_OR_RETURN(
          words.to["prefixItems"],
          readList(*first, words.at / (isOld ? "items" : "prefixItems"),
                   words.depth));
    }
    if (const Source *value = words.find(rest)) {
      MOE_ASSIGN_OR_RETURN(words.to["items"],
                           read(*value, words.at / rest, words.depth + 1));
    }
    MOE_RETURN_IF_ERROR(readSchemas(words, {"contains", "unevaluatedItems"}));
    if (const Source *unique = words.find("uniqueItems")) {
      if (!unique->is_boolean())
        return (words.at / "uniqueItems").error("expected true or false");
      if (unique->get<bool>())
        words.to["uniqueItems"] = true;
    }
    return Status::ok();
  }

  Status readCombinations(Words &words) {
    MOE_RETURN_IF_ERROR(readSchemas(words, {"not"}));
    if (words.find("if"))
      MOE_RETURN_IF_ERROR(readSchemas(words, {"if", "then", "else"}));
    for (const char *name : {"anyOf", "oneOf", "allOf"}) {
      const Source *list = words.find(name);
      if (!list)
        continue;
      MOE_ASSIGN_OR_RETURN(Json schemas,
                           readList(*list, words.at / name, words.depth));
      if (schemas.empty())
        return (words.at / name).error("expected a list that is not empty");
      // References and constants may have added some.
      for (Json &schema : schemas)
        words.to[name].push_back(std::move(schema));
    }
    return Status::ok();
  }

  const Source &root_;
  const Deadline deadline_;
  SchemaSource result_;
  std::set<std::string> seen_; ///< References that were followed.
  std::vector<std::pair<std::string, Place>> open_;
  size_t count_ = 0, values_ = 0;
};
} // namespace

StatusOr<SchemaSource> SchemaSource::read(const Source &schema,
                                          const Deadline &deadline) {
  return SchemaReader(schema, deadline).run();
}

} // namespace moert
