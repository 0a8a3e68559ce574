#include "runtime/constrain/SchemaMerge.h"

#include "runtime/constrain/SchemaValidator.h"

#include <algorithm>
#include <set>

namespace moert {

using Json = nlohmann::json;

namespace {
/// More ways are not written out: the combination is then only checked.
constexpr size_t kMostWays = 64;
/// The limit if each choice is added to a few keywords of few entries.
constexpr size_t kMostSmallWays = 4096;
constexpr size_t kSmall = 8;
/// References and combinations inside each other for the same value.
constexpr int kDeepestMerge = 32;
/// Schemas that are merged into one.
constexpr int kMostMerged = 5000;
/// Keywords that are looked at when a value is complete.
constexpr const char *kOnlyChecked[] = {"not", "dependentRequired",
                                        "dependentSchemas", "unevaluatedItems",
                                        "unevaluatedProperties"};
/// Keywords whose schemas are merged with the others.
constexpr const char *kMerged[] = {"$ref", "allOf", "anyOf", "oneOf",
                                   "if",   "then",  "else"};

bool isSmall(const Json &way) {
  return way.size() <= kSmall &&
         std::ranges::all_of(way, [](const Json &value) {
           return value.size() <= kSmall &&
                  std::ranges::none_of(value, &Json::is_structured);
         });
}

bool isCombination(const std::string &word) {
  return std::ranges::find(kOnlyChecked, word) != std::end(kOnlyChecked) ||
         std::ranges::find(kMerged, word) != std::end(kMerged);
}

Json both(const Json &one, const Json &two) {
  if (one == true || one == two)
    return two;
  if (two == true)
    return one;
  return {{"allOf", {one, two}}};
}

/// Adds the keywords of one schema, without its combinations, to those of
/// another one.
class WordMerger {
public:
  explicit WordMerger(Json &to) : to_(to) {}

  /// Returns false if some could not be added.
  bool add(const Json &from) {
    closeNames(from);
    // The meaning of `items` depends on `prefixItems` beside it.
    const bool hasLists =
        (to_.contains("items") || to_.contains("prefixItems")) &&
        (from.contains("items") || from.contains("prefixItems"));
    const bool skipsLists = hasLists && (to_.contains("prefixItems") ||
                                         from.contains("prefixItems"));
    isExact_ &= !skipsLists;
    for (const auto &[word, value] : from.items())
      if (!isCombination(word) &&
          (!skipsLists || !isAnyOf(word, {"items", "prefixItems"})))
        addWord(word, value);
    return isExact_;
  }

private:
  static bool isAnyOf(const std::string &word,
                      std::initializer_list<const char *> words) {
    return std::ranges::find(words, word) != words.end();
  }

  /// Names that one of them lists are additional ones of the other.
  void closeNames(const Json &from) {
    const bool hasPatterns =
        to_.contains("patternProperties") || from.contains("patternProperties");
    auto close = [&](const Json &closed, const Json &other) {
      std::vector<std::pair<std::string, Json>> found;
      auto rest = closed.find("additionalProperties");
      auto names = other.find("properties");
      if (rest == closed.end() || *rest == true || names == other.end())
        return found;
      auto known = closed.find("properties");
      for (const auto &[name, schema] : names->items())
        if (known == closed.end() || !known->contains(name))
          found.emplace_back(name, *rest);
      return found;
    };
    auto forOld = close(from, to_), forNew = close(to_, from);
    if (hasPatterns && (!forOld.empty() || !forNew.empty())) {
      isExact_ = false;
      return;
    }
    for (auto *list : {&forOld, &forNew})
      for (auto &[name, schema] : *list) {
        Json &properties = to_["properties"];
        auto it = properties.find(name);
        properties[name] = it == properties.end() ? schema : both(*it, schema);
      }
  }

  void addWord(const std::string &word, const Json &value) {
    auto it = to_.find(word);
    if (it == to_.end()) {
      to_[word] = value;
      return;
    }
    Json &known = *it;
    if (known == value)
      return;
    if (word == "type")
      known = commonTypes(known, value);
    else if (word == "enum")
      known = commonValues(known, value);
    else if (isAnyOf(word, {"minimum", "exclusiveMinimum", "minLength",
                            "minItems", "minProperties"}))
      known = std::max(known, value);
    else if (isAnyOf(word, {"maximum", "exclusiveMaximum", "maxLength",
                            "maxItems", "maxProperties"}))
      known = std::min(known, value);
    else if (isAnyOf(word, {"pattern", "format", "multipleOf", "required"}))
      addAll(known, value);
    else if (isAnyOf(word, {"properties", "patternProperties"}))
      addSchemas(known, value);
    else if (isAnyOf(word, {"additionalProperties", "propertyNames", "items"}))
      known = both(known, value);
    else
      isExact_ = false;
  }

  static Json commonTypes(const Json &one, const Json &two) {
    std::set<std::string> common;
    auto add = [&](const Json &from, const Json &other) {
      for (const Json &type : from)
        if (std::ranges::find(other, type) != other.end() ||
            (type == "integer" &&
             std::ranges::find(other, Json("number")) != other.end()))
          common.insert(type.get<std::string>());
    };
    add(one, two);
    add(two, one);
    return common;
  }

  static Json commonValues(const Json &one, const Json &two) {
    // Sorted, so that long lists take no long time.
    auto isLess = [](const Json *a, const Json *b) { return *a < *b; };
    std::set<const Json *, decltype(isLess)> known;
    for (const Json &value : two)
      known.insert(&value);
    Json common = Json::array();
    for (const Json &value : one)
      if (known.contains(&value))
        common.push_back(value);
    return common;
  }

  static void addAll(Json &known, const Json &more) {
    std::set<Json> all(known.begin(), known.end());
    all.insert(more.begin(), more.end());
    known = all;
  }

  static void addSchemas(Json &known, const Json &more) {
    for (const auto &[name, schema] : more.items()) {
      auto it = known.find(name);
      known[name] = it == known.end() ? schema : both(*it, schema);
    }
  }

  Json &to_;
  bool isExact_ = true;
};

class Merger {
public:
  Merger(const SchemaSource &source, const Deadline &deadline)
      : source_(source), deadline_(deadline) {}

  StatusOr<MergedSchema> run(const Json &schema) {
    std::vector<Json> ways = {Json::object()};
    add(ways, schema, 0);
    MOE_RETURN_IF_ERROR(deadline_.check(kCompilingSchema));
    return MergedSchema{std::move(ways), isExact_};
  }

private:
  /// Adds a schema to each of the ways.
  void add(std::vector<Json> &ways, const Json &schema, int depth) {
    if (schema.is_boolean()) {
      if (schema == false)
        ways.clear();
      return;
    }
    // References can double the schemas that are merged.
    if (depth > kDeepestMerge || --left_ < 0 || deadline_.hasPassed()) {
      isExact_ = false;
      return;
    }
    for (Json &way : ways)
      if (!deadline_.hasPassed())
        isExact_ &= WordMerger(way).add(schema);
    if (auto it = schema.find("$ref"); it != schema.end())
      add(ways, source_.references.at(it->get<std::string>()), depth + 1);
    if (auto all = schema.find("allOf"); all != schema.end())
      for (const Json &each : *all)
        add(ways, each, depth + 1);
    for (const char *name : {"anyOf", "oneOf"}) {
      auto list = schema.find(name);
      if (list == schema.end())
        continue;
      if (name[0] == 'o' && !areDisjoint(*list, source_))
        isExact_ = false;
      addChoice(ways, *list, depth);
    }
    if (auto condition = schema.find("if"); condition != schema.end()) {
      isExact_ = false;
      const Json none = true;
      auto branch = [&](const char *name) -> const Json & {
        auto it = schema.find(name);
        return it == schema.end() ? none : *it;
      };
      addChoice(ways,
                Json::array({both(*condition, branch("then")), branch("else")}),
                depth);
    }
    for (const char *word : kOnlyChecked)
      if (schema.contains(word))
        isExact_ = false;
    // The values that unevaluatedProperties allows are then checked.
    if (schema.contains("unevaluatedProperties"))
      for (Json &way : ways)
        if (!way.contains("additionalProperties"))
          way["additionalProperties"] = true;
  }

  void addChoice(std::vector<Json> &ways, const Json &choices, int depth) {
    const bool areSmall = std::ranges::all_of(ways, isSmall);
    const size_t most = areSmall ? kMostSmallWays : kMostWays;
    if (choices.size() * ways.size() > most) {
      isExact_ = false;
      return;
    }
    std::vector<Json> all;
    for (const Json &choice : choices) {
      std::vector<Json> copy = ways;
      add(copy, choice, depth + 1);
      all.insert(all.end(), copy.begin(), copy.end());
    }
    if (all.size() > most)
      isExact_ = false; // Goes on with the former list.
    else
      ways = std::move(all);
  }

  const SchemaSource &source_;
  const Deadline &deadline_;
  bool isExact_ = true;
  int left_ = kMostMerged;
};

} // namespace

const Json *resolved(const Json &schema, const SchemaSource &source) {
  const Json *at = &schema;
  for (int i = 0; i < kDeepestMerge && at->is_object() &&
                  at->contains("$ref") && at->size() == 1;
       ++i)
    at = &source.references.at((*at)["$ref"].get<std::string>());
  return at->is_object() ? at : nullptr;
}

namespace {
/// The kinds of values that a schema accepts: its types, numbers as one.
std::set<std::string> kindsOf(const Json &schema) {
  std::set<std::string> kinds;
  auto types = schema.find("type");
  if (types != schema.end()) {
    for (const Json &type : *types)
      kinds.insert(type == "integer" ? "number" : type.get<std::string>());
  } else if (auto values = schema.find("enum"); values != schema.end()) {
    for (const Json &value : *values)
      kinds.insert(value.is_number() ? "number" : value.type_name());
  } else {
    kinds = {"object", "array", "string", "number", "boolean", "null"};
  }
  return kinds;
}

/// Whether no value is in two of the lists, and each schema has one.
bool haveDistinctValues(const std::vector<const Json *> &schemas) {
  // Each with the number of its schema.
  std::vector<std::pair<const Json *, size_t>> values;
  for (size_t i = 0; i < schemas.size(); ++i) {
    const Json *schema = schemas[i];
    if (!schema || !schema->is_object() || !schema->contains("enum"))
      return false;
    for (const Json &value : (*schema)["enum"])
      values.emplace_back(&value, i);
  }
  std::ranges::sort(
      values, [](const auto &a, const auto &b) { return *a.first < *b.first; });
  return std::ranges::adjacent_find(values, [](const auto &a, const auto &b) {
           return a.second != b.second && *a.first == *b.first;
         }) == values.end();
}

/// Whether objects of these schemas differ in a member that all of them need.
bool haveDistinctMember(const std::vector<const Json *> &schemas,
                        const SchemaSource &source) {
  auto needed = schemas[0]->find("required");
  if (needed == schemas[0]->end())
    return false;
  return std::ranges::any_of(*needed, [&](const Json &name) {
    std::vector<const Json *> members;
    for (const Json *schema : schemas) {
      auto required = schema->find("required");
      auto properties = schema->find("properties");
      const auto key = name.get<std::string>();
      if (required == schema->end() || properties == schema->end() ||
          std::ranges::find(*required, name) == required->end() ||
          !properties->contains(key))
        return false;
      members.push_back(resolved((*properties)[key], source));
    }
    return haveDistinctValues(members);
  });
}
} // namespace

bool isCombined(const Json &schema) {
  return std::ranges::any_of(schema.items(), [](const auto &entry) {
    return isCombination(entry.key());
  });
}

StatusOr<MergedSchema> mergedSchema(const Json &schema,
                                    const SchemaSource &source,
                                    const Deadline &deadline) {
  return Merger(source, deadline).run(schema);
}

bool areDisjoint(const Json &schemas, const SchemaSource &source) {
  if (schemas.size() < 2)
    return true;
  std::map<std::string, std::vector<const Json *>> byKind;
  std::vector<const Json *> all;
  for (const Json &schema : schemas) {
    if (schema == false)
      continue;
    const Json *words = resolved(schema, source);
    if (!words)
      return false;
    all.push_back(words);
    for (const std::string &kind : kindsOf(*words))
      byKind[kind].push_back(words);
  }
  if (haveDistinctValues(all))
    return true;
  return std::ranges::all_of(byKind, [&](const auto &entry) {
    return entry.second.size() < 2 || haveDistinctValues(entry.second) ||
           (entry.first == "object" &&
            haveDistinctMember(entry.second, source));
  });
}

} // namespace moert
