#include "runtime/constrain/SchemaChecks.h"

#include "runtime/constrain/Formats.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::json;

namespace {
/// The value that a text has; discarded() if it has none.
Json valueOf(std::string_view text, const JsonTextOptions &options) {
  if (options.toJson) {
    std::optional<std::string> json = options.toJson(text);
    return Json::parse(json.value_or(""), nullptr, /*allow_exceptions=*/false);
  }
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// Returns a text that tells the checks of one notation from those of another.
std::string notationKey(const char *what, const JsonTextOptions &options) {
  return std::to_string(int(options.notation)) + " " + what;
}
} // namespace

std::string schemaText(const Json &schema) {
  return schema.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::shared_ptr<const TextCheck>
valueCheck(std::shared_ptr<const SchemaValidator> validator, const Json &schema,
           const JsonTextOptions &options) {
  auto holds = [validator = std::move(validator), schema,
                options](std::string_view text) {
    const Json value = valueOf(text, options);
    return !value.is_discarded() && validator->accepts(schema, value);
  };
  return std::make_shared<const TextCheck>(
      notationKey("schema ", options) + schemaText(schema), std::move(holds),
      TextCheck::Scope::Own, /*ofJson=*/true);
}

std::shared_ptr<const TextCheck>
multipleCheck(const std::vector<Decimal> &divisors, const Json &words) {
  auto holds = [divisors](std::string_view text) {
    return std::ranges::all_of(divisors, [&](const Decimal &divisor) {
      return isMultiple(text, divisor);
    });
  };
  return std::make_shared<const TextCheck>("multiple " + schemaText(words),
                                           std::move(holds));
}

std::shared_ptr<const TextCheck>
plainCheck(std::shared_ptr<const SchemaValidator> validator,
           const std::string &key) {
  auto holds = [validator = std::move(validator)](std::string_view text) {
    return validator->accepts(validator->source().root, Json(text));
  };
  return std::make_shared<const TextCheck>("plain " + key, std::move(holds));
}

std::shared_ptr<const TextCheck> uniqueCheck(const JsonTextOptions &options) {
  auto holds = [options](std::string_view text) {
    const Json list = valueOf(std::string(text) + "]", options);
    return list.is_array() && std::ranges::count(list, list.back()) == 1;
  };
  return std::make_shared<const TextCheck>(notationKey("unique item", options),
                                           holds, TextCheck::Scope::Enclosing,
                                           /*ofJson=*/true);
}

int32_t schemaCount(const Json &words, const char *name, int32_t absent) {
  auto it = words.find(name);
  const auto count = it == words.end() ? absent : it->get<int32_t>();
  return count == INT32_MAX && name[1] == 'a' ? Expr::kUnbounded : count;
}

StatusOr<TextRules> textRules(const Json &words, bool &isExact) {
  TextRules rules;
  rules.least = schemaCount(words, "minLength", 0);
  rules.most = schemaCount(words, "maxLength", Expr::kUnbounded);
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

} // namespace moert
