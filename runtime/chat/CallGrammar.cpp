#include "runtime/chat/CallGrammar.h"

#include "runtime/base/Text.h"
#include "runtime/chat/FreeText.h"
#include "runtime/chat/ToolValue.h"
#include "runtime/constrain/JsonSchema.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;
using Body = ToolFormat::Body;

/// A mark in which kNumber stands for digits.
ExprId CallGrammar::mark(const std::string &bytes) {
  std::vector<ExprId> parts;
  size_t from = 0;
  for (size_t at; (at = bytes.find(ToolFormat::kNumber, from)) != bytes.npos;
       from = at + 1)
    parts.insert(parts.end(),
                 {grammar_.bytes(bytes.substr(from, at - from)),
                  grammar_.repeat(grammar_.chars({{'0', '9'}}), 1, 3)});
  parts.push_back(grammar_.bytes(bytes.substr(from)));
  return grammar_.sequence(std::move(parts));
}

/// Any text that does not have this mark.
ExprId CallGrammar::text(std::string_view mark) {
  return textWithout(grammar_, fmt::format("text{}", texts_++), {mark});
}

StatusOr<ExprId> CallGrammar::calls(const ToolFormat &form, bool isParallel) {
  std::vector<ExprId> each;
  for (const Tool &tool : tools_) {
    MOE_ASSIGN_OR_RETURN(ExprId one, call(form, tool));
    each.push_back(one);
  }
  RuleId rule = grammar_.declare("calls-" + form.name);
  grammar_.define(rule, grammar_.choice(std::move(each)));
  ExprId all = grammar_.rule(rule);
  if (isParallel && !form.isBare)
    all = grammar_.sequence(
        {all, grammar_.repeat(grammar_.sequence({mark(form.between), all}), 0,
                              Expr::kUnbounded)});
  if (form.body == Body::JsonList)
    all = grammar_.sequence({grammar_.bytes("["), json_.space(), all,
                             json_.space(), grammar_.bytes("]")});
  // The mark that closes a list is its bracket.
  std::string close = form.sectionClose;
  if (form.body == Body::JsonList && close.starts_with("]"))
    close.erase(0, 1);
  return grammar_.sequence({mark(form.sectionOpen), all, mark(close)});
}

StatusOr<ExprId> CallGrammar::call(const ToolFormat &form, const Tool &tool) {
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
    body = grammar_.sequence(
        {grammar_.bytes("{"),
         textWithout(grammar_, fmt::format("text{}", texts_++), {form.close},
                     {.hasControls = true}),
         grammar_.bytes("}")});
    break;
  case Body::Tagged:
    body = tagged(form, tool);
    break;
  }
  if (!body)
    return body.status();
  return grammar_.sequence({head(form, tool.name), *body, mark(form.close)});
}

/// An object with a call's name and arguments.
StatusOr<ExprId> CallGrammar::object(const ToolFormat &form, const Tool &tool) {
  MOE_ASSIGN_OR_RETURN(ExprId body, arguments(tool));
  auto member = [&](const std::string &key, ExprId value) {
    return json_.member(grammar_.bytes(Json(key).dump()), value);
  };
  std::vector<JsonText::Member> members = {
      {member(form.nameKey, grammar_.bytes(Json(tool.name).dump())), true},
      {member(form.argumentsKey, body), true}};
  if (!form.idKey.empty())
    members.insert(form.idIsFirst ? members.begin() : members.end(),
                   {member(form.idKey, json_.string()), form.idIsFirst});
  return json_.objectOf(members, std::nullopt);
}

/// What precedes the arguments.
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

StatusOr<ExprId> CallGrammar::arguments(const Tool &tool) {
  Json schema = tool.parameters;
  // No schema, and one that says nothing, allow all objects.
  if (!schema.is_object())
    schema = Json::object();
  if (!schema.contains("type"))
    schema["type"] = "object";
  return schemaExpr(tool, schema, json_.object(), "");
}

StatusOr<ExprId> CallGrammar::schemaExpr(const Tool &tool, const Json &schema,
                                         ExprId otherwise,
                                         std::string_view place) {
  StatusOr<Grammar> parsed = parseJsonSchema(schema);
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

StatusOr<ExprId> CallGrammar::tagged(const ToolFormat &form, const Tool &tool) {
  const Json none = Json::object();
  auto found = tool.parameters.find("properties");
  const bool isListed = found != tool.parameters.end() && found->is_object();
  const Json &properties = isListed ? *found : none;
  const Json required = tool.parameters.value("required", Json::array());
  std::vector<ExprId> parts;
  for (const auto &[name, schema] : properties.items()) {
    MOE_ASSIGN_OR_RETURN(ExprId one, parameter(form, tool, name, schema));
    const bool isRequired =
        required.is_array() && std::find(required.begin(), required.end(),
                                         Json(name)) != required.end();
    parts.push_back(isRequired ? one : grammar_.optional(one));
  }
  return grammar_.sequence(std::move(parts));
}

StatusOr<ExprId> CallGrammar::parameter(const ToolFormat &form,
                                        const Tool &tool,
                                        const std::string &name,
                                        const Json &schema) {
  MOE_ASSIGN_OR_RETURN(ExprId written, value(form, tool, name, schema));
  return grammar_.sequence({mark(form.parameterOpen), grammar_.bytes(name),
                            mark(form.parameterNameClose), written,
                            mark(form.closeOf(name))});
}

/// A value with what stands between its parameter's name and it.
StatusOr<ExprId> CallGrammar::value(const ToolFormat &form, const Tool &tool,
                                    const std::string &name,
                                    const Json &schema) {
  const ValueTypes allowed = valueTypes(schema, tool.parameters);
  const ExprId valueOpen = mark(form.valueOpen);
  const std::string close = form.closeOf(name);
  std::vector<ExprId> ways;
  auto add = [&](const char *type, ExprId written) {
    ways.push_back(
        grammar_.sequence({mark(form.attributesOf(type)), valueOpen, written}));
  };
  // Strings between marks are plain text.
  if (!allowed.values.empty()) {
    for (const Json &each : allowed.values)
      if (each.is_string())
        add("string", grammar_.bytes(each.get<std::string>()));
  } else if (allowed.allows("string")) {
    for (const char *key : {"pattern", "format", "minLength", "maxLength"})
      if (schema.is_object() && schema.contains(key) &&
          (mustHold_ || tool.isStrict))
        return Status(
            StatusCode::Usage,
            fmt::format("the arguments of {} at parameter {}: {} is not "
                        "supported in the form of {}, which writes strings as "
                        "plain text: leave it out",
                        moert::quoted(tool.name), moert::quoted(name), key,
                        form.name));
    add("string", text(close));
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
      MOE_ASSIGN_OR_RETURN(ExprId json, jsonValue(tool, name, schema));
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
      if (form.values == ToolFormat::Values::Python)
        for (auto [type, words] : std::initializer_list<
                 std::pair<const char *, std::vector<std::string>>>{
                 {"boolean", {"True", "False"}}, {"null", {"None"}}})
          if (allowed.allows(type) && allowed.values.empty())
            for (const std::string &word : words)
              add(type, grammar_.bytes(word));
    }
  }
  return grammar_.choice(std::move(ways));
}

StatusOr<ExprId> CallGrammar::jsonValue(const Tool &tool,
                                        const std::string &name, Json schema) {
  // References are to the whole schema.
  for (const char *key : {"$defs", "definitions"})
    if (schema.is_object() && tool.parameters.contains(key))
      schema[key] = tool.parameters[key];
  return schemaExpr(tool, schema, json_.value(),
                    " at parameter " + moert::quoted(name));
}

} // namespace moert
