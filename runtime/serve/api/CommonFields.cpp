#include "runtime/serve/api/CommonFields.h"

#include "runtime/base/Text.h"
#include "runtime/chat/ToolValue.h"
#include "runtime/constrain/Gbnf.h"
#include "runtime/constrain/GrammarCache.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/Regex.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <functional>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// Samplers of other engines, and the value that switches each off.
struct ForeignSampler {
  std::string_view name;
  double off;
};
constexpr ForeignSampler kForeign[] = {
    {"typical_p", 1},      {"tfs_z", 1},
    {"mirostat", 0},       {"xtc_probability", 0},
    {"dry_multiplier", 0}, {"dynatemp_range", 0},
    {"top_a", 0},          {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},     {"smoothing_factor", 0},
    {"length_penalty", 1}};

/// No logit is so large that a token with this bias were chosen before others.
constexpr float kExcluded = -1e9f;

/// A bias of OpenAI's range; false excludes a token, as llama-server has it.
std::optional<float> readBias(const Field &bias) {
  constexpr double most = 100;
  if (bias && bias.json().is_boolean() && !bias.json().get<bool>())
    return kExcluded;
  if (auto value = bias.number(-most, most))
    return float(*value);
  return std::nullopt;
}

/// {"15043": 1.5}, or [[15043, 1.5], ...].
void readLogitBias(const Field &field, std::map<int32_t, float> &biases) {
  if (!field.isList()) {
    for (const auto &[key, bias] : field.members()) {
      int32_t token = 0;
      auto [end, error] =
          std::from_chars(key.data(), key.data() + key.size(), token);
      if (error != std::errc() || end != key.data() + key.size() || token < 0)
        bias.fail("must be named by a token's number");
      else if (auto value = readBias(bias))
        biases[token] = *value;
    }
    return;
  }
  for (const Field &item : field.list(kMostRequestNesting * 100)) {
    std::vector<Field> pair = item.list(2);
    if (pair.size() != 2) {
      item.mustBe("a list of a token's number and its bias");
      continue;
    }
    auto token = pair[0].integer(0, INT32_MAX);
    auto value = readBias(pair[1]);
    if (token && value)
      biases[int32_t(*token)] = *value;
  }
}

/// Compiles a grammar, unless a request had the same text of this kind; an
/// error is the field's.
std::shared_ptr<const Automaton>
compiled(const Field &field, std::string_view kind, const std::string &text,
         const std::function<StatusOr<Grammar>()> &parse) {
  auto make = [&]() -> GrammarCache::Compiled {
    MOE_ASSIGN_OR_RETURN(Grammar grammar, parse());
    MOE_ASSIGN_OR_RETURN(Automaton automaton, Automaton::compile(grammar));
    return std::make_shared<const Automaton>(std::move(automaton));
  };
  GrammarCache::Compiled automaton =
      sharedGrammars().get(fmt::format("{} {}", kind, text), make);
  if (automaton)
    return *std::move(automaton);
  field.fail("cannot be used: " + automaton.status().message());
  return nullptr;
}

StatusOr<Grammar> choiceGrammar(std::vector<std::string> texts) {
  Grammar grammar;
  std::vector<ExprId> parts;
  for (std::string &text : texts)
    parts.push_back(grammar.bytes(std::move(text)));
  RuleId root = grammar.declare("root");
  grammar.define(root, grammar.choice(std::move(parts)));
  return grammar;
}
} // namespace

void readSampling(const Field &object, const ApiSettings &settings,
                  GenerateCall &call) {
  SamplerParams &params = call.sampling = settings.sampling;
  auto set = [&](auto &value, const char *name, double least, double most) {
    if (auto read = object[name].number(least, most))
      value = float(*read);
  };
  set(params.temperature, "temperature", 0, 100);
  set(params.topP, "top_p", 0, 1);
  set(params.minP, "min_p", 0, 1);
  set(params.presencePenalty, "presence_penalty", -2, 2);
  set(params.frequencyPenalty, "frequency_penalty", -2, 2);
  set(params.repetitionPenalty, "repetition_penalty", 0.01, 100);
  set(params.repetitionPenalty, "repeat_penalty", 0.01, 100);
  // As in other engines: -1 keeps all, which is 0 here.
  if (auto topK = object["top_k"].integer(-1, INT32_MAX))
    params.topK = uint32_t(std::max<int64_t>(*topK, 0));
  // -1 is all of the text.
  constexpr int64_t mostWindow = 1 << 20;
  if (auto window = object["repeat_last_n"].integer(-1, mostWindow))
    params.repetitionWindow = uint32_t(*window < 0 ? mostWindow : *window);
  // Nothing but the most likely token remains of no probability at all.
  if (params.topP == 0)
    params.topK = 1, params.topP = 1;
  if (auto seed = object["seed"].integer(INT64_MIN, INT64_MAX)) {
    // -1 asks for a random one in llama-server.
    call.hasSeed = *seed != -1;
    params.seed = uint64_t(*seed);
  }
  readLogitBias(object["logit_bias"], params.logitBias);
  object["post_sampling_probs"].refuse(
      "probabilities are those of the model, before samplers");
  for (const ForeignSampler &sampler : kForeign) {
    Field field = object[sampler.name];
    if (auto value = field.number(-1e9, 1e9); value && *value != sampler.off)
      field.fail(fmt::format("is not supported: leave it out, or send {}, "
                             "which switches it off",
                             sampler.off),
                 "unsupported_parameter");
  }
}

std::vector<std::string> readStops(const Field &stop) {
  std::vector<std::string> stops = stop.texts(kMostStops);
  if (std::ranges::find(stops, "") != stops.end())
    stop.fail("must not have an empty text");
  return stops;
}

int32_t readMostTokens(const Field &object,
                       std::initializer_list<const char *> names) {
  int32_t most = -1;
  for (const char *name : names)
    if (auto value = object[name].integer(-1, kMostRequestTokens))
      most = int32_t(*value);
  return most;
}

Field oneOf(std::initializer_list<Field> fields) {
  const Field *given = nullptr;
  for (const Field &field : fields) {
    if (!field)
      continue;
    if (given)
      field.fail(fmt::format("cannot be combined with {}", given->path()));
    else
      given = &field;
  }
  return given ? *given : *fields.begin();
}

std::shared_ptr<const Automaton> readGrammar(const Field &schema,
                                             const Field &grammar,
                                             const Field &regex,
                                             const Field &choice) {
  Field given = oneOf({schema, grammar, regex, choice});
  if (!given)
    return nullptr;
  if (schema) {
    if (schema.json() == true)
      return compiled(schema, "object", "", [] { return jsonObjects(); });
    if (!schema.object())
      return nullptr;
    return compiled(schema, "schema", schema.json().dump(),
                    [&] { return parseJsonSchema(schema.json()); });
  }
  if (choice) {
    std::vector<std::string> texts;
    for (const Field &item : choice.list(kMostTools))
      texts.push_back(item.text().value_or(""));
    if (texts.empty() || std::ranges::find(texts, "") != texts.end()) {
      choice.mustBe("a list of texts that are not empty");
      return nullptr;
    }
    return compiled(choice, "choice", nlohmann::json(texts).dump(),
                    [&] { return choiceGrammar(texts); });
  }
  std::optional<std::string> text = given.text();
  if (!text)
    return nullptr;
  return compiled(given, grammar ? "gbnf" : "regex", *text, [&] {
    return grammar ? parseGbnf(*text) : parseRegex(*text);
  });
}

std::string readContent(const Field &content,
                        std::initializer_list<std::string_view> textTypes) {
  if (!content.isList()) {
    if (content && !content.isText())
      content.mustBe("a string or a list of parts");
    return content.isText() ? *content.text() : "";
  }
  std::string text;
  for (const Field &part : content.list(kMostMessages)) {
    if (part.isText()) {
      text += *part.text();
      continue;
    }
    std::optional<std::string> type = part["type"].required().text();
    if (type && std::ranges::find(textTypes, *type) == textTypes.end()) {
      part["type"].fail(
          fmt::format("{} is not supported: this model reads text alone",
                      moert::quoted(*type)),
          "unsupported_parameter");
      return text;
    }
    text += part["text"].required().text().value_or("");
  }
  return text;
}

Tool readTool(const Field &function, const Field &schema) {
  constexpr size_t mostNameBytes = 256;
  Tool tool;
  if (!function.object())
    return tool;
  Field name = function["name"].required();
  tool.name = name.text().value_or("");
  if (name && (tool.name.empty() || tool.name.size() > mostNameBytes))
    name.fail(fmt::format("must have 1 to {} bytes", mostNameBytes));
  tool.description = function["description"].text().value_or("");
  tool.isStrict = function["strict"].boolean().value_or(false);
  if (schema && schema.object())
    tool.parameters = schema.json();
  return tool;
}

void addMessage(ChatCall &call, MessageParts parts) {
  Json message = {{"role", std::move(parts.role)},
                  {"content", std::move(parts.content)}};
  // The names that templates know it by.
  if (!parts.reasoning.empty())
    message["reasoning_content"] = message["thinking"] = parts.reasoning;
  if (!parts.name.empty())
    message["name"] = std::move(parts.name);
  if (!parts.toolCallId.empty())
    message["tool_call_id"] = std::move(parts.toolCallId);
  for (const ToolCall &toolCall : parts.calls) {
    std::optional<std::string> object = objectText(toolCall.arguments);
    message["tool_calls"].push_back(
        {{"id", toolCall.id},
         {"type", "function"},
         {"function",
          {{"name", toolCall.name},
           {"arguments",
            object ? Json::parse(*object) : Json(toolCall.arguments)}}}});
  }
  call.messages.list().push_back(std::move(message));
}

void setTools(ChatCall &call) {
  Json tools = nullptr;
  if (call.choice.kind != ToolChoice::Kind::None)
    for (const Tool &tool : call.tools)
      tools.push_back({{"type", "function"},
                       {"function",
                        {{"name", tool.name},
                         {"description", tool.description},
                         {"parameters", tool.parameters}}}});
  call.messages.variables()["tools"] = std::move(tools);
}

void readContinuation(const Field &body, ChatCall &call) {
  Field continues = body["continue_final_message"];
  Field opens = body["add_generation_prompt"];
  auto isWanted = continues.boolean(), isOpened = opens.boolean();
  if (isWanted.value_or(false)) {
    if (isOpened.value_or(false))
      continues.fail("cannot be combined with add_generation_prompt");
    if (call.messages.lastRole() != "assistant")
      continues.fail("needs a message of the assistant at the end");
  }
  if (isOpened)
    call.messages.variables()["add_generation_prompt"] = *isOpened;
  call.options.continuesLast = isWanted.value_or(!isOpened);
}

void readLogprobs(const Field &body, GenerateCall &call) {
  bool isWanted = body["logprobs"].boolean().value_or(false);
  Field top = body["top_logprobs"];
  int64_t alternatives = top.integer(0, kMostTopLogprobs).value_or(0);
  if (isWanted)
    call.topLogprobs = int32_t(alternatives);
  else if (alternatives > 0)
    top.fail("needs logprobs to be true");
}

void setReasoningEffort(const std::string &effort, ChatCall &call) {
  if (effort == "none") {
    call.options.thinking = Thinking::Off;
    return;
  }
  // Templates know three words.
  call.messages.variables()["reasoning_effort"] = effort == "minimal" ? "low"
                                                  : effort == "xhigh" ? "high"
                                                  : effort == "max"   ? "high"
                                                                      : effort;
}

void readTemplateVariables(const Field &variables, ChatCall &call) {
  for (const auto &[name, value] : variables.members()) {
    if (name == "messages" || name == "tools")
      value.fail("is not for chat_template_kwargs: it has a field of its own");
    else if (value)
      call.messages.variables()[name] = value.json();
  }
}

} // namespace moert
