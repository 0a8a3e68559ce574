#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/openai/OpenAiWriter.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// A request for a chat completion, with what only its answer needs.
struct ChatRequest {
  ChatCall call;
  bool includesUsage = false;
  bool hasFunctions = false; ///< Result of readOpenAiChat().
};

bool isCustom(const ReplyFacts &facts, const ToolCall &call) {
  const ToolOrigin *origin = facts.origin(call.name);
  return origin && origin->isCustom;
}

Json messageJson(const ReplyFacts &facts, const Choice &choice,
                 bool hasFunctions) {
  Json message = {{"role", "assistant"},
                  {"content", choice.text.empty() && !choice.calls.empty()
                                  ? Json(nullptr)
                                  : Json(choice.text)},
                  {"refusal", nullptr}};
  if (!choice.reasoning.empty())
    message["reasoning_content"] = choice.reasoning;
  if (hasFunctions) {
    if (!choice.calls.empty())
      message["function_call"] = {{"name", choice.calls[0].name},
                                  {"arguments", choice.calls[0].arguments}};
    return message;
  }
  for (const ToolCall &call : choice.calls)
    message["tool_calls"].push_back(
        isCustom(facts, call)
            ? Json{{"id", call.id},
                   {"type", "custom"},
                   {"custom",
                    {{"name", facts.origin(call.name)->name},
                     {"input", customInput(call.arguments)}}}}
            : Json{{"id", call.id},
                   {"type", "function"},
                   {"function",
                    {{"name", call.name}, {"arguments", call.arguments}}}});
  return message;
}

class ChatWriter : public OpenAiWriter {
public:
  ChatWriter(ReplyFacts facts, bool hasLogprobs, bool includesUsage,
             bool hasFunctions)
      : OpenAiWriter(std::move(facts), includesUsage),
        hasLogprobs_(hasLogprobs), hasFunctions_(hasFunctions) {}

  Json whole(std::span<const Choice> choices) override {
    Json json = head("chat.completion");
    for (size_t i = 0; i < choices.size(); ++i)
      json["choices"].push_back(
          {{"index", i},
           {"message", messageJson(facts_, choices[i], hasFunctions_)},
           {"logprobs", logprobs(choices[i].logprobs)},
           {"finish_reason", finish(choices[i])}});
    json["usage"] = usageJson(facts_, choices);
    json["timings"] = timingsJson(choices[0].stats);
    return json;
  }

  std::string begin() override {
    std::string bytes;
    for (int32_t i = 0; i < facts_.choices; ++i)
      bytes +=
          sseEvent(chunk(size_t(i), {{"role", "assistant"}, {"content", ""}}));
    return bytes;
  }

  std::string delta(size_t index, const Choice &choice,
                    const Delta &delta) override {
    switch (delta.kind) {
    case Delta::Kind::Text: {
      Json json = chunk(index, {{"content", delta.text}});
      json["choices"][0]["logprobs"] = logprobs(delta.logprobs);
      return pieceEvent(std::move(json), choice);
    }
    case Delta::Kind::Reasoning:
      return pieceEvent(chunk(index, {{"reasoning_content", delta.text}}),
                        choice);
    case Delta::Kind::Progress: {
      Json json = chunk(index, Json::object());
      json["prompt_progress"] = progressJson(choice, delta.promptDone);
      return sseEvent(json);
    }
    case Delta::Kind::CallBegin: {
      const ToolCall &call = choice.calls[delta.call];
      if (hasFunctions_)
        return functionChunk(index, choice, delta,
                             {{"name", call.name}, {"arguments", ""}});
      if (isCustom(facts_, call))
        return sseEvent(callChunk(
            index,
            {{"index", delta.call},
             {"id", call.id},
             {"type", "custom"},
             {"custom",
              {{"name", facts_.origin(call.name)->name}, {"input", ""}}}}));
      return sseEvent(callChunk(
          index, {{"index", delta.call},
                  {"id", call.id},
                  {"type", "function"},
                  {"function", {{"name", call.name}, {"arguments", ""}}}}));
    }
    case Delta::Kind::CallArguments:
      if (hasFunctions_)
        return functionChunk(index, choice, delta, {{"arguments", delta.text}});
      // An input is a text, which is known when its JSON is complete.
      if (isCustom(facts_, choice.calls[delta.call]))
        break;
      return pieceEvent(
          callChunk(index, {{"index", delta.call},
                            {"function", {{"arguments", delta.text}}}}),
          choice);
    case Delta::Kind::CallEnd:
      if (const ToolCall &call = choice.calls[delta.call];
          isCustom(facts_, call))
        return sseEvent(callChunk(
            index, {{"index", delta.call},
                    {"custom", {{"input", customInput(call.arguments)}}}}));
      break;
    }
    return {};
  }

  std::string choiceEnd(size_t index, const Choice &choice) override {
    Json json = chunk(index, Json::object());
    json["choices"][0]["finish_reason"] = finish(choice);
    json["timings"] = timingsJson(choice.stats);
    return sseEvent(json);
  }

  std::string end(std::span<const Choice> choices) override {
    return streamEnd(head("chat.completion.chunk"), choices);
  }

private:
  Json head(const char *object) const {
    return {{"id", "chatcmpl-" + facts_.id},
            {"object", object},
            {"created", facts_.created},
            {"model", facts_.model},
            {"choices", Json::array()}};
  }

  Json chunk(size_t index, Json delta) const {
    Json json = head("chat.completion.chunk");
    json["choices"].push_back({{"index", index},
                               {"delta", std::move(delta)},
                               {"logprobs", nullptr},
                               {"finish_reason", nullptr}});
    return json;
  }

  Json callChunk(size_t index, Json call) const {
    return chunk(index, {{"tool_calls", Json::array({std::move(call)})}});
  }

  /// The first call of an answer is its function's.
  std::string functionChunk(size_t index, const Choice &choice,
                            const Delta &delta, Json function) const {
    if (delta.call > 0)
      return {};
    return pieceEvent(chunk(index, {{"function_call", std::move(function)}}),
                      choice);
  }

  const char *finish(const Choice &choice) const {
    return hasFunctions_ && choice.finish == Choice::Finish::ToolCalls
               ? "function_call"
               : finishName(choice.finish);
  }

  Json logprobs(std::span<const TokenLogprob> entries) const {
    return hasLogprobs_ ? logprobsJson(*facts_.tokenizer, entries)
                        : Json(nullptr);
  }

  bool hasLogprobs_, hasFunctions_;
};
} // namespace

bool readOpenAiChat(const Field &body, const ApiSettings &settings,
                    ChatCall &call) {
  GenerateCall &generate = call.generate;
  generate.model = body["model"].text().value_or("");
  call.options.noSpecial = settings.noSpecial;
  readOpenAiMessages(body["messages"], call);
  readContinuation(body, call);
  const bool hasFunctions = readOpenAiFunctions(body, call);
  readOpenAiTools(body, call);
  if (hasFunctions)
    call.parallelCalls = false;
  readTemplateVariables(body["chat_template_kwargs"], call);
  readReasoningEffort(body["reasoning_effort"], call);
  readSampling(body, settings, generate);
  generate.reply.stops = readStops(body["stop"]);
  generate.reply.maxTokens = readMostTokens(
      body, {"n_predict", "max_tokens", "max_completion_tokens"});
  generate.reply.ignoreEos = body["ignore_eos"].boolean().value_or(false);
  generate.choices = int32_t(body["n"].integer(1, kMostChoices).value_or(1));
  generate.streams = body["stream"].boolean().value_or(false);
  readLogprobs(body, generate);
  readService(body, generate);
  generate.format = readOpenAiFormat(body);
  body["audio"].refuse("this model writes text alone");
  body["web_search_options"].note("is skipped: this server searches nothing");
  for (const Field &modality : body["modalities"].list(kMostTools))
    (void)modality.word({"text"});
  return hasFunctions;
}

void completeChat(Exchange exchange) {
  auto request = readBody<ChatRequest>(
      exchange, [&](const Field &body, ChatRequest &request) {
        request.hasFunctions =
            readOpenAiChat(body, exchange.settings(), request.call);
        if (Field options = body["stream_options"])
          request.includesUsage =
              options["include_usage"].boolean().value_or(false);
      });
  if (!request)
    return;
  bool hasLogprobs = request->call.generate.topLogprobs >= 0;
  answerChat(std::move(exchange), std::move(request->call),
             [hasLogprobs, includesUsage = request->includesUsage,
              hasFunctions = request->hasFunctions](const ReplyFacts &facts) {
               return std::make_unique<ChatWriter>(facts, hasLogprobs,
                                                   includesUsage, hasFunctions);
             });
}

void countChatTokens(Exchange exchange) {
  auto call =
      readBody<ChatCall>(exchange, [&](const Field &body, ChatCall &call) {
        readOpenAiChat(body, exchange.settings(), call);
      });
  if (call)
    answerTokenCount(std::move(exchange), *std::move(call));
}

} // namespace moert
