#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Prompts.h"
#include "runtime/serve/api/llama/LlamaServer.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct CompletionRequest {
  GenerateCall generate;
  std::vector<PromptField> prompts;
  bool returnsTokens = false;
  /// Paths of those fields of the last object that are wanted; none: all.
  std::vector<std::string> responseFields;
  std::optional<InfillRequest> infill;
};

/// Facts in an answer about one of its requests.
struct CompletionFacts {
  std::string prompt;
  int32_t promptTokens = 0;
  Json settings;
};

CompletionFacts factsOfCompletion(const GenerationRequest &request,
                                  bool streams) {
  Json settings = samplingJson(request.sampling);
  settings["seed"] = request.sampling.seed;
  settings["n_predict"] = settings["max_tokens"] = request.reply.maxTokens;
  settings["stop"] = request.reply.stops;
  settings["ignore_eos"] = request.reply.ignoreEos;
  settings["n_probs"] = std::max(0, request.topLogprobs);
  settings["has_grammar"] = request.grammar != nullptr;
  settings["stream"] = streams;
  return {.prompt = request.promptText,
          .promptTokens = int32_t(request.prompt.size()),
          .settings = std::move(settings)};
}

/// The members at `paths`, such as "timings/predicted_ms", by their paths.
Json selected(const Json &json, const std::vector<std::string> &paths) {
  Json result = Json::object();
  for (const std::string &path : paths) {
    const Json *at = &json;
    for (size_t begin = 0; at && begin <= path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      auto member = at->find(path.substr(begin, end - begin));
      at = member == at->end() ? nullptr : &*member;
      begin = end + 1;
    }
    if (at)
      result[path] = *at;
  }
  return result;
}

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
  CompletionWriter(ReplyFacts facts, std::vector<CompletionFacts> completions,
                   const CompletionRequest &request)
      : facts_(std::move(facts)), completions_(std::move(completions)),
        sentTokens_(completions_.size(), 0),
        responseFields_(request.responseFields),
        returnsTokens_(request.returnsTokens),
        hasLogprobs_(request.generate.topLogprobs >= 0) {}

  ErrorStyle errorStyle() const override { return ErrorStyle::OpenAi; }

  Json whole(std::span<const Choice> choices) override {
    if (choices.size() == 1)
      return last(0, choices[0], choices[0].text);
    Json list = Json::array();
    for (size_t i = 0; i < choices.size(); ++i)
      list.push_back(last(i, choices[i], choices[i].text));
    return list;
  }

  std::string delta(size_t index, const Choice &choice,
                    const Delta &delta) override {
    sentTokens_[index] += int32_t(delta.tokens.size());
    Json json = {{"index", index},
                 {"content", delta.text},
                 {"tokens", delta.tokens},
                 {"stop", false},
                 {"id_slot", -1},
                 {"tokens_predicted", sentTokens_[index]},
                 {"tokens_evaluated", completions_[index].promptTokens}};
    if (delta.kind == Delta::Kind::Progress)
      json["prompt_progress"] = progressJson(choice, delta.promptDone);
    else
      addLogprobs(json, delta.logprobs);
    if (facts_.timesTokens)
      json["timings"] = timingsJson(choice.stats);
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
        {"generation_settings", completions_[index].settings},
        {"prompt", completions_[index].prompt},
        {"has_new_line", choice.text.find('\n') != std::string::npos},
        {"truncated", false},
        {"stop_type", stopType(choice)},
        {"stopping_word", choice.stop},
        {"tokens_cached",
         choice.stats.promptTokens + choice.stats.generatedTokens},
        {"timings", timingsJson(choice.stats)}};
    if (!text.empty())
      addLogprobs(json, choice.logprobs);
    return responseFields_.empty() ? json : selected(json, responseFields_);
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
  std::vector<CompletionFacts> completions_; ///< One entry for each choice.
  std::vector<int32_t> sentTokens_;
  std::vector<std::string> responseFields_;
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
  readService(body, generate);
  if (auto most = body["n_probs"].integer(0, kMostTopLogprobs); most && *most)
    generate.topLogprobs = int32_t(*most);
  generate.format = readOpenAiFormat(body);
  request.returnsTokens = body["return_tokens"].boolean().value_or(false);
  request.responseFields = body["response_fields"].texts(kMostTools);
  // A limit of 0 or less means none.
  if (auto most = body["t_max_predict_ms"].integer(INT32_MIN, INT32_MAX);
      most && *most > 0)
    generate.mostDecodeTime = std::chrono::milliseconds(*most);
  (void)body["cache_prompt"].boolean();
  body["image_data"].refuse("this model reads text alone");
  body["lora"].refuse("plans have no adapters");
}

void readInfill(const Field &body, CompletionRequest &request) {
  InfillRequest &infill = request.infill.emplace();
  infill.prefix = body["input_prefix"].required().text().value_or("");
  infill.suffix = body["input_suffix"].required().text().value_or("");
  // The text that the user has typed at the place belongs to the prefix.
  infill.prefix += body["prompt"].text().value_or("");
  infill.maxTokens = request.generate.reply.maxTokens;
  for (const Field &item : body["input_extra"].list(kMostPrompts))
    infill.extra.emplace_back(item["filename"].text().value_or("tmp"),
                              item["text"].required().text().value_or(""));
}

std::variant<std::vector<ChatPrompt>, ApiError>
promptsFor(const Backend &backend, CompletionRequest &request,
           const Deadline &deadline) {
  if (!request.infill)
    return promptsOf(backend, std::move(request.prompts),
                     {.param = "prompt",
                      .choices = request.generate.choices,
                      .deadline = deadline});
  request.infill->deadline = deadline;
  auto prompt = infillPrompt(backend, *request.infill);
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
  setClient(exchange, request->generate);
  std::string model = request->generate.model;
  withModel(
      std::move(exchange), model,
      [request = *std::move(request)](
          const Exchange &exchange, std::shared_ptr<Backend> backend) mutable {
        auto prompts = promptsFor(*backend, request, exchange.deadline);
        if (auto *error = std::get_if<ApiError>(&prompts))
          return exchange.fail(*error);
        Prepared prepared = preparePrompts(
            *backend, exchange.settings(), request.generate,
            std::get<std::vector<ChatPrompt>>(std::move(prompts)));
        if (auto *error = std::get_if<ApiError>(&prepared))
          return exchange.fail(*error);
        RunPlan plan = std::get<RunPlan>(std::move(prepared));
        ReplyFacts facts = replyFacts(*backend, exchange.settings(), plan);
        std::vector<CompletionFacts> completions;
        for (const GenerationRequest &each : plan.requests)
          completions.insert(completions.end(), size_t(plan.choicesPerPrompt),
                             factsOfCompletion(each, plan.streams));
        auto writer = std::make_unique<CompletionWriter>(
            std::move(facts), std::move(completions), request);
        startRun(exchange, std::move(backend), std::move(plan),
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
