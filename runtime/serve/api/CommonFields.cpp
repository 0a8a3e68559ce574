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

/// Reads {"15043": 1.5}, or [[15043, 1.5], ...].
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
AnswerFormat compiled(const Field &field, std::string_view kind,
                      const std::string &text,
                      const std::function<StatusOr<Grammar>()> &parse) {
  AnswerFormat format;
  format.key = fmt::format("{} {}", kind, text);
  StatusOr<Grammar> grammar = parse();
  GrammarCache::Compiled automaton =
      grammar ? sharedGrammars().get(
                    format.key,
                    [&]() -> GrammarCache::Compiled {
                      MOE_ASSIGN_OR_RETURN(
                          Automaton made,
                          Automaton::compile(*grammar, Automaton::kMaxStates,
                                             field.deadline()));
                      return std::make_shared<const Automaton>(std::move(made));
                    })
              : GrammarCache::Compiled(grammar.status());
  if (automaton) {
    format.automaton = *automaton;
    format.grammar = std::make_shared<const Grammar>(*std::move(grammar));
    return format;
  }
  field.fail("cannot be used: " + automaton.status().message());
  return {};
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
  // In other engines, -1 keeps all tokens; here, 0 does.
  if (auto topK = object["top_k"].integer(-1, INT32_MAX))
    params.topK = uint32_t(std::max<int64_t>(*topK, 0));
  // The value -1 stands for all of the text.
  constexpr int64_t mostWindow = 1 << 20;
  if (auto window = object["repeat_last_n"].integer(-1, mostWindow))
    params.repetitionWindow = uint32_t(*window < 0 ? mostWindow : *window);
  // A top_p of 0 keeps only the most likely token.
  if (params.topP == 0)
    params.topK = 1, params.topP = 1;
  if (auto seed = object["seed"].integer(INT64_MIN, INT64_MAX)) {
    // In llama-server, -1 asks for a random seed.
    call.hasSeed = *seed != -1;
    params.seed = uint64_t(*seed);
  }
  readLogitBias(object["logit_bias"], params.logitBias);
  object["post_sampling_probs"].refuse(
      "probabilities are those of the model, before samplers");
  for (const ForeignSampler &sampler : kForeign) {
    Field field = object[sampler.name];
    if (auto value = field.number(-1e9, 1e9); value && *value != sampler.off)
      field.note("is skipped: this server has no such sampler");
  }
}

void readService(const Field &body, GenerateCall &call) {
  constexpr size_t mostUserBytes = 64;
  if (auto user = body["user"].text())
    call.user = user->substr(0, mostUserBytes);
  constexpr int32_t most = 1'000'000;
  call.priority = int32_t(body["priority"].integer(-most, most).value_or(0));
  call.reportsProgress = body["return_progress"].boolean().value_or(false);
  call.timesTokens = body["timings_per_token"].boolean().value_or(false);
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
    if (given && given->json() == field.json())
      continue;
    if (given)
      field.fail(fmt::format("cannot be combined with {}", given->path()));
    else
      given = &field;
  }
  return given ? *given : *fields.begin();
}

AnswerFormat readGrammar(const Field &schema, const Field &grammar,
                         const Field &regex, const Field &choice) {
  Field given = oneOf({schema, grammar, regex, choice});
  if (!given)
    return {};
  if (schema) {
    if (schema.json() == true)
      return compiled(schema, "object", "", [] { return jsonObjects(); });
    if (!schema.object())
      return {};
    return compiled(schema, "schema", schema.json().dump(), [&] {
      return parseJsonSchema(schema.json(), {}, schema.deadline());
    });
  }
  if (choice) {
    std::vector<std::string> texts;
    for (const Field &item : choice.list(kMostTools))
      texts.push_back(item.text().value_or(""));
    if (texts.empty() || std::ranges::find(texts, "") != texts.end()) {
      choice.mustBe("a list of texts that are not empty");
      return {};
    }
    return compiled(choice, "choice", nlohmann::json(texts).dump(),
                    [&] { return choiceGrammar(texts); });
  }
  std::optional<std::string> text = given.text();
  if (!text)
    return {};
  return compiled(given, grammar ? "gbnf" : "regex", *text, [&] {
    return grammar ? parseGbnf(*text, given.deadline()) : parseRegex(*text);
  });
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

MessageParts messageParts(std::string role, Content content,
                          const Field &place) {
  MessageParts parts{.role = std::move(role),
                     .content = std::move(content.text),
                     .place = place.path(),
                     .unread = std::move(content.unread)};
  if (parts.role == "assistant")
    parts.reasoning = std::move(content.reasoning);
  else
    parts.content += content.reasoning;
  return parts;
}

void addMessage(ChatCall &call, MessageParts parts) {
  Json &list = call.messages.list();
  const bool followsTool = !list.empty() && list.back()["role"] == "tool";
  if (parts.role == "assistant")
    call.unread = {};
  else if (parts.role == "user" && !followsTool && call.unread.place.empty())
    call.unread = std::move(parts.unread);

  Json message = {{"role", std::move(parts.role)},
                  {"content", std::move(parts.content)}};
  if (!parts.reasoning.empty())
    message["reasoning_content"] = std::move(parts.reasoning);
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
  list.push_back(std::move(message));
  call.places.push_back(std::move(parts.place));
}

void addInstructions(ChatCall &call, const std::string &text) {
  Json &list = call.messages.list();
  list.insert(list.begin(), Json{{"role", "system"}, {"content", text}});
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

void readReasoningEffort(const Field &effort, ChatCall &call) {
  const std::optional<std::string> word = effort.text();
  if (!word)
    return;
  if (*word == "none") {
    call.options.thinking = Thinking::Off;
    return;
  }
  // Templates know three words for the effort.
  constexpr std::pair<std::string_view, const char *> known[] = {
      {"minimal", "low"}, {"low", "low"},    {"medium", "medium"},
      {"high", "high"},   {"xhigh", "high"}, {"max", "high"}};
  for (const auto &[name, ours] : known)
    if (*word == name) {
      call.messages.variables()["reasoning_effort"] = ours;
      return;
    }
  effort.note("is skipped: models know low, medium and high");
}

double shownFloat(float value) {
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  double shown = double(value);
  std::from_chars(text, end, shown);
  return shown;
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
