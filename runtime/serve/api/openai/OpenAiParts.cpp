#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
Json tokenJson(const Tokenizer &tokenizer, int32_t token, float logprob) {
  std::string_view bytes = tokenizer.tokenBytes(token);
  Json list = Json::array();
  for (char c : bytes)
    list.push_back(uint8_t(c));
  return {{"token", std::string(bytes)},
          {"logprob", finiteLogprob(logprob)},
          {"bytes", std::move(list)}};
}
} // namespace

AnswerFormat readOpenAiFormat(const Field &body) {
  static const Json anyObject = true;
  Field format = body["response_format"];
  Field schema = format.none();
  if (format.object()) {
    std::string type = format["type"]
                           .required()
                           .word({"text", "json_object", "json_schema"})
                           .value_or("");
    if (type == "json_schema") {
      schema = format["json_schema"].required()["schema"].required();
    } else if (type == "json_object") {
      // llama-server takes a schema here as well.
      schema = format["schema"];
      if (!schema)
        schema = format.as(anyObject);
    }
  }
  // Names of other servers: llama-server's, and vLLM's older and newer ones.
  Field structured = body["structured_outputs"];
  structured["structural_tag"].refuse("use tools");
  Field object = structured["json_object"].boolean().value_or(false)
                     ? structured["json_object"].as(anyObject)
                     : structured.none();
  body["grammar_lazy"].refuse("a grammar holds from the first token on");
  return readGrammar(
      oneOf({schema, body["json_schema"], body["guided_json"],
             structured["json"], object}),
      oneOf({body["grammar"], body["guided_grammar"], structured["grammar"]}),
      oneOf({body["regex"], body["guided_regex"], structured["regex"]}),
      oneOf({body["guided_choice"], structured["choice"]}));
}

double finiteLogprob(float logprob) {
  // The value of OpenAI for tokens that are far from likely.
  constexpr float least = -9999;
  return std::max(logprob, least);
}

Json logprobsJson(const Tokenizer &tokenizer,
                  std::span<const TokenLogprob> logprobs) {
  Json content = Json::array();
  for (const TokenLogprob &entry : logprobs) {
    Json item = tokenJson(tokenizer, entry.token, entry.logprob);
    item["top_logprobs"] = Json::array();
    for (auto [token, logprob] : entry.top)
      item["top_logprobs"].push_back(tokenJson(tokenizer, token, logprob));
    content.push_back(std::move(item));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

const char *finishName(Choice::Finish finish) {
  switch (finish) {
  case Choice::Finish::Length:
    return "length";
  case Choice::Finish::ToolCalls:
    return "tool_calls";
  case Choice::Finish::Stop:
    break;
  }
  return "stop";
}

int32_t generatedTokens(std::span<const Choice> choices) {
  int32_t sum = 0;
  for (const Choice &choice : choices)
    sum += choice.stats.generatedTokens;
  return sum;
}

int32_t cachedTokens(const ReplyFacts &facts, std::span<const Choice> choices) {
  int32_t sum = 0;
  for (size_t i = 0; i < choices.size(); i += size_t(facts.choicesPerPrompt))
    sum += choices[i].stats.cachedTokens;
  return sum;
}

Json usageJson(const ReplyFacts &facts, std::span<const Choice> choices) {
  int32_t generated = generatedTokens(choices), reasoning = 0;
  for (const Choice &choice : choices)
    reasoning += choice.reasoningTokens;
  return {{"prompt_tokens", facts.promptTokens},
          {"completion_tokens", generated},
          {"total_tokens", facts.promptTokens + generated},
          {"prompt_tokens_details",
           {{"cached_tokens", cachedTokens(facts, choices)}}},
          {"completion_tokens_details", {{"reasoning_tokens", reasoning}}}};
}

Json progressJson(const Choice &choice, int32_t promptDone) {
  return {{"total", choice.stats.promptTokens},
          {"cache", choice.stats.cachedTokens},
          {"processed", promptDone},
          {"time_ms", 1e3 * choice.stats.promptSeconds}};
}

Json timingsJson(const GenerationStats &stats) {
  auto each = [](double seconds, int32_t tokens) {
    return tokens > 0 ? 1e3 * seconds / tokens : 0;
  };
  auto rate = [](double seconds, int32_t tokens) {
    return seconds > 0 ? tokens / seconds : 0;
  };
  // The time of decoding begins with the first token.
  int32_t decoded = std::max(0, stats.generatedTokens - 1);
  int32_t evaluated = stats.promptTokens - stats.cachedTokens;
  Json json = {{"cache_n", stats.cachedTokens},
               {"prompt_n", evaluated},
               {"prompt_ms", 1e3 * stats.promptSeconds},
               {"prompt_per_token_ms", each(stats.promptSeconds, evaluated)},
               {"prompt_per_second", rate(stats.promptSeconds, evaluated)},
               {"predicted_n", stats.generatedTokens},
               {"predicted_ms", 1e3 * stats.decodeSeconds},
               {"predicted_per_token_ms", each(stats.decodeSeconds, decoded)},
               {"predicted_per_second", rate(stats.decodeSeconds, decoded)},
               {"queue_ms", 1e3 * stats.queueSeconds},
               {"queue_steps", stats.queueSteps},
               {"prompt_steps", stats.promptSteps}};
  if (stats.draftedTokens > 0) {
    json["draft_n"] = stats.draftedTokens;
    json["draft_n_accepted"] = stats.acceptedTokens;
  }
  return json;
}

} // namespace moert
