#include "runtime/constrain/JsonSchema.h"

#include "runtime/constrain/SchemaChecks.h"
#include "runtime/constrain/SchemaMerge.h"
#include "runtime/constrain/SchemaTranslator.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::json;

namespace {
/// Texts in which a mark is nowhere.
TextCondition without(std::string_view mark) {
  return {.nfa = std::make_shared<const CharNfa>(CharNfa::ofTextsWith(mark)),
          .isNegated = true};
}
} // namespace

StatusOr<Grammar> parseJsonSchema(const nlohmann::ordered_json &schema,
                                  const JsonTextOptions &options,
                                  const Deadline &deadline) {
  MOE_ASSIGN_OR_RETURN(SchemaSource source,
                       SchemaSource::read(schema, deadline));
  return SchemaTranslator(std::move(source), options, deadline).run();
}

StatusOr<std::optional<ExprId>>
addPlainText(Grammar &grammar, const nlohmann::ordered_json &schema,
             std::string_view end, const Deadline &deadline) {
  MOE_ASSIGN_OR_RETURN(SchemaSource source,
                       SchemaSource::read(schema, deadline));
  MOE_ASSIGN_OR_RETURN(const MergedSchema merged,
                       mergedSchema(source.root, source, deadline));
  bool isExact = merged.isExact;
  const auto validator =
      std::make_shared<const SchemaValidator>(std::move(source));
  std::vector<ExprId> ways;
  for (const Json &words : merged.ways) {
    MOE_RETURN_IF_ERROR(deadline.check(kCompilingSchema));
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
    text =
        grammar.checked(text, plainCheck(validator, schemaText(Json(schema))));
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
