#include "runtime/chat/ToolGrammar.h"

#include "runtime/base/Text.h"
#include "runtime/constrain/GrammarCache.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/JsonText.h"
#include "runtime/constrain/TokenTrie.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;
using Body = ToolFormat::Body;

namespace {
/// A mark without the white space around it.
std::string_view withoutBlanks(std::string_view mark) {
  const size_t first = std::min(mark.find_first_not_of(" \n"), mark.size());
  const size_t last = mark.find_last_not_of(" \n") + 1;
  return mark.substr(first, std::max(first, last) - first);
}

class ToolGrammarBuilder {
public:
  ToolGrammarBuilder(const ToolFormat &format, const std::vector<Tool> &tools,
                     const Tokenizer &tokenizer,
                     const ToolGrammarOptions &options)
      : format_(format), tools_(tools), tokenizer_(tokenizer),
        options_(options), json_(grammar_, {}) {}

  StatusOr<Grammar> run() {
    RuleId root = grammar_.declare("root");
    MOE_ASSIGN_OR_RETURN(ExprId calls, allCalls());
    if (options_.isRequired) {
      grammar_.define(root, calls);
      return std::move(grammar_);
    }
    ExprId text = textWithout(firstMark());
    grammar_.define(root,
                    grammar_.sequence(
                        {text, grammar_.repeat(grammar_.sequence({calls, text}),
                                               0, Expr::kUnbounded)}));
    return std::move(grammar_);
  }

  /// What the grammar depends on.
  std::string key() const {
    std::string key = fmt::format("tools {} {} {}", format_.name,
                                  options_.isRequired, options_.isParallel);
    for (std::string_view mark :
         {format_.sectionOpen, format_.sectionClose, format_.open,
          format_.close, format_.between, format_.nameClose,
          format_.parameterOpen, format_.parameterNameClose, format_.valueOpen,
          format_.parameterClose})
      key += "\n" + markBytes(mark);
    for (const Tool &tool : tools_)
      key += fmt::format("\n{} {} {}", tool.isStrict, Json(tool.name).dump(),
                         tool.parameters.dump());
    return key;
  }

private:
  std::string_view firstMark() const {
    return format_.sectionOpen.empty() ? format_.open : format_.sectionOpen;
  }

  /// Returns an expression that matches a mark as the model writes it: names of
  /// control tokens match these tokens. The mark ends before a token that ends
  /// generation, as the model writes nothing after that.
  ExprId mark(std::string_view text) { return grammar_.bytes(markBytes(text)); }

  std::string markBytes(std::string_view text) const {
    auto tokens = tokenizer_.encode(
        text, {.addBos = false, .addEos = false, .startsText = false});
    std::string bytes;
    for (int32_t token : tokens ? *tokens : std::vector<int32_t>()) {
      if (tokenizer_.isEndOfGeneration(token))
        break;
      std::string_view name = tokenizer_.tokenBytes(token);
      bytes +=
          tokenizer_.isControl(token) ? controlBytes(name) : std::string(name);
    }
    return bytes;
  }

  /// Any text in which `mark` is nowhere. Control tokens are no text.
  ExprId textWithout(std::string_view mark) {
    return addTextWithout(grammar_, withoutBlanks(mark));
  }

  StatusOr<ExprId> allCalls() {
    std::vector<ExprId> each;
    for (const Tool &tool : tools_) {
      MOE_ASSIGN_OR_RETURN(ExprId one, call(tool));
      each.push_back(one);
    }
    RuleId rule = grammar_.declare("call");
    grammar_.define(rule, grammar_.choice(std::move(each)));
    ExprId one = grammar_.rule(rule);
    bool isParallel = options_.isParallel && !format_.isBare;
    ExprId calls =
        isParallel
            ? grammar_.sequence(
                  {one, grammar_.repeat(
                            grammar_.sequence({mark(format_.between), one}), 0,
                            Expr::kUnbounded)})
            : one;
    if (format_.body == Body::JsonList)
      calls = grammar_.sequence({grammar_.bytes("["), calls});
    return grammar_.sequence(
        {mark(format_.sectionOpen), calls, mark(format_.sectionClose)});
  }

  StatusOr<ExprId> call(const Tool &tool) {
    StatusOr<ExprId> body =
        format_.body == Body::Tagged ? tagged(tool) : arguments(tool);
    if (!body)
      return body.status();
    if (format_.body == Body::Json || format_.body == Body::JsonList) {
      Json name = tool.name;
      ExprId object = grammar_.sequence(
          {grammar_.bytes(fmt::format("{{\"name\": {}, \"{}\": ", name.dump(),
                                      format_.argumentsKey)),
           *body, grammar_.bytes("}")});
      ExprId open = format_.isBare ? grammar_.empty() : mark(format_.open);
      return grammar_.sequence({open, object, mark(format_.close)});
    }
    return grammar_.sequence({head(tool.name), *body, mark(format_.close)});
  }

  /// What precedes the arguments.
  ExprId head(const std::string &name) {
    // Marks before the answer begin as the channel does, so that a call cannot
    // (ReasoningSplitter): its name stands before the channel.
    if (!format_.otherOpen.empty())
      return grammar_.sequence(
          {grammar_.bytes(std::string(format_.otherOpen) + name),
           mark("<|channel|>commentary <|constrain|>json"),
           mark(format_.nameClose)});
    ExprId written = grammar_.bytes(name);
    if (format_.nameIsId)
      written = grammar_.sequence(
          {grammar_.bytes("functions." + name + ":"),
           grammar_.repeat(grammar_.chars({{'0', '9'}}), 1, 3)});
    return grammar_.sequence(
        {mark(format_.open), written, mark(format_.nameClose)});
  }

  /// The grammar of a schema's JSON, or of any object where that may be.
  StatusOr<ExprId> arguments(const Tool &tool) {
    Json schema = tool.parameters;
    // No schema, and one that says nothing, allow all objects.
    if (!schema.contains("type"))
      schema["type"] = "object";
    return schemaExpr(tool, schema, json_.object(), "");
  }

  StatusOr<ExprId> schemaExpr(const Tool &tool, const Json &schema,
                              ExprId otherwise, std::string_view place) {
    StatusOr<Grammar> parsed = parseJsonSchema(schema);
    if (parsed) {
      Status status = parsed->check();
      if (status)
        return grammar_.embed(*parsed, fmt::format("schema{}-", schemas_++));
      parsed = status;
    }
    if (options_.isRequired || tool.isStrict)
      return parsed.status().at(fmt::format("the arguments of {}{}",
                                            moert::quoted(tool.name), place));
    return otherwise;
  }

  StatusOr<ExprId> tagged(const Tool &tool) {
    Series parts{.isAnyOrder = true};
    auto properties = tool.parameters.find("properties");
    if (properties == tool.parameters.end() || !properties->is_object())
      return grammar_.empty();
    Json required = tool.parameters.value("required", Json::array());
    for (const auto &[name, schema] : properties->items()) {
      MOE_ASSIGN_OR_RETURN(ExprId one, parameter(tool, name, schema));
      bool isRequired =
          required.is_array() && std::find(required.begin(), required.end(),
                                           Json(name)) != required.end();
      parts.entries.push_back(one);
      parts.isRequired.push_back(isRequired);
    }
    return grammar_.series(std::move(parts));
  }

  StatusOr<ExprId> parameter(const Tool &tool, const std::string &name,
                             const Json &schema) {
    bool isString = schema.is_object() && schema.contains("type") &&
                    schema["type"] == "string";
    StatusOr<ExprId> value = isString ? stringValue(tool, name, schema)
                                      : jsonValue(tool, name, schema);
    if (!value)
      return value.status();
    std::string attributes(isString ? format_.stringAttribute
                                    : format_.otherAttribute);
    return grammar_.sequence(
        {mark(format_.parameterOpen), grammar_.bytes(name),
         mark(format_.parameterNameClose), grammar_.bytes(attributes),
         mark(format_.valueOpen), *value, mark(format_.parameterClose)});
  }

  StatusOr<ExprId> jsonValue(const Tool &tool, const std::string &name,
                             Json schema) {
    // References are to the whole schema.
    for (const char *key : {"$defs", "definitions"})
      if (schema.is_object() && tool.parameters.contains(key))
        schema[key] = tool.parameters[key];
    return schemaExpr(tool, schema, json_.value(),
                      " at parameter " + moert::quoted(name));
  }

  /// Strings between marks are plain text.
  StatusOr<ExprId> stringValue(const Tool &tool, const std::string &name,
                               const Json &schema) {
    const std::string_view end = withoutBlanks(format_.parameterClose);
    StatusOr<std::optional<ExprId>> text = addPlainText(grammar_, schema, end);
    if (text && *text)
      return **text;
    if (options_.isRequired || tool.isStrict)
      return (text ? Status(StatusCode::Usage, "no text fits") : text.status())
          .at(fmt::format("the arguments of {} at parameter {}",
                          moert::quoted(tool.name), moert::quoted(name)));
    return textWithout(format_.parameterClose);
  }

  const ToolFormat &format_;
  const std::vector<Tool> &tools_;
  const Tokenizer &tokenizer_;
  ToolGrammarOptions options_;
  Grammar grammar_;
  JsonText json_;
  int schemas_ = 0;
};
} // namespace

StatusOr<std::shared_ptr<const Automaton>>
toolGrammar(const ToolFormat &format, const std::vector<Tool> &tools,
            const Tokenizer &tokenizer, const ToolGrammarOptions &options) {
  // A bare object may be an answer, and gpt-oss chooses a channel by what the
  // scheduler takes for a mark of reasoning: both cannot be told from text.
  bool hasMark = !format.isBare && format.otherOpen.empty();
  if (tools.empty() || (!options.isRequired && !hasMark))
    return std::shared_ptr<const Automaton>();
  ToolGrammarBuilder builder(format, tools, tokenizer, options);
  return sharedGrammars().get(builder.key(), [&]() -> GrammarCache::Compiled {
    MOE_ASSIGN_OR_RETURN(Grammar grammar, builder.run());
    MOE_ASSIGN_OR_RETURN(Automaton automaton, Automaton::compile(grammar));
    return std::make_shared<const Automaton>(std::move(automaton));
  });
}

} // namespace moert
