#include "runtime/chat/ToolGrammar.h"

#include "runtime/base/Text.h"
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
/// The code points of a text, which is UTF-8.
std::vector<uint32_t> codePoints(std::string_view text) {
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    size_t size = 1;
    while (i + size < text.size() && (uint8_t(text[i + size]) & 0xC0) == 0x80)
      ++size;
    uint32_t point = uint8_t(text[i]) & (size == 1 ? 0x7F : 0xFF >> (size + 1));
    for (size_t k = 1; k < size; ++k)
      point = point << 6 | (uint8_t(text[i + k]) & 0x3F);
    points.push_back(point);
    i += size;
  }
  return points;
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

private:
  std::string_view firstMark() const {
    return format_.sectionOpen.empty() ? format_.open : format_.sectionOpen;
  }

  /// Returns an expression that matches a mark as the model writes it: names of
  /// control tokens match these tokens. The mark ends before a token that ends
  /// generation, as the model writes nothing after that.
  ExprId mark(std::string_view text) {
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
    return grammar_.bytes(std::move(bytes));
  }

  /// Any text in which `mark` is nowhere. Control tokens are no text.
  ExprId textWithout(std::string_view mark) {
    size_t first = std::min(mark.find_first_not_of(" \n"), mark.size());
    size_t last = mark.find_last_not_of(" \n") + 1;
    std::vector<uint32_t> points =
        codePoints(mark.substr(first, std::max(first, last) - first));
    // Rules are the states of Knuth, Morris and Pratt's automaton: how much of
    // the mark the text ends with.
    std::vector<size_t> borders(points.size() + 1, 0);
    for (size_t i = 1, k = 0; i < points.size(); ++i) {
      while (k > 0 && points[i] != points[k])
        k = borders[k];
      k += points[i] == points[k];
      borders[i + 1] = k;
    }
    std::string prefix = fmt::format("text{}-", texts_++);
    std::vector<RuleId> states;
    for (size_t i = 0; i < points.size(); ++i)
      states.push_back(grammar_.declare(prefix + std::to_string(i)));
    for (size_t i = 0; i < points.size(); ++i) {
      CharSet others = CharSet::all();
      std::vector<ExprId> ways = {grammar_.empty()};
      CharSet seen;
      for (uint32_t c : points) {
        if (seen.contains(c))
          continue;
        seen.add(CharSet::Range{c, c});
        size_t next = i;
        while (next > 0 && points[next] != c)
          next = borders[next];
        next += points[next] == c;
        if (next == 0)
          continue;
        others = others.without(CharSet::only(c));
        if (next < points.size())
          ways.push_back(grammar_.sequence(
              {grammar_.chars(CharSet::only(c)), grammar_.rule(states[next])}));
      }
      ways.push_back(grammar_.sequence(
          {grammar_.chars(others), grammar_.rule(states[0])}));
      grammar_.define(states[i], grammar_.choice(std::move(ways)));
    }
    return grammar_.rule(states[0]);
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
    std::vector<ExprId> texts;
    Json values = schema.contains("const")
                      ? Json::array({schema["const"]})
                      : schema.value("enum", Json::array());
    for (const Json &value : values)
      if (value.is_string())
        texts.push_back(grammar_.bytes(value.get<std::string>()));
    if (!texts.empty())
      return grammar_.choice(std::move(texts));
    for (const char *key : {"pattern", "format", "minLength", "maxLength"})
      if (schema.contains(key) && (options_.isRequired || tool.isStrict))
        return Status(
            StatusCode::Usage,
            fmt::format("the arguments of {} at parameter {}: {} is not "
                        "supported in the form of {}, which writes strings as "
                        "plain text: leave it out",
                        moert::quoted(tool.name), moert::quoted(name), key,
                        format_.name));
    return textWithout(format_.parameterClose);
  }

  const ToolFormat &format_;
  const std::vector<Tool> &tools_;
  const Tokenizer &tokenizer_;
  ToolGrammarOptions options_;
  Grammar grammar_;
  JsonText json_;
  int texts_ = 0, schemas_ = 0;
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
  MOE_ASSIGN_OR_RETURN(
      Grammar grammar,
      ToolGrammarBuilder(format, tools, tokenizer, options).run());
  MOE_ASSIGN_OR_RETURN(Automaton automaton, Automaton::compile(grammar));
  return std::make_shared<const Automaton>(std::move(automaton));
}

} // namespace moert
