#include "runtime/constrain/SchemaValidator.h"

#include "runtime/constrain/Decimal.h"
#include "runtime/constrain/Formats.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::json;

/// Schemas that refer to each other for the same value, and values inside each
/// other.
static constexpr int kDeepestValue = 1000;

bool areEqual(const Json &one, const Json &two) {
  // Numbers are compared by value, and booleans are none; objects in any order.
  return one == two;
}

bool areUnique(const Json &list) {
  std::vector<const Json *> sorted;
  for (const Json &item : list)
    sorted.push_back(&item);
  // The order of a mixture of types is by type.
  std::ranges::sort(sorted,
                    [](const Json *a, const Json *b) { return *a < *b; });
  return std::ranges::adjacent_find(sorted, [](const Json *a, const Json *b) {
           return areEqual(*a, *b);
         }) == sorted.end();
}

bool isOfType(const Json &value, std::string_view type) {
  if (type == "integer")
    return value.is_number() && Decimal::of(value).isInteger();
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "number"  ? value.is_number()
         : type == "boolean" ? value.is_boolean()
                             : value.is_null();
}

static int64_t countOf(const Json &schema, const char *name, int64_t absent) {
  auto it = schema.find(name);
  return it == schema.end() ? absent : it->get<int64_t>();
}

bool SchemaValidator::accepts(const Json &schema, const Json &value,
                              Call call) const {
  if (schema.is_boolean())
    return schema.get<bool>();
  if (call.depth > kDeepestValue || --*call.left < 0)
    return false;
  if (auto types = schema.find("type"); types != schema.end())
    if (std::ranges::none_of(*types, [&](const Json &type) {
          return isOfType(value, type.get_ref<const std::string &>());
        }))
      return false;
  if (auto values = schema.find("enum"); values != schema.end())
    if (std::ranges::none_of(
            *values, [&](const Json &each) { return areEqual(each, value); }))
      return false;
  return (!value.is_number() || acceptsNumber(schema, value)) &&
         (!value.is_string() ||
          acceptsText(schema, value.get_ref<const std::string &>())) &&
         acceptsCombined(schema, value, call) &&
         (!value.is_array() || acceptsList(schema, value, call)) &&
         (!value.is_object() || acceptsObject(schema, value, call));
}

bool SchemaValidator::acceptsNumber(const Json &schema,
                                    const Json &value) const {
  const Decimal number = Decimal::of(value);
  auto bound = [&](const char *name) -> std::optional<Decimal> {
    auto it = schema.find(name);
    if (it == schema.end())
      return std::nullopt;
    return Decimal::of(*it);
  };
  if (auto least = bound("minimum"); least && number < *least)
    return false;
  if (auto most = bound("maximum"); most && number > *most)
    return false;
  if (auto least = bound("exclusiveMinimum"); least && number <= *least)
    return false;
  if (auto most = bound("exclusiveMaximum"); most && number >= *most)
    return false;
  auto divisors = schema.find("multipleOf");
  return divisors == schema.end() ||
         std::ranges::all_of(*divisors, [&](const Json &divisor) {
           return isMultiple(number, Decimal::of(divisor));
         });
}

bool SchemaValidator::matches(const std::string &pattern,
                              const std::string &text) const {
  std::shared_ptr<const Pattern> parsed;
  {
    std::lock_guard lock(mutex_);
    auto [it, isNew] = patterns_.try_emplace(pattern);
    if (isNew)
      if (auto made = parsePattern(pattern, RegexMatch::Anywhere))
        it->second = std::make_shared<const Pattern>(*std::move(made));
    parsed = it->second;
  }
  return parsed && parsed->matches(text);
}

bool SchemaValidator::acceptsText(const Json &schema,
                                  const std::string &text) const {
  if (schema.contains("minLength") || schema.contains("maxLength")) {
    const auto length = int64_t(std::ranges::count_if(
        text, [](char c) { return (uint8_t(c) & 0xC0) != 0x80; }));
    const int64_t most = countOf(schema, "maxLength", INT32_MAX);
    if (length < countOf(schema, "minLength", 0) ||
        (most < INT32_MAX && length > most))
      return false;
  }
  if (auto patterns = schema.find("pattern"); patterns != schema.end())
    for (const Json &pattern : *patterns)
      if (!matches(pattern.get_ref<const std::string &>(), text))
        return false;
  if (auto formats = schema.find("format"); formats != schema.end())
    for (const Json &name : *formats) {
      const auto &format = name.get_ref<const std::string &>();
      const Pattern *pattern = patternOfFormat(format);
      if (pattern ? !pattern->matches(text)
                  : format == "regex" &&
                        !BacktrackingRegex::compile(text, RegexMatch::Anywhere))
        return false;
    }
  return true;
}

bool SchemaValidator::acceptsList(const Json &schema, const Json &value,
                                  Call call) const {
  const auto size = int64_t(value.size());
  if (size < countOf(schema, "minItems", 0) ||
      size > countOf(schema, "maxItems", INT32_MAX))
    return false;
  size_t begin = 0;
  if (auto first = schema.find("prefixItems"); first != schema.end()) {
    for (; begin < std::min(first->size(), value.size()); ++begin)
      if (!accepts((*first)[begin], value[begin], call + 1))
        return false;
  }
  if (auto items = schema.find("items"); items != schema.end())
    for (size_t i = begin; i < value.size(); ++i)
      if (!accepts(*items, value[i], call + 1))
        return false;
  if (schema.contains("uniqueItems") && !areUnique(value))
    return false;
  if (auto item = schema.find("contains"); item != schema.end()) {
    const auto found =
        int64_t(std::ranges::count_if(value, [&](const Json &each) {
          return accepts(*item, each, call + 1);
        }));
    if (found < countOf(schema, "minContains", 1) ||
        found > countOf(schema, "maxContains", size))
      return false;
  }
  if (auto other = schema.find("unevaluatedItems"); other != schema.end()) {
    std::set<size_t> evaluated;
    addEvaluated(schema, value, call, evaluated);
    for (size_t i = 0; i < value.size(); ++i)
      if (!evaluated.contains(i) && !accepts(*other, value[i], call + 1))
        return false;
  }
  return true;
}

bool SchemaValidator::acceptsObject(const Json &schema, const Json &value,
                                    Call call) const {
  const auto size = int64_t(value.size());
  if (size < countOf(schema, "minProperties", 0) ||
      size > countOf(schema, "maxProperties", INT32_MAX))
    return false;
  auto find = [&](const char *name) -> const Json * {
    auto it = schema.find(name);
    return it == schema.end() ? nullptr : &*it;
  };
  auto hasAll = [&](const Json &names) {
    return std::ranges::all_of(names, [&](const Json &name) {
      return value.contains(name.get_ref<const std::string &>());
    });
  };
  if (const Json *names = find("required"); names && !hasAll(*names))
    return false;
  if (const Json *needed = find("dependentRequired"))
    for (const auto &[name, names] : needed->items())
      if (value.contains(name) && !hasAll(names))
        return false;
  if (const Json *needed = find("dependentSchemas"))
    for (const auto &[name, other] : needed->items())
      if (value.contains(name) && !accepts(other, value, call + 1))
        return false;
  const Json *properties = find("properties"),
             *patterns = find("patternProperties"),
             *additional = find("additionalProperties"),
             *names = find("propertyNames");
  for (const auto &[name, member] : value.items()) {
    if (names && !accepts(*names, Json(name), call + 1))
      return false;
    bool isKnown = false;
    if (properties && properties->contains(name)) {
      isKnown = true;
      if (!accepts((*properties)[name], member, call + 1))
        return false;
    }
    if (patterns)
      for (const auto &[pattern, other] : patterns->items()) {
        if (!matches(pattern, name))
          continue;
        isKnown = true;
        if (!accepts(other, member, call + 1))
          return false;
      }
    if (additional && !isKnown && !accepts(*additional, member, call + 1))
      return false;
  }
  if (const Json *other = find("unevaluatedProperties")) {
    std::set<std::string> evaluated;
    addEvaluated(schema, value, call, evaluated);
    for (const auto &[name, member] : value.items())
      if (!evaluated.contains(name) && !accepts(*other, member, call + 1))
        return false;
  }
  return true;
}

bool SchemaValidator::acceptsCombined(const Json &schema, const Json &value,
                                      Call call) const {
  auto accept = [&](const Json &other) {
    return accepts(other, value, call + 1);
  };
  if (auto reference = schema.find("$ref"); reference != schema.end()) {
    auto it = source_.references.find(reference->get<std::string>());
    if (it == source_.references.end() || !accept(it->second))
      return false;
  }
  if (auto all = schema.find("allOf");
      all != schema.end() && !std::ranges::all_of(*all, accept))
    return false;
  if (auto any = schema.find("anyOf");
      any != schema.end() && std::ranges::none_of(*any, accept))
    return false;
  if (auto one = schema.find("oneOf");
      one != schema.end() && std::ranges::count_if(*one, accept) != 1)
    return false;
  if (auto other = schema.find("not"); other != schema.end() && accept(*other))
    return false;
  if (auto condition = schema.find("if"); condition != schema.end()) {
    auto branch = schema.find(accept(*condition) ? "then" : "else");
    if (branch != schema.end() && !accept(*branch))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// What has been evaluated
//===----------------------------------------------------------------------===//

template <class Visit>
void SchemaValidator::visitAccepting(const Json &schema, const Json &value,
                                     Call call, Visit visit) const {
  if (auto reference = schema.find("$ref"); reference != schema.end())
    if (auto it = source_.references.find(reference->get<std::string>());
        it != source_.references.end())
      visit(it->second);
  for (const char *name : {"allOf", "anyOf", "oneOf"})
    if (auto list = schema.find(name); list != schema.end())
      for (const Json &each : *list)
        if (accepts(each, value, call + 1))
          visit(each);
  if (auto condition = schema.find("if"); condition != schema.end()) {
    const bool holds = accepts(*condition, value, call + 1);
    if (holds)
      visit(*condition);
    if (auto branch = schema.find(holds ? "then" : "else");
        branch != schema.end())
      visit(*branch);
  }
  if (auto needed = schema.find("dependentSchemas"); needed != schema.end())
    for (const auto &[name, other] : needed->items())
      if (value.is_object() && value.contains(name))
        visit(other);
}

void SchemaValidator::addEvaluated(const Json &schema, const Json &value,
                                   Call call,
                                   std::set<std::string> &names) const {
  if (!schema.is_object() || call.depth > kDeepestValue || --*call.left < 0)
    return;
  auto properties = schema.find("properties"),
       patterns = schema.find("patternProperties"),
       additional = schema.find("additionalProperties"),
       other = schema.find("unevaluatedProperties");
  for (const auto &[name, member] : value.items()) {
    bool isKnown = properties != schema.end() && properties->contains(name);
    if (patterns != schema.end())
      for (const auto &[pattern, of] : patterns->items())
        isKnown |= matches(pattern, name);
    for (auto rest : {additional, other})
      isKnown |= rest != schema.end() && accepts(*rest, member, call + 1);
    if (isKnown)
      names.insert(name);
  }
  visitAccepting(schema, value, call, [&](const Json &inner) {
    addEvaluated(inner, value, call + 1, names);
  });
}

void SchemaValidator::addEvaluated(const Json &schema, const Json &value,
                                   Call call, std::set<size_t> &items) const {
  if (!schema.is_object() || call.depth > kDeepestValue || --*call.left < 0)
    return;
  size_t known = 0;
  if (auto first = schema.find("prefixItems"); first != schema.end())
    known = std::min(first->size(), value.size());
  if (schema.contains("items"))
    known = value.size();
  for (size_t i = 0; i < known; ++i)
    items.insert(i);
  for (const char *name : {"contains", "unevaluatedItems"})
    if (auto item = schema.find(name); item != schema.end())
      for (size_t i = 0; i < value.size(); ++i)
        if (accepts(*item, value[i], call + 1))
          items.insert(i);
  visitAccepting(schema, value, call, [&](const Json &inner) {
    addEvaluated(inner, value, call + 1, items);
  });
}

} // namespace moert
