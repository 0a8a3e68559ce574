#include "runtime/chat/CallGrammar.h"

#include "runtime/base/Text.h"
#include "runtime/chat/FreeText.h"
#include "runtime/chat/Speech.h"
#include "runtime/chat/ToolValue.h"
#include "runtime/chat/ValueText.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace moert {

using Json = nlohmann::ordered_json;
using Body = ToolFormat::Body;

const JsonTextOptions &CallGrammar::python() {
  static const JsonTextOptions options = {
      .notation = JsonTextOptions::Notation::Python, .toJson = jsonOfPython};
  return options;
}

/// Gemma's notation, whose quotes are a control token of some vocabularies.
const JsonTextOptions &CallGrammar::bare() {
  static const JsonTextOptions options = {
      .notation = JsonTextOptions::Notation::Bare,
      .quotes = {controlBytes(kBareQuote), std::string(kBareQuote)},
      .toJson = [](std::string_view text) {
        return jsonOfBare(namedControls(text));
      }};
  return options;
}

/// A mark in which kNumber stands for digits. Blanks at those of its ends that
/// are free may be left out: models differ in them.
ExprId CallGrammar::mark(std::string_view bytes, Free free) {
  const size_t end =
      free == Free::Begin ? bytes.size() : withoutBlanksAtEnd(bytes).size();
  const std::string_view after = bytes.substr(end);
  bytes = bytes.substr(0, end);
  const size_t begin =
      free == Free::End
          ? 0
          : std::min(bytes.find_first_not_of(kBlanks), bytes.size());
  auto blanks = [&](std::string_view text) {
    return text.empty() ? grammar_.empty()
                        : grammar_.optional(grammar_.bytes(std::string(text)));
  };
  std::vector<ExprId> parts = {blanks(bytes.substr(0, begin))};
  bytes.remove_prefix(begin);
  for (size_t at; (at = bytes.find(ToolFormat::kNumber)) != bytes.npos;
       bytes.remove_prefix(at + 1))
    parts.insert(parts.end(),
                 {grammar_.bytes(std::string(bytes.substr(0, at))),
                  grammar_.repeat(grammar_.chars({{'0', '9'}}), 1, 3)});
  parts.push_back(grammar_.bytes(std::string(bytes)));
  parts.push_back(blanks(after));
  return grammar_.sequence(std::move(parts));
}

/// Returns the part of a mark that texts could have: its characters without
/// control tokens.
static std::string_view textOf(std::string_view mark) {
  mark = withoutBlanks(mark);
  return mark.substr(0, mark.find(kControlOpen));
}

/// Any text that does not have this mark.
ExprId CallGrammar::text(std::string_view mark) {
  return addTextWithout(grammar_, textOf(mark));
}

/// A call of any tool, as a rule of its own.
StatusOr<ExprId> CallGrammar::anyCall(const ToolFormat &form,
                                      const std::string &rule) {
  std::vector<ExprId> each;
  for (const Tool &tool : tools_) {
    MOE_ASSIGN_OR_RETURN(ExprId one, call(form, tool));
    each.push_back(one);
  }
  const RuleId id = grammar_.declare(rule);
  grammar_.define(id, grammar_.choice(std::move(each)));
  return grammar_.rule(id);
}

StatusOr<ExprId> CallGrammar::calls(const ToolFormat &form, bool isParallel,
                                    std::string_view begun) {
  MOE_ASSIGN_OR_RETURN(const ExprId one, anyCall(form, "calls-" + form.name));
  ExprId all = one;
  std::string open = form.sectionOpen;
  if (!begun.empty() && open.starts_with(begun)) {
    open.erase(0, begun.size());
  } else if (!begun.empty() && open.empty() && form.open.starts_with(begun)) {
    ToolFormat first = form;
    first.open.erase(0, begun.size());
    MOE_ASSIGN_OR_RETURN(all, anyCall(first, "begun-" + form.name));
  }
  if (isParallel && !form.isBare)
    all = grammar_.sequence(
        {all, grammar_.repeat(grammar_.sequence({mark(form.between), one}), 0,
                              Expr::kUnbounded)});
  // The brackets of a list may be a part of the marks around it.
  std::string close = form.sectionClose;
  if (form.body == Body::JsonList) {
    if (form.opensList())
      open.pop_back();
    if (close.starts_with("]"))
      close.erase(0, 1);
    all = grammar_.sequence({grammar_.bytes("["), json_.space(), all,
                             json_.space(), grammar_.bytes("]")});
  }
  return grammar_.sequence({mark(open), all, mark(close)});
}

Status CallGrammar::checkTime() const {
  return deadline_.check("compiling the grammar of the tools");
}

StatusOr<ExprId> CallGrammar::call(const ToolFormat &form, const Tool &tool) {
  MOE_RETURN_IF_ERROR(checkTime());
  StatusOr<ExprId> body = grammar_.empty();
  switch (form.body) {
  case Body::Json:
  case Body::JsonList: {
    MOE_ASSIGN_OR_RETURN(ExprId one, object(form, tool));
    const ExprId open = form.isBare ? grammar_.empty() : mark(form.open);
    return grammar_.sequence({open, one, mark(form.close)});
  }
  case Body::NamedJson:
    body = arguments(tool);
    break;
  case Body::NamedBare:
    body = arguments(tool, bare_, bare());
    break;
  case Body::Tagged:
    body = tagged(form, tool);
    break;
  case Body::Keywords:
    body = keywords(tool);
    break;
  }
  if (!body)
    return body.status();
  return grammar_.sequence({head(form, tool.name), *body, mark(form.close)});
}

/// An object with a call's name and arguments.
StatusOr<ExprId> CallGrammar::object(const ToolFormat &form, const Tool &tool) {
  MOE_ASSIGN_OR_RETURN(ExprId body, arguments(tool));
  if (form.nameKey.empty())
    return json_.objectOf({{tool.name, body, true}}, {});
  std::vector<JsonText::Member> members = {
      {form.nameKey, json_.constant(tool.name), true},
      {form.argumentsKey, body, true}};
  if (!form.idKey.empty())
    members.push_back({form.idKey, json_.string(), form.idIsFirst});
  return json_.objectOf(members, {});
}

/// Returns the text in front of the arguments.
ExprId CallGrammar::head(const ToolFormat &form, const std::string &name) {
  ExprId written = grammar_.bytes(name);
  const ExprId id = grammar_.repeat(
      grammar_.chars({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}), 1, 64);
  if (form.nameIsId)
    written = grammar_.sequence(
        {grammar_.bytes("functions." + name + ":"),
         grammar_.repeat(grammar_.chars({{'0', '9'}}), 1, 3)});
  if (!form.idOpen.empty())
    written = grammar_.sequence({written, grammar_.optional(grammar_.sequence(
                                              {mark(form.idOpen), id}))});
  if (!form.idClose.empty())
    written = grammar_.sequence({id, mark(form.idClose), written});
  return grammar_.sequence({mark(form.open), written, mark(form.nameClose),
                            mark(form.attributes), mark(form.headEnd)});
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

StatusOr<ExprId> CallGrammar::arguments(const Tool &tool, JsonText &any,
                                        const JsonTextOptions &notation) {
  Json schema = tool.parameters;
  // Without a schema, or with an empty one, all objects are allowed.
  if (!schema.is_object())
    schema = Json::object();
  if (!schema.contains("type"))
    schema["type"] = "object";
  return schemaExpr(tool, schema, any.object(), "", notation);
}

StatusOr<ExprId> CallGrammar::schemaExpr(const Tool &tool, const Json &schema,
                                         ExprId otherwise,
                                         std::string_view place,
                                         const JsonTextOptions &notation) {
  StatusOr<Grammar> parsed = parseJsonSchema(schema, notation, deadline_);
  MOE_RETURN_IF_ERROR(checkTime());
  if (parsed) {
    Status status = parsed->check();
    if (status)
      return grammar_.embed(*parsed, fmt::format("schema{}-", schemas_++));
    parsed = status;
  }
  if (mustHold_ || tool.isStrict)
    return parsed.status().at(
        fmt::format("the arguments of {}{}", moert::quoted(tool.name), place));
  return otherwise;
}

StatusOr<Series> CallGrammar::parameters(const Tool &tool, bool hasOthers,
                                         const MakeParameter &make) {
  const Json none = Json::object();
  const Json &schema = tool.parameters.is_object() ? tool.parameters : none;
  auto found = schema.find("properties");
  const bool isListed = found != schema.end() && found->is_object();
  const Json &properties = isListed ? *found : none;
  const Json required = schema.value("required", Json::array());
  Series all{.isAnyOrder = true};
  for (const auto &[name, each] : properties.items()) {
    MOE_ASSIGN_OR_RETURN(ExprId one, make(name, each));
    all.entries.push_back(one);
    all.isRequired.push_back(required.is_array() &&
                             std::find(required.begin(), required.end(),
                                       Json(name)) != required.end());
  }
  // The rule is that of JSON calls: a schema without properties is open, and
  // one with properties if it says so.
  auto more = schema.find("additionalProperties");
  const bool isOpen = more == schema.end() ? !isListed : *more != false;
  if (isOpen && hasOthers) {
    MOE_ASSIGN_OR_RETURN(
        ExprId one,
        make("", more != schema.end() && more->is_object() ? *more : Json()));
    all.rest.push_back(one);
  }
  return all;
}

StatusOr<ExprId> CallGrammar::tagged(const ToolFormat &form, const Tool &tool) {
  auto make = [&](const std::string &name, const Json &schema) {
    const ExprId written = name.empty()
                               ? otherName(text(form.parameterNameClose), tool)
                               : grammar_.bytes(name);
    return parameter(form, tool, written, name, schema);
  };
  MOE_ASSIGN_OR_RETURN(
      Series all,
      parameters(tool, form.closeOf("x") == form.closeOf("y"), make));
  // Some templates leave a line for parameters that are not there.
  const std::string &before =
      all.entries.empty() ? form.nameClose : form.parameterClose;
  return grammar_.sequence({grammar_.series(std::move(all)),
                            before.ends_with('\n')
                                ? grammar_.optional(grammar_.bytes("\n"))
                                : grammar_.empty()});
}

/// Returns the text between the brackets of a call in Python's form.
StatusOr<ExprId> CallGrammar::keywords(const Tool &tool) {
  const CharSet letters = {{'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  auto make = [&](const std::string &name,
                  const Json &schema) -> StatusOr<ExprId> {
    ExprId written = grammar_.bytes(name);
    if (name.empty())
      written = otherName(
          grammar_.sequence(
              {grammar_.chars(letters),
               grammar_.repeat(
                   grammar_.chars(
                       {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}),
                   0, 64)}),
          tool);
    MOE_ASSIGN_OR_RETURN(ExprId value,
                         writtenValue(tool, name, schema, /*isPython=*/true));
    return grammar_.sequence({written, json_.space(), grammar_.bytes("="),
                              json_.space(), value, json_.space()});
  };
  MOE_ASSIGN_OR_RETURN(Series all, parameters(tool, /*hasOthers=*/true, make));
  all.separator = grammar_.sequence({grammar_.bytes(","), json_.space()});
  return grammar_.sequence({json_.space(), grammar_.series(std::move(all))});
}

/// A name of a parameter that is none of the tool's schema.
ExprId CallGrammar::otherName(ExprId name, const Tool &tool) {
  std::set<std::string> known;
  if (tool.parameters.is_object())
    if (auto found = tool.parameters.find("properties");
        found != tool.parameters.end() && found->is_object())
      for (const auto &[each, schema] : found->items())
        known.insert(each);
  std::string key = "no name of";
  for (const std::string &each : known)
    key += " " + Json(each).dump();
  return grammar_.checked(
      name, std::make_shared<const TextCheck>(
                key, [known = std::move(known)](std::string_view text) {
                  return !text.empty() && !known.contains(std::string(text));
                }));
}

StatusOr<ExprId> CallGrammar::parameter(const ToolFormat &form,
                                        const Tool &tool, ExprId written,
                                        const std::string &name,
                                        const Json &schema) {
  MOE_ASSIGN_OR_RETURN(ExprId body, value(form, tool, name, schema));
  // Blanks beside a text are a part of it, or of the mark.
  return grammar_.sequence({mark(form.parameterOpen), written,
                            mark(form.parameterNameClose, Free::Begin), body,
                            mark(form.closeOf(name), Free::End)});
}

/// A value with what stands between its parameter's name and it.
StatusOr<ExprId> CallGrammar::value(const ToolFormat &form, const Tool &tool,
                                    const std::string &name,
                                    const Json &schema) {
  const ValueTypes allowed = valueTypes(schema, tool.parameters);
  const ExprId valueOpen = mark(form.valueOpen, Free::Begin);
  const std::string close = form.closeOf(name);
  std::vector<ExprId> ways;
  auto add = [&](const char *type, ExprId written) {
    ways.push_back(
        grammar_.sequence({mark(form.attributesOf(type)), valueOpen, written}));
  };
  // Strings between marks are plain text.
  if (!allowed.values.empty()) {
    for (const Json &each : allowed.values) {
      if (!each.is_string())
        continue;
      const std::string written = each.get<std::string>();
      add("string", grammar_.bytes(written));
      if (!form.textOpen.empty())
        add("string", grammar_.bytes(form.textOpen + written + form.textClose));
    }
  } else if (allowed.allows("string")) {
    MOE_ASSIGN_OR_RETURN(ExprId written, plainText(tool, name, schema, close));
    if (!form.textOpen.empty())
      written = grammar_.checked(
          written, std::make_shared<const TextCheck>(
                       "no " + form.textOpen,
                       [mark = form.textOpen](std::string_view text) {
                         return !text.starts_with(mark);
                       }));
    add("string", written);
    if (!form.textOpen.empty()) {
      MOE_ASSIGN_OR_RETURN(
          ExprId marked, plainText(tool, name, schema, form.textClose + close));
      add("string", grammar_.sequence({grammar_.bytes(form.textOpen), marked,
                                       grammar_.bytes(form.textClose)}));
    }
    // Such text may be any value, unless attributes tell them apart.
    if (form.typeAttributes.empty())
      return grammar_.choice(std::move(ways));
  }
  const bool isText = allowed.types == std::vector<std::string>{"string"};
  if (!isText) {
    if (form.values == ToolFormat::Values::Nested) {
      // Values inside have marks of their own: the first mark that closes the
      // parameter ends it.
      add("object", textWithout(grammar_, fmt::format("text{}", texts_++), {},
                                {.hasControls = true}));
    } else {
      MOE_ASSIGN_OR_RETURN(
          ExprId json, writtenValue(tool, name, schema,
                                    form.values == ToolFormat::Values::Python));
      if (form.typeAttributes.empty()) {
        add("object", json);
      } else {
        // Each type has its attributes; the schema holds the value.
        std::vector<std::string> seen;
        for (const char *type :
             {"integer", "number", "boolean", "null", "object", "array"}) {
          const std::string attributes = form.attributesOf(type);
          if (!allowed.allows(type) ||
              std::ranges::find(seen, attributes) != seen.end())
            continue;
          seen.push_back(attributes);
          add(type, json);
        }
      }
    }
  }
  return grammar_.choice(std::move(ways));
}

/// A string as plain text, held to its schema.
StatusOr<ExprId> CallGrammar::plainText(const Tool &tool,
                                        const std::string &name, Json schema,
                                        const std::string &close) {
  if (!schema.is_object())
    return text(close);
  addDefinitions(tool, schema);
  StatusOr<std::optional<ExprId>> held =
      addPlainText(grammar_, schema, textOf(close), deadline_);
  MOE_RETURN_IF_ERROR(checkTime());
  if (held && *held)
    return **held;
  if (!mustHold_ && !tool.isStrict)
    return text(close);
  return (held ? Status(StatusCode::Usage, "no text fits") : held.status())
      .at(fmt::format("the arguments of {} at parameter {}",
                      moert::quoted(tool.name), moert::quoted(name)));
}

/// References are to the whole schema.
void CallGrammar::addDefinitions(const Tool &tool, Json &schema) {
  for (const char *key : {"$defs", "definitions"})
    if (schema.is_object() && tool.parameters.contains(key))
      schema[key] = tool.parameters[key];
}

StatusOr<ExprId> CallGrammar::writtenValue(const Tool &tool,
                                           const std::string &name, Json schema,
                                           bool isPython) {
  JsonText &any = isPython ? python_ : json_;
  if (schema.is_null())
    return any.value();
  addDefinitions(tool, schema);
  return schemaExpr(tool, schema, any.value(),
                    " at parameter " + moert::quoted(name),
                    isPython ? python() : JsonTextOptions());
}

} // namespace moert
