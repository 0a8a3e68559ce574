#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Prompts.h"
#include "runtime/serve/api/openai/OpenAiWriter.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct TextRequest {
  GenerateCall generate;
  std::vector<PromptField> prompts;
  std::string suffix;
  bool echoes = false, includesUsage = false;
};

class TextWriter : public OpenAiWriter {
public:
  TextWriter(ReplyFacts facts, int32_t topLogprobs, bool includesUsage,
             std::vector<std::string> echoes)
      : OpenAiWriter(std::move(facts), includesUsage),
        topLogprobs_(topLogprobs), echoes_(std::move(echoes)),
        offsets_(size_t(facts_.choices), 0) {}

  Json whole(std::span<const Choice> choices) override {
    Json json = head();
    for (size_t i = 0; i < choices.size(); ++i)
      json["choices"].push_back(choiceJson(i, choices[i].text,
                                           choices[i].logprobs,
                                           finishName(choices[i].finish)));
    json["usage"] = usageJson(facts_, choices);
    json["timings"] = timingsJson(choices[0].stats);
    return json;
  }

  std::string begin() override {
    std::string bytes;
    for (size_t i = 0; i < echoes_.size(); ++i)
      bytes += sseEvent(chunk(choiceJson(i, echoes_[i], {}, nullptr)));
    return bytes;
  }

  std::string delta(size_t index, const Choice &, const Delta &delta) override {
    return sseEvent(
        chunk(choiceJson(index, delta.text, delta.logprobs, nullptr)));
  }

  std::string choiceEnd(size_t index, const Choice &choice) override {
    Json json = chunk(choiceJson(index, "", {}, finishName(choice.finish)));
    json["timings"] = timingsJson(choice.stats);
    return sseEvent(json);
  }

  std::string end(std::span<const Choice> choices) override {
    return streamEnd(head(), choices);
  }

private:
  Json head() const {
    return {{"id", "cmpl-" + facts_.id},
            {"object", "text_completion"},
            {"created", facts_.created},
            {"model", facts_.model},
            {"choices", Json::array()}};
  }

  Json chunk(Json choice) const {
    Json json = head();
    json["choices"].push_back(std::move(choice));
    if (includesUsage_)
      json["usage"] = nullptr;
    return json;
  }

  Json choiceJson(size_t index, const std::string &text,
                  std::span<const TokenLogprob> logprobs, const char *finish) {
    return {{"index", index},
            {"text", text},
            {"logprobs", logprobsOf(index, logprobs)},
            {"finish_reason", finish ? Json(finish) : Json(nullptr)}};
  }

  /// The older form: a list of each kind. Offsets are bytes of the text.
  Json logprobsOf(size_t index, std::span<const TokenLogprob> entries) {
    if (topLogprobs_ < 0 || entries.empty())
      return nullptr;
    Json json = {{"tokens", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"top_logprobs", Json::array()},
                 {"text_offset", Json::array()}};
    for (const TokenLogprob &entry : entries) {
      std::string token(facts_.tokenizer->tokenBytes(entry.token));
      json["tokens"].push_back(token);
      json["token_logprobs"].push_back(finiteLogprob(entry.logprob));
      Json top = Json::object();
      for (auto [other, logprob] : entry.top)
        top[std::string(facts_.tokenizer->tokenBytes(other))] =
            finiteLogprob(logprob);
      // One more than was asked for, if it is not among them.
      top.emplace(token, finiteLogprob(entry.logprob));
      json["top_logprobs"].push_back(std::move(top));
      json["text_offset"].push_back(offsets_[index]);
      offsets_[index] += token.size();
    }
    return json;
  }

  int32_t topLogprobs_;
  std::vector<std::string> echoes_;
  std::vector<size_t> offsets_;
};

void readText(const Field &body, const ApiSettings &settings,
              TextRequest &request) {
  GenerateCall &generate = request.generate;
  generate.model = body["model"].text().value_or("");
  request.prompts = readPrompts(body["prompt"].required());
  readSampling(body, settings, generate);
  generate.reply.stops = readStops(body["stop"]);
  // OpenAI's default is 16, which nobody who has an engine of their own wants.
  generate.reply.maxTokens = readMostTokens(body, {"n_predict", "max_tokens"});
  generate.reply.ignoreEos = body["ignore_eos"].boolean().value_or(false);
  generate.choices = int32_t(body["n"].integer(1, kMostChoices).value_or(1));
  if (auto best = body["best_of"].integer(1, kMostChoices);
      best && *best != generate.choices)
    body["best_of"].fail("is not supported unless it equals n",
                         "unsupported_parameter");
  generate.streams = body["stream"].boolean().value_or(false);
  if (Field options = body["stream_options"])
    request.includesUsage = options["include_usage"].boolean().value_or(false);
  request.echoes = body["echo"].boolean().value_or(false);
  if (auto top = body["logprobs"].integer(0, kMostTopLogprobs))
    generate.topLogprobs = int32_t(*top);
  if (request.echoes && generate.topLogprobs >= 0)
    body["logprobs"].fail("is not supported together with echo: the "
                          "probabilities of prompts are not computed",
                          "unsupported_parameter");
  request.suffix = body["suffix"].text().value_or("");
  generate.grammar = readOpenAiFormat(body);
}

void runText(const Exchange &exchange, std::shared_ptr<Backend> backend,
             const TextRequest &request) {
  auto prompts =
      promptsOf(*backend, request.prompts, "prompt", request.generate.choices);
  if (auto *error = std::get_if<ApiError>(&prompts))
    return exchange.fail(*error);
  std::vector<ChatPrompt> list =
      std::get<std::vector<ChatPrompt>>(std::move(prompts));
  std::vector<std::string> echoes;
  if (request.echoes)
    for (const ChatPrompt &prompt : list)
      echoes.insert(echoes.end(), size_t(request.generate.choices),
                    prompt.text);
  if (!request.suffix.empty())
    for (ChatPrompt &prompt : list) {
      auto infill = infillPrompt(
          *backend, {.prefix = prompt.text,
                     .suffix = request.suffix,
                     .maxTokens = request.generate.reply.maxTokens});
      if (auto *error = std::get_if<ApiError>(&infill)) {
        error->param = "suffix";
        return exchange.fail(*error);
      }
      prompt = std::get<ChatPrompt>(std::move(infill));
    }
  Prepared prepared =
      preparePrompts(*backend, exchange.settings(), request.generate, list);
  if (auto *error = std::get_if<ApiError>(&prepared))
    return exchange.fail(*error);
  RunPlan plan = std::get<RunPlan>(std::move(prepared));
  plan.echoes = echoes;
  ReplyFacts facts = replyFacts(*backend, exchange.settings(), plan);
  auto writer = std::make_unique<TextWriter>(
      std::move(facts), request.generate.topLogprobs, request.includesUsage,
      std::move(echoes));
  startRun(exchange, std::move(backend), std::move(plan), std::move(writer));
}
} // namespace

void completeText(Exchange exchange) {
  auto request = readBody<TextRequest>(
      exchange, [&](const Field &body, TextRequest &request) {
        readText(body, exchange.settings(), request);
      });
  if (!request)
    return;
  request->generate.client = exchange.request.client;
  std::string model = request->generate.model;
  withModel(std::move(exchange), model,
            [request = *std::move(request)](const Exchange &exchange,
                                            std::shared_ptr<Backend> backend) {
              runText(exchange, std::move(backend), request);
            });
}

} // namespace moert
