#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Prompts.h"
#include "runtime/serve/api/ollama/Ollama.h"
#include "runtime/serve/api/openai/OpenAi.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// A request to generate after a text that is no conversation.
struct GenerateRequest {
  ChatCall call;
  std::string prompt, suffix;
  bool isRaw = false;
  /// What an earlier answer gave as its context.
  std::vector<int32_t> context;
  bool isEmpty = false; ///< It asks for the model to be loaded, no more.
};

int64_t nanoseconds(double seconds) { return int64_t(seconds * 1e9); }

class OllamaWriter : public ReplyWriter {
public:
  /// `prompt` is that of an answer which tells its context: of those that are
  /// no chat.
  OllamaWriter(ReplyFacts facts, bool isChat, bool hasLogprobs,
               std::vector<int32_t> prompt)
      : facts_(std::move(facts)), isChat_(isChat), hasLogprobs_(hasLogprobs),
        prompt_(std::move(prompt)) {}

  ErrorStyle errorStyle() const override { return ErrorStyle::Ollama; }
  std::string_view contentType() const override {
    return "application/x-ndjson";
  }
  // Lines of JSON have no comments.
  std::string ping() const override { return {}; }

  Json whole(std::span<const Choice> choices) override {
    const Choice &choice = choices[0];
    Json json = line(choice.text, choice.reasoning);
    // A call that was cut off has no arguments yet.
    for (const ToolCall &call : choice.calls)
      if (auto arguments = argumentsObject(call.arguments))
        json["message"]["tool_calls"].push_back(
            callJson(call, *std::move(arguments)));
    addLogprobs(json, choice.logprobs);
    addEnd(json, choice);
    return json;
  }

  std::string delta(size_t, const Choice &choice, const Delta &delta) override {
    switch (delta.kind) {
    case Delta::Kind::Text:
      return textLine(delta);
    case Delta::Kind::Reasoning:
      return jsonText(line("", delta.text)) + "\n";
    case Delta::Kind::CallEnd: {
      const ToolCall &call = choice.calls[delta.call];
      auto arguments = argumentsObject(call.arguments);
      if (!arguments)
        break;
      Json json = line("", "");
      json["message"]["tool_calls"].push_back(
          callJson(call, *std::move(arguments)));
      return jsonText(json) + "\n";
    }
    case Delta::Kind::CallBegin:
    case Delta::Kind::CallArguments:
      // Calls are sent whole: their arguments are objects.
      break;
    }
    return {};
  }

  std::string end(std::span<const Choice> choices) override {
    Json json = line("", "");
    addEnd(json, choices[0]);
    return jsonText(json) + "\n";
  }

  std::string error(const ApiError &error) override {
    return jsonText(errorJson(ErrorStyle::Ollama, error)) + "\n";
  }

private:
  Json line(const std::string &text, const std::string &thinking) const {
    Json json = {{"model", facts_.model},
                 {"created_at", isoTime(facts_.created)}};
    if (isChat_) {
      json["message"] = {{"role", "assistant"}, {"content", text}};
      if (!thinking.empty())
        json["message"]["thinking"] = thinking;
    } else {
      json["response"] = text;
      if (!thinking.empty())
        json["thinking"] = thinking;
    }
    json["done"] = false;
    return json;
  }

  std::string textLine(const Delta &delta) const {
    Json json = line(delta.text, "");
    addLogprobs(json, delta.logprobs);
    return jsonText(json) + "\n";
  }

  void addLogprobs(Json &json, std::span<const TokenLogprob> entries) const {
    if (hasLogprobs_)
      json["logprobs"] = logprobsJson(*facts_.tokenizer, entries)["content"];
  }

  static Json callJson(const ToolCall &call, Json arguments) {
    return {{"id", call.id},
            {"function",
             {{"name", call.name}, {"arguments", std::move(arguments)}}}};
  }

  void addEnd(Json &json, const Choice &choice) const {
    const GenerationStats &stats = choice.stats;
    json["done"] = true;
    json["done_reason"] =
        choice.finish == Choice::Finish::Length ? "length" : "stop";
    json["total_duration"] = nanoseconds(
        stats.queueSeconds + stats.promptSeconds + stats.decodeSeconds);
    json["load_duration"] = nanoseconds(stats.queueSeconds);
    json["prompt_eval_count"] = stats.promptTokens;
    json["prompt_eval_duration"] = nanoseconds(stats.promptSeconds);
    json["eval_count"] = stats.generatedTokens;
    // Clients divide these two. The time begins with the first token, so that
    // it is that of one token less.
    int32_t decoded = std::max(1, stats.generatedTokens - 1);
    json["eval_duration"] =
        nanoseconds(stats.decodeSeconds * stats.generatedTokens / decoded);
    if (isChat_)
      return;
    std::vector<int32_t> context = prompt_;
    context.insert(context.end(), choice.tokens.begin(), choice.tokens.end());
    json["context"] = std::move(context);
  }

  ReplyFacts facts_;
  bool isChat_, hasLogprobs_;
  std::vector<int32_t> prompt_;
};

/// What /api/chat and /api/generate share.
void readCommon(const Field &body, const ApiSettings &settings,
                ChatCall &call) {
  static const Json anyObject = true;
  GenerateCall &generate = call.generate;
  generate.model = body["model"].required().text().value_or("");
  call.options.noSpecial = settings.noSpecial;
  Field options = body["options"];
  readSampling(options, settings, generate);
  generate.reply.stops = readStops(options["stop"]);
  // Both negative numbers of Ollama mean as much as fits.
  if (auto most = options["num_predict"].integer(-2, kMostRequestTokens);
      most && *most >= 0)
    generate.reply.maxTokens = int32_t(*most);
  (void)options["num_ctx"].integer(0, kMostRequestTokens);
  generate.streams = body["stream"].boolean().value_or(true);
  if (Field keep = body["keep_alive"]; keep && !keep.isText())
    (void)keep.number(-1e12, 1e12);
  Field format = body["format"];
  Field schema = format;
  if (format.isText() && format.json() == "")
    schema = format.none();
  else if (format.isText() && format.word({"json"}))
    schema = format.as(anyObject);
  if (!format.isText() || schema)
    generate.format =
        readGrammar(schema, body.none(), body.none(), body.none());
  Field think = body["think"];
  if (think.isText()) {
    readReasoningEffort(think, call);
  } else if (auto thinks = think.boolean()) {
    if (*thinks)
      call.messages.variables()["enable_thinking"] = true;
    else
      call.options.thinking = Thinking::Off;
  }
  body["images"].refuse("this model reads text alone");
  readLogprobs(body, generate);
}

/// What an answer to a request that only loads the model is.
void answerLoaded(const Exchange &exchange, const Backend &backend,
                  bool isChat) {
  Json json = {{"model", backend.facts().id},
               {"created_at", isoTime(secondsNow(exchange.settings()))}};
  if (isChat)
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  else
    json["response"] = "";
  json["done"] = true;
  json["done_reason"] = "load";
  sendJson(*exchange.answer, json);
}

void run(const Exchange &exchange, std::shared_ptr<Backend> backend,
         Prepared prepared, bool isChat) {
  if (auto *error = std::get_if<ApiError>(&prepared))
    return exchange.fail(*error);
  RunPlan plan = std::get<RunPlan>(std::move(prepared));
  ReplyFacts facts = replyFacts(*backend, exchange.settings(), plan);
  const GenerationRequest &first = plan.requests[0];
  auto writer = std::make_unique<OllamaWriter>(
      std::move(facts), isChat, first.topLogprobs >= 0, first.prompt);
  startRun(std::move(backend), exchange.answer, std::move(plan),
           std::move(writer));
}

std::variant<ChatPrompt, ApiError>
generatePrompt(const Backend &backend, const GenerateRequest &request) {
  if (!request.suffix.empty())
    return infillPrompt(backend,
                        {.prefix = request.prompt,
                         .suffix = request.suffix,
                         .maxTokens = request.call.generate.reply.maxTokens});
  if (!request.isRaw && backend.chatFormat())
    return chatPrompt(backend, request.call);
  auto prompts = promptsOf(backend, {{.text = request.prompt}}, "prompt");
  if (auto *error = std::get_if<ApiError>(&prompts))
    return *error;
  return std::get<std::vector<ChatPrompt>>(std::move(prompts))[0];
}

Prepared prepareGenerate(const Backend &backend, const ApiSettings &settings,
                         const GenerateRequest &request) {
  auto made = generatePrompt(backend, request);
  if (auto *error = std::get_if<ApiError>(&made))
    return *error;
  ChatPrompt prompt = std::get<ChatPrompt>(std::move(made));
  if (!request.context.empty()) {
    // One text has one beginning.
    std::vector<int32_t> &tokens = prompt.tokens;
    if (!tokens.empty() && tokens.front() == backend.tokenizer().bos())
      tokens.erase(tokens.begin());
    tokens.insert(tokens.begin(), request.context.begin(),
                  request.context.end());
  }
  return preparePrompts(backend, settings, request.call.generate, {prompt});
}

void readGenerate(const Field &body, const ApiSettings &settings,
                  GenerateRequest &request) {
  readCommon(body, settings, request.call);
  request.prompt = body["prompt"].text().value_or("");
  request.suffix = body["suffix"].text().value_or("");
  request.isRaw = body["raw"].boolean().value_or(false);
  request.isEmpty = request.prompt.empty() && request.suffix.empty();
  for (const Field &token : body["context"].list(size_t(kMostRequestTokens)))
    request.context.push_back(int32_t(token.integer(0, INT32_MAX).value_or(0)));
  body["template"].refuse("the model's own template is used; with raw none is");
  if (auto system = body["system"].text(); system && !system->empty())
    addMessage(request.call, {.role = "system", .content = *system});
  addMessage(request.call, {.role = "user", .content = request.prompt});
  request.call.messages.variables()["tools"] = nullptr;
}
} // namespace

void ollamaChat(Exchange exchange) {
  bool isEmpty = false;
  auto call =
      readBody<ChatCall>(exchange, [&](const Field &body, ChatCall &call) {
        readCommon(body, exchange.settings(), call);
        Field messages = body["messages"];
        isEmpty = !messages || (messages.isList() && messages.json().empty());
        if (!isEmpty)
          readOpenAiMessages(messages, call);
        call.options.continuesLast = true;
        readOpenAiTools(body, call);
      });
  if (!call)
    return;
  call->generate.client = exchange.request.client;
  std::string model = call->generate.model;
  withModel(std::move(exchange), model,
            [call = *std::move(call), isEmpty](
                const Exchange &exchange, std::shared_ptr<Backend> backend) {
              if (isEmpty)
                return answerLoaded(exchange, *backend, /*isChat=*/true);
              Prepared prepared =
                  prepareChat(*backend, exchange.settings(), call);
              run(exchange, std::move(backend), std::move(prepared),
                  /*isChat=*/true);
            });
}

void ollamaGenerate(Exchange exchange) {
  auto request = readBody<GenerateRequest>(
      exchange, [&](const Field &body, GenerateRequest &request) {
        readGenerate(body, exchange.settings(), request);
      });
  if (!request)
    return;
  request->call.generate.client = exchange.request.client;
  std::string model = request->call.generate.model;
  withModel(std::move(exchange), model,
            [request = *std::move(request)](const Exchange &exchange,
                                            std::shared_ptr<Backend> backend) {
              if (request.isEmpty)
                return answerLoaded(exchange, *backend, /*isChat=*/false);
              Prepared prepared =
                  prepareGenerate(*backend, exchange.settings(), request);
              run(exchange, std::move(backend), std::move(prepared),
                  /*isChat=*/false);
            });
}

} // namespace moert
