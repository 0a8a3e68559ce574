#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Prompts.h"
#include "runtime/serve/api/llama/LlamaServer.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/text/Tokenizer.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct CompletionRequest {
  GenerateCall generate;
  std::vector<PromptField> prompts;
  bool returnsTokens = false;
  /// Of an infill.
  bool isInfill = false;
  std::string prefix, suffix;
  std::vector<std::pair<std::string, std::string>> extra;
};

const char *stopType(const Choice &choice) {
  switch (choice.reason) {
  case StopReason::EndOfText:
    return "eos";
  case StopReason::StopString:
    return "word";
  case StopReason::Length:
  case StopReason::ContextFull:
    return "limit";
  case StopReason::Cancelled:
    break;
  }
  return "none";
}

class CompletionWriter : public ReplyWriter {
public:
  CompletionWriter(ReplyFacts facts, bool returnsTokens, bool hasLogprobs)
      : facts_(std::move(facts)), returnsTokens_(returnsTokens),
        hasLogprobs_(hasLogprobs) {}

  ErrorStyle errorStyle() const override { return ErrorStyle::OpenAi; }

  Json whole(std::span<const Choice> choices) override {
    if (choices.size() == 1)
      return last(0, choices[0], choices[0].text);
    Json list = Json::array();
    for (size_t i = 0; i < choices.size(); ++i)
      list.push_back(last(i, choices[i], choices[i].text));
    return list;
  }

  std::string delta(size_t index, const Choice &, const Delta &delta) override {
    Json json = {{"index", index},
                 {"content", delta.text},
                 {"tokens", Json::array()},
                 {"stop", false}};
    addLogprobs(json, delta.logprobs);
    return sseEvent(json);
  }

  std::string choiceEnd(size_t index, const Choice &choice) override {
    return sseEvent(last(index, choice, ""));
  }

  std::string error(const ApiError &error) override {
    return sseEvent(errorJson(ErrorStyle::OpenAi, error));
  }

private:
  Json last(size_t index, const Choice &choice, const std::string &text) const {
    Json json = {
        {"index", index},
        {"content", text},
        {"tokens", returnsTokens_ ? Json(choice.tokens) : Json::array()},
        {"id_slot", -1},
        {"stop", true},
        {"model", facts_.model},
        {"tokens_predicted", choice.stats.generatedTokens},
        {"tokens_evaluated", choice.stats.promptTokens},
        {"has_new_line", choice.text.find('\n') != std::string::npos},
        {"truncated", false},
        {"stop_type", stopType(choice)},
        {"stopping_word", choice.stop},
        {"tokens_cached",
         choice.stats.promptTokens + choice.stats.generatedTokens},
        {"timings", timingsJson(choice.stats)}};
    if (!text.empty())
      addLogprobs(json, choice.logprobs);
    return json;
  }

  void addLogprobs(Json &json, std::span<const TokenLogprob> entries) const {
    if (!hasLogprobs_)
      return;
    Json list = logprobsJson(*facts_.tokenizer, entries)["content"];
    for (size_t i = 0; i < entries.size(); ++i) {
      list[i]["id"] = entries[i].token;
      for (size_t k = 0; k < entries[i].top.size(); ++k)
        list[i]["top_logprobs"][k]["id"] = entries[i].top[k].first;
    }
    json["completion_probabilities"] = std::move(list);
  }

  ReplyFacts facts_;
  bool returnsTokens_, hasLogprobs_;
};

void readCompletion(const Field &body, const ApiSettings &settings,
                    CompletionRequest &request) {
  GenerateCall &generate = request.generate;
  generate.model = body["model"].text().value_or("");
  readSampling(body, settings, generate);
  generate.reply.stops = readStops(body["stop"]);
  generate.reply.maxTokens = readMostTokens(body, {"n_predict", "max_tokens"});
  if (auto choices =
          oneOf({body["n"], body["n_cmpl"]}).integer(1, kMostChoices))
    generate.choices = int32_t(*choices);
  generate.reply.ignoreEos = body["ignore_eos"].boolean().value_or(false);
  generate.streams = body["stream"].boolean().value_or(false);
  if (auto most = body["n_probs"].integer(0, kMostTopLogprobs); most && *most)
    generate.topLogprobs = int32_t(*most);
  generate.grammar = readOpenAiFormat(body);
  request.returnsTokens = body["return_tokens"].boolean().value_or(false);
  (void)body["cache_prompt"].boolean();
  body["image_data"].refuse("this model reads text alone");
  body["lora"].refuse("plans have no adapters");
}

void readInfill(const Field &body, CompletionRequest &request) {
  request.isInfill = true;
  request.prefix = body["input_prefix"].required().text().value_or("");
  request.suffix = body["input_suffix"].required().text().value_or("");
  // What the user has typed at the place is the end of what precedes it.
  request.prefix += body["prompt"].text().value_or("");
  for (const Field &item : body["input_extra"].list(kMostPrompts))
    request.extra.emplace_back(item["filename"].text().value_or("file"),
                               item["text"].required().text().value_or(""));
}

std::variant<std::vector<ChatPrompt>, ApiError>
promptsFor(const Backend &backend, const CompletionRequest &request) {
  if (!request.isInfill)
    return promptsOf(backend, request.prompts, "prompt");
  auto prompt =
      infillPrompt(backend, request.prefix, request.suffix, request.extra);
  if (auto *error = std::get_if<ApiError>(&prompt))
    return *error;
  return std::vector<ChatPrompt>{std::get<ChatPrompt>(std::move(prompt))};
}

void complete(Exchange exchange, bool isInfill) {
  auto request = readBody<CompletionRequest>(
      exchange, [&](const Field &body, CompletionRequest &request) {
        readCompletion(body, exchange.settings(), request);
        if (isInfill)
          readInfill(body, request);
        else
          request.prompts = readPrompts(body["prompt"].required());
      });
  if (!request)
    return;
  request->generate.client = exchange.request.client;
  std::string model = request->generate.model;
  withModel(std::move(exchange), model,
            [request = *std::move(request)](const Exchange &exchange,
                                            std::shared_ptr<Backend> backend) {
              auto prompts = promptsFor(*backend, request);
              if (auto *error = std::get_if<ApiError>(&prompts))
                return exchange.fail(*error);
              Prepared prepared = preparePrompts(
                  *backend, exchange.settings(), request.generate,
                  std::get<std::vector<ChatPrompt>>(std::move(prompts)));
              if (auto *error = std::get_if<ApiError>(&prepared))
                return exchange.fail(*error);
              RunPlan plan = std::get<RunPlan>(std::move(prepared));
              ReplyFacts facts =
                  replyFacts(*backend, exchange.settings(), plan);
              auto writer = std::make_unique<CompletionWriter>(
                  std::move(facts), request.returnsTokens,
                  request.generate.topLogprobs >= 0);
              startRun(std::move(backend), exchange.answer, std::move(plan),
                       std::move(writer));
            });
}
} // namespace

void llamaCompletion(Exchange exchange) {
  complete(std::move(exchange), /*isInfill=*/false);
}

void llamaInfill(Exchange exchange) {
  complete(std::move(exchange), /*isInfill=*/true);
}

} // namespace moert
