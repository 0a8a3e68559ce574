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

/// A prompt that is a part of its answer.
struct Echo {
  std::string text;
  std::vector<int32_t> tokens;
};

class TextWriter : public OpenAiWriter {
public:
  /// `echoes` has one for each prompt, or none.
  TextWriter(ReplyFacts facts, int32_t topLogprobs, bool includesUsage,
             std::vector<Echo> echoes)
      : OpenAiWriter(std::move(facts), includesUsage),
        topLogprobs_(topLogprobs), echoes_(std::move(echoes)),
        offsets_(size_t(facts_.choices), 0),
        hasEchoed_(size_t(facts_.choices), echoes_.empty()) {}

  Json whole(std::span<const Choice> choices) override {
    Json json = head();
    for (size_t i = 0; i < choices.size(); ++i) {
      LogprobLists lists;
      if (!echoes_.empty())
        addPrompt(i, choices[i], lists);
      addTokens(i, choices[i].logprobs, lists);
      json["choices"].push_back(
          choiceJson(i, choices[i].text, lists, finishName(choices[i].finish)));
    }
    json["usage"] = usageJson(facts_, choices);
    json["timings"] = timingsJson(choices[0].stats);
    return json;
  }

  std::string delta(size_t index, const Choice &choice,
                    const Delta &delta) override {
    if (delta.kind == Delta::Kind::Progress) {
      Json json = chunk(choiceJson(index, "", {}, nullptr));
      json["prompt_progress"] = progressJson(choice, delta.promptDone);
      return sseEvent(json);
    }
    std::string bytes = echo(index, choice);
    LogprobLists lists;
    addTokens(index, delta.logprobs, lists);
    return bytes +
           pieceEvent(chunk(choiceJson(index, delta.text, lists, nullptr)),
                      choice);
  }

  std::string choiceEnd(size_t index, const Choice &choice) override {
    std::string bytes = echo(index, choice);
    Json json = chunk(choiceJson(index, "", {}, finishName(choice.finish)));
    json["timings"] = timingsJson(choice.stats);
    return bytes + sseEvent(json);
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
    return json;
  }

  /// The older form of probabilities: a list of each kind. Offsets are bytes of
  /// the text.
  struct LogprobLists {
    Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(),
         offsets = Json::array();
  };

  Json choiceJson(size_t index, const std::string &text,
                  const LogprobLists &lists, const char *finish) const {
    Json logprobs = nullptr;
    if (!lists.tokens.empty())
      logprobs = {{"tokens", lists.tokens},
                  {"token_logprobs", lists.logprobs},
                  {"top_logprobs", lists.top},
                  {"text_offset", lists.offsets}};
    return {{"index", index},
            {"text", text},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", finish ? Json(finish) : Json(nullptr)}};
  }

  const Echo &echoOf(size_t index) const {
    return echoes_[index / size_t(facts_.choicesPerPrompt)];
  }

  /// The prompt as the first piece of its choice, once.
  std::string echo(size_t index, const Choice &choice) {
    if (hasEchoed_[index])
      return {};
    hasEchoed_[index] = true;
    LogprobLists lists;
    addPrompt(index, choice, lists);
    return sseEvent(
        chunk(choiceJson(index, echoOf(index).text, lists, nullptr)));
  }

  /// How many bytes of `text` from `at` on are the token: none of one that was
  /// put in front, and no blank that was.
  static size_t bytesOf(std::string_view token, std::string_view text,
                        size_t at) {
    const std::string_view rest = text.substr(std::min(at, text.size()));
    if (token.starts_with(' ') && !rest.starts_with(' '))
      token.remove_prefix(1);
    return rest.starts_with(token) ? token.size() : 0;
  }

  /// Nothing precedes the first token, so that it has no probability.
  void addPrompt(size_t index, const Choice &choice, LogprobLists &lists) {
    const Echo &echo = echoOf(index);
    if (topLogprobs_ < 0 || echo.tokens.empty())
      return;
    const std::string first(facts_.tokenizer->tokenBytes(echo.tokens[0]));
    lists.tokens.push_back(first);
    lists.logprobs.push_back(nullptr);
    lists.top.push_back(nullptr);
    lists.offsets.push_back(0);
    size_t &offset = offsets_[index];
    offset = bytesOf(first, echo.text, 0);
    for (const TokenLogprob &entry : choice.promptLogprobs) {
      addToken(entry, offset, lists);
      offset +=
          bytesOf(facts_.tokenizer->tokenBytes(entry.token), echo.text, offset);
    }
    offset = echo.text.size();
  }

  void addTokens(size_t index, std::span<const TokenLogprob> entries,
                 LogprobLists &lists) {
    if (topLogprobs_ < 0)
      return;
    for (const TokenLogprob &entry : entries) {
      addToken(entry, offsets_[index], lists);
      offsets_[index] += facts_.tokenizer->tokenBytes(entry.token).size();
    }
  }

  void addToken(const TokenLogprob &entry, size_t offset,
                LogprobLists &lists) const {
    const std::string token(facts_.tokenizer->tokenBytes(entry.token));
    lists.tokens.push_back(token);
    lists.logprobs.push_back(finiteLogprob(entry.logprob));
    Json top = Json::object();
    for (auto [other, logprob] : entry.top)
      top[std::string(facts_.tokenizer->tokenBytes(other))] =
          finiteLogprob(logprob);
    // The chosen token is added to those that were asked for, if it is not
    // among them.
    top.emplace(token, finiteLogprob(entry.logprob));
    lists.top.push_back(std::move(top));
    lists.offsets.push_back(offset);
  }

  int32_t topLogprobs_;
  std::vector<Echo> echoes_;
  std::vector<size_t> offsets_;
  std::vector<bool> hasEchoed_;
};

void readText(const Field &body, const ApiSettings &settings,
              TextRequest &request) {
  GenerateCall &generate = request.generate;
  generate.model = body["model"].text().value_or("");
  request.prompts = readPrompts(body["prompt"].required());
  readSampling(body, settings, generate);
  generate.reply.stops = readStops(body["stop"]);
  // The default of OpenAI is 16, which is too short for users of their own
  // engine.
  generate.reply.maxTokens = readMostTokens(body, {"n_predict", "max_tokens"});
  generate.reply.ignoreEos = body["ignore_eos"].boolean().value_or(false);
  generate.choices = int32_t(body["n"].integer(1, kMostChoices).value_or(1));
  if (auto best = body["best_of"].integer(1, kMostChoices);
      best && *best != generate.choices)
    body["best_of"].fail("is not supported unless it equals n",
                         "unsupported_parameter");
  generate.streams = body["stream"].boolean().value_or(false);
  readService(body, generate);
  if (Field options = body["stream_options"])
    request.includesUsage = options["include_usage"].boolean().value_or(false);
  request.echoes = body["echo"].boolean().value_or(false);
  if (auto top = body["logprobs"].integer(0, kMostTopLogprobs))
    generate.topLogprobs = int32_t(*top);
  generate.promptLogprobs = request.echoes && generate.topLogprobs >= 0;
  request.suffix = body["suffix"].text().value_or("");
  generate.format = readOpenAiFormat(body);
}

void runText(const Exchange &exchange, std::shared_ptr<Backend> backend,
             TextRequest request) {
  auto prompts = promptsOf(*backend, std::move(request.prompts),
                           {.param = "prompt",
                            .choices = request.generate.choices,
                            .deadline = exchange.deadline});
  if (auto *error = std::get_if<ApiError>(&prompts))
    return exchange.fail(*error);
  std::vector<ChatPrompt> list =
      std::get<std::vector<ChatPrompt>>(std::move(prompts));
  std::vector<Echo> echoes;
  std::vector<std::string> beginnings;
  if (request.echoes)
    for (const ChatPrompt &prompt : list) {
      echoes.push_back({prompt.text, prompt.tokens});
      beginnings.insert(beginnings.end(), size_t(request.generate.choices),
                        prompt.text);
    }
  if (!request.suffix.empty())
    for (ChatPrompt &prompt : list) {
      auto infill =
          infillPrompt(*backend, {.prefix = prompt.text,
                                  .suffix = request.suffix,
                                  .maxTokens = request.generate.reply.maxTokens,
                                  .deadline = exchange.deadline});
      if (auto *error = std::get_if<ApiError>(&infill)) {
        error->param = "suffix";
        return exchange.fail(*error);
      }
      prompt = std::get<ChatPrompt>(std::move(infill));
    }
  Prepared prepared = preparePrompts(*backend, exchange.settings(),
                                     request.generate, std::move(list));
  if (auto *error = std::get_if<ApiError>(&prepared))
    return exchange.fail(*error);
  RunPlan plan = std::get<RunPlan>(std::move(prepared));
  plan.echoes = std::move(beginnings);
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
  setClient(exchange, request->generate);
  std::string model = request->generate.model;
  withModel(
      std::move(exchange), model,
      [request = *std::move(request)](
          const Exchange &exchange, std::shared_ptr<Backend> backend) mutable {
        runText(exchange, std::move(backend), std::move(request));
      });
}

} // namespace moert
