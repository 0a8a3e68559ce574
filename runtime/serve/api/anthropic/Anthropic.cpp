#include "runtime/serve/api/anthropic/Anthropic.h"

#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/openai/OpenAi.h"

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
const char *stopReason(const Choice &choice) {
  switch (choice.finish) {
  case Choice::Finish::Length:
    return "max_tokens";
  case Choice::Finish::ToolCalls:
    return "tool_use";
  case Choice::Finish::Stop:
    break;
  }
  return choice.stop.empty() ? "end_turn" : "stop_sequence";
}

class MessageWriter : public ReplyWriter {
public:
  explicit MessageWriter(ReplyFacts facts) : facts_(std::move(facts)) {}

  ErrorStyle errorStyle() const override { return ErrorStyle::Anthropic; }
  std::string ping() const override {
    return sseEvent({{"type", "ping"}}, "ping");
  }

  Json whole(std::span<const Choice> choices) override {
    const Choice &choice = choices[0];
    Json content = Json::array();
    if (!choice.reasoning.empty())
      content.push_back({{"type", "thinking"},
                         {"thinking", choice.reasoning},
                         {"signature", ""}});
    if (!choice.text.empty())
      content.push_back({{"type", "text"}, {"text", choice.text}});
    // A call that was cut off has no input yet.
    for (const ToolCall &call : choice.calls)
      if (auto input = argumentsObject(call.arguments))
        content.push_back({{"type", "tool_use"},
                           {"id", call.id},
                           {"name", call.name},
                           {"input", *std::move(input)}});
    Json json = head();
    json["content"] = std::move(content);
    json["stop_reason"] = stopReason(choice);
    json["stop_sequence"] = stopSequence(choice);
    json["usage"] = usage(choice.stats);
    return json;
  }

  std::string begin() override {
    Json message = head();
    message["usage"] = usage({.promptTokens = facts_.promptTokens});
    return event({{"type", "message_start"}, {"message", std::move(message)}}) +
           ping();
  }

  std::string delta(size_t, const Choice &choice, const Delta &delta) override {
    // Bytes first: the order of calls within an expression is not given.
    std::string bytes;
    switch (delta.kind) {
    case Delta::Kind::Text:
      bytes = enter("text", {{"type", "text"}, {"text", ""}});
      return bytes + blockDelta({{"type", "text_delta"}, {"text", delta.text}});
    case Delta::Kind::Reasoning:
      bytes =
          enter("thinking",
                {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      return bytes +
             blockDelta({{"type", "thinking_delta"}, {"thinking", delta.text}});
    case Delta::Kind::CallBegin: {
      const ToolCall &call = choice.calls[delta.call];
      return enter("tool_use", {{"type", "tool_use"},
                                {"id", call.id},
                                {"name", call.name},
                                {"input", Json::object()}});
    }
    case Delta::Kind::CallArguments:
      return blockDelta(
          {{"type", "input_json_delta"}, {"partial_json", delta.text}});
    case Delta::Kind::CallEnd:
      return leave();
    case Delta::Kind::Progress:
      break;
    }
    return bytes;
  }

  std::string end(std::span<const Choice> choices) override {
    const Choice &choice = choices[0];
    return leave() +
           event({{"type", "message_delta"},
                  {"delta",
                   {{"stop_reason", stopReason(choice)},
                    {"stop_sequence", stopSequence(choice)}}},
                  {"usage", usage(choice.stats)}}) +
           event({{"type", "message_stop"}});
  }

  std::string error(const ApiError &error) override {
    return event(errorJson(ErrorStyle::Anthropic, error));
  }

private:
  Json head() const {
    return {{"id", "msg_" + facts_.id}, {"type", "message"},
            {"role", "assistant"},      {"model", facts_.model},
            {"content", Json::array()}, {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  static Json usage(const GenerationStats &stats) {
    return {{"input_tokens", stats.promptTokens - stats.cachedTokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", stats.cachedTokens},
            {"output_tokens", stats.generatedTokens}};
  }

  static Json stopSequence(const Choice &choice) {
    return choice.stop.empty() ? Json(nullptr) : Json(choice.stop);
  }

  static std::string event(const Json &json) {
    return sseEvent(json, json["type"].get_ref<const std::string &>());
  }

  /// Begins a block, unless one of this kind is open.
  std::string enter(std::string_view kind, Json block) {
    if (open_ == kind)
      return {};
    std::string bytes = leave();
    open_ = kind;
    return bytes + event({{"type", "content_block_start"},
                          {"index", index_},
                          {"content_block", std::move(block)}});
  }

  std::string leave() {
    if (open_.empty())
      return {};
    open_ = {};
    return event({{"type", "content_block_stop"}, {"index", index_++}});
  }

  std::string blockDelta(Json delta) const {
    return event({{"type", "content_block_delta"},
                  {"index", index_},
                  {"delta", std::move(delta)}});
  }

  ReplyFacts facts_;
  std::string_view open_; ///< Kind of the block that is open, or "".
  int index_ = 0;
};
} // namespace

void createMessage(Exchange exchange) {
  auto call =
      readBody<ChatCall>(exchange, [&](const Field &body, ChatCall &call) {
        readAnthropic(body, exchange.settings(), /*needsLimit=*/true, call);
      });
  if (call)
    answerChat(std::move(exchange), *std::move(call),
               [](const ReplyFacts &facts) {
                 return std::make_unique<MessageWriter>(facts);
               });
}

void countMessageTokens(Exchange exchange) {
  auto call =
      readBody<ChatCall>(exchange, [&](const Field &body, ChatCall &call) {
        readAnthropic(body, exchange.settings(), /*needsLimit=*/false, call);
      });
  if (call)
    answerPrompt(std::move(exchange), *std::move(call),
                 [](const ChatPrompt &prompt) -> Json {
                   return {{"input_tokens", prompt.tokens.size()}};
                 });
}

} // namespace moert
