#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Prompts.h"
#include "runtime/serve/api/ollama/KeepAlive.h"
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
  /// The context that an earlier answer gave.
  std::vector<int32_t> context;
  bool isEmpty = false; ///< Whether it only asks to load or unload the model.
  ModelHost::KeepTime keep;
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
  // Lines of JSON have no comments, so that there is no ping.
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
    case Delta::Kind::Progress:
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
    const int64_t load = nanoseconds(stats.queueSeconds),
                  prompt = nanoseconds(stats.promptSeconds),
                  decode = nanoseconds(stats.decodeSeconds);
    // Clients divide the count of tokens by the time of decoding, which begins
    // with the first token. The time of that one, which is a part of the
    // prompt's, belongs to the same sum.
    const int64_t first =
        std::min(prompt, decode / std::max(1, stats.generatedTokens - 1));
    json["total_duration"] = load + prompt + decode;
    json["load_duration"] = load;
    json["prompt_eval_count"] = stats.promptTokens;
    json["prompt_eval_duration"] = prompt - first;
    json["eval_count"] = stats.generatedTokens;
    json["eval_duration"] = decode + first;
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

/// Reads the fields that /api/chat and /api/generate share.
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
  call.wantedContext =
      int32_t(options["num_ctx"].integer(0, kMostRequestTokens).value_or(0));
  generate.streams = body["stream"].boolean().value_or(true);
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

/// Answers a request that only loads the model, or unloads it.
void answerLoaded(const Exchange &exchange, const std::string &model,
                  bool isChat, bool unloads) {
  Json json = {{"model", model},
               {"created_at", isoTime(secondsNow(exchange.settings()))}};
  if (isChat)
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  else
    json["response"] = "";
  json["done"] = true;
  json["done_reason"] = unloads ? "unload" : "load";
  sendJson(*exchange.answer, json);
}

/// Calls `then` as withModel() does, and has the model kept afterwards for as
/// long as the request says. A request without a prompt is answered here.
void withKeptModel(
    Exchange exchange, const std::string &name, ModelHost::KeepTime keep,
    bool isEmpty, bool isChat,
    std::function<void(const Exchange &, std::shared_ptr<Backend>)> then) {
  const std::optional<std::string> known = knownModel(exchange, name);
  if (!known)
    return;
  ModelHost &host = exchange.context->host;
  host.keep(*known, keep);
  // A model is not loaded only to be unloaded.
  if (isEmpty && keep && keep->count() == 0)
    return answerLoaded(exchange, known->empty() ? host.models()[0].id : *known,
                        isChat, /*unloads=*/true);
  if (isEmpty)
    then = [isChat](const Exchange &exchange,
                    std::shared_ptr<Backend> backend) {
      answerLoaded(exchange, backend->facts().id, isChat, /*unloads=*/false);
    };
  withModel(std::move(exchange), *known, std::move(then));
}

/// Ends a reply where the context ends that the client counts on. Prompts are
/// never cut: one that is longer has the context of the server.
void limitContext(const Exchange &exchange, const Backend &backend,
                  int32_t wanted, RunPlan &plan) {
  const int32_t context = backend.facts().contextTokens;
  if (wanted > context && context > 0)
    logOnce(exchange, fmt::format("options.num_ctx {} is more than the context "
                                  "of {}: serve the model with -c {}",
                                  wanted, context, wanted));
  for (GenerationRequest &request : plan.requests) {
    const int64_t room = int64_t(wanted) - int64_t(request.prompt.size());
    int32_t &most = request.reply.maxTokens;
    if (wanted > 0 && room > 0 && (most < 0 || most > room))
      most = int32_t(room);
  }
}

void run(const Exchange &exchange, std::shared_ptr<Backend> backend,
         Prepared prepared, int32_t wantedContext, bool isChat) {
  if (auto *error = std::get_if<ApiError>(&prepared))
    return exchange.fail(*error);
  RunPlan plan = std::get<RunPlan>(std::move(prepared));
  limitContext(exchange, *backend, wantedContext, plan);
  ReplyFacts facts = replyFacts(*backend, exchange.settings(), plan);
  const GenerationRequest &first = plan.requests[0];
  auto writer = std::make_unique<OllamaWriter>(
      std::move(facts), isChat, first.topLogprobs >= 0, first.prompt);
  startRun(exchange, std::move(backend), std::move(plan), std::move(writer));
}

std::variant<ChatPrompt, ApiError>
generatePrompt(const Backend &backend, const GenerateRequest &request) {
  if (!request.suffix.empty())
    return infillPrompt(backend,
                        {.prefix = request.prompt,
                         .suffix = request.suffix,
                         .maxTokens = request.call.generate.reply.maxTokens,
                         .deadline = request.call.options.deadline});
  if (!request.isRaw && backend.chatFormat()) {
    if (auto error = surelyTooLong(backend, request.prompt))
      return *std::move(error);
    return chatPrompt(backend, request.call);
  }
  auto prompts =
      promptsOf(backend, {{.text = request.prompt}},
                {.param = "prompt", .deadline = request.call.options.deadline});
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
    // A text has only one beginning.
    std::vector<int32_t> &tokens = prompt.tokens;
    if (!tokens.empty() && tokens.front() == backend.tokenizer().bos())
      tokens.erase(tokens.begin());
    tokens.insert(tokens.begin(), request.context.begin(),
                  request.context.end());
  }
  return preparePrompts(backend, settings, request.call.generate, {prompt});
}

/// Whether a template in Go's language is the prompt and nothing else, which
/// clients send that write prompts of their own.
bool isPromptAlone(std::string_view goTemplate) {
  std::string words;
  std::ranges::copy_if(goTemplate, std::back_inserter(words), [](char c) {
    return c != ' ' && c != '\n' && c != '-';
  });
  return words == "{{.Prompt}}";
}

void readGenerate(const Field &body, const ApiSettings &settings,
                  GenerateRequest &request) {
  readCommon(body, settings, request.call);
  request.prompt = body["prompt"].text().value_or("");
  request.suffix = body["suffix"].text().value_or("");
  request.isRaw = body["raw"].boolean().value_or(false);
  request.keep = readKeepAlive(body["keep_alive"]);
  request.isEmpty = request.prompt.empty() && request.suffix.empty();
  for (const Field &token : body["context"].list(size_t(kMostRequestTokens)))
    request.context.push_back(int32_t(token.integer(0, INT32_MAX).value_or(0)));
  if (isPromptAlone(body["template"].text().value_or("")))
    request.isRaw = true;
  else if (!body["template"].text().value_or("").empty())
    body["template"].refuse("the model's own template is used; {{ .Prompt }}, "
                            "or raw, uses none");
  if (auto system = body["system"].text(); system && !system->empty())
    addMessage(request.call, {.role = "system", .content = *system});
  addMessage(request.call, {.role = "user", .content = request.prompt});
  request.call.messages.variables()["tools"] = nullptr;
}
} // namespace

void ollamaChat(Exchange exchange) {
  bool isEmpty = false;
  ModelHost::KeepTime keep;
  auto call =
      readBody<ChatCall>(exchange, [&](const Field &body, ChatCall &call) {
        readCommon(body, exchange.settings(), call);
        Field messages = body["messages"];
        keep = readKeepAlive(body["keep_alive"]);
        isEmpty = !messages || (messages.isList() && messages.json().empty());
        if (!isEmpty)
          readOpenAiMessages(messages, call);
        call.options.continuesLast = true;
        readOpenAiTools(body, call);
      });
  if (!call)
    return;
  setClient(exchange, call->generate);
  std::string model = call->generate.model;
  withKeptModel(
      std::move(exchange), model, keep, isEmpty, /*isChat=*/true,
      [call = *std::move(call)](const Exchange &exchange,
                                std::shared_ptr<Backend> backend) mutable {
        call.options.deadline = exchange.deadline;
        const int32_t wanted = call.wantedContext;
        Prepared prepared =
            prepareChat(*backend, exchange.settings(), std::move(call));
        run(exchange, std::move(backend), std::move(prepared), wanted,
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
  setClient(exchange, request->call.generate);
  std::string model = request->call.generate.model;
  const ModelHost::KeepTime keep = request->keep;
  const bool isEmpty = request->isEmpty;
  withKeptModel(
      std::move(exchange), model, keep, isEmpty, /*isChat=*/false,
      [request = *std::move(request)](
          const Exchange &exchange, std::shared_ptr<Backend> backend) mutable {
        request.call.options.deadline = exchange.deadline;
        Prepared prepared =
            prepareGenerate(*backend, exchange.settings(), request);
        run(exchange, std::move(backend), std::move(prepared),
            request.call.wantedContext, /*isChat=*/false);
      });
}

} // namespace moert
