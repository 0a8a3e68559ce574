#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/serve/api/openai/Responses.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
class ResponseWriter : public ReplyWriter {
public:
  ResponseWriter(ReplyFacts facts, Json echoed, bool hasLogprobs,
                 ResponseFinished finished)
      : facts_(std::move(facts)), echoed_(std::move(echoed)),
        hasLogprobs_(hasLogprobs), finished_(std::move(finished)) {}

  ErrorStyle errorStyle() const override { return ErrorStyle::OpenAi; }

  Json whole(std::span<const Choice> choices) override {
    const Choice &choice = choices[0];
    if (!choice.reasoning.empty())
      output_.push_back(reasoningItem(choice.reasoning, output_.size()));
    // The item that was open when the answer was cut is the last one.
    const char *last = endOf(choice);
    if (!choice.text.empty() || choice.calls.empty())
      output_.push_back(messageItem(choice.text, choice.logprobs,
                                    output_.size(),
                                    choice.calls.empty() ? last : kComplete));
    for (const ToolCall &call : choice.calls)
      output_.push_back(
          callItem(call, call.arguments, output_.size(),
                   &call == &choice.calls.back() ? last : kComplete));
    Json json = response(choices);
    finished_(choice, json);
    return json;
  }

  // Events are numbered in the order in which they are made, and the order of
  // calls within an expression is not given: each is made in its own statement.

  std::string begin() override {
    std::string bytes = event("response.created", {{"response", inProgress()}});
    bytes += event("response.in_progress", {{"response", inProgress()}});
    return bytes;
  }

  std::string delta(size_t, const Choice &choice, const Delta &delta) override {
    std::string bytes;
    switch (delta.kind) {
    case Delta::Kind::Text:
      bytes = enter(Open::Message);
      bytes += grow("response.output_text.delta", delta);
      break;
    case Delta::Kind::Reasoning:
      bytes = enter(Open::Reasoning);
      bytes += grow("response.reasoning_text.delta", delta);
      break;
    case Delta::Kind::CallBegin:
      bytes = leave();
      call_ = choice.calls[delta.call];
      bytes += enter(Open::Call);
      break;
    case Delta::Kind::CallArguments:
      // The text of a custom tool is known when its JSON is complete.
      if (!isCustom(call_))
        return grow("response.function_call_arguments.delta", delta);
      text_ += delta.text;
      break;
    case Delta::Kind::CallEnd:
      return leave();
    case Delta::Kind::Progress:
      break;
    }
    return bytes;
  }

  std::string end(std::span<const Choice> choices) override {
    std::string bytes = leave(endOf(choices[0]));
    Json json = response(choices);
    finished_(choices[0], json);
    bool isCut = choices[0].finish == Choice::Finish::Length;
    bytes += event(isCut ? "response.incomplete" : "response.completed",
                   {{"response", std::move(json)}});
    return bytes;
  }

  std::string error(const ApiError &error) override {
    Json inner = errorJson(ErrorStyle::OpenAi, error)["error"];
    Json failed = inProgress();
    failed["status"] = "failed";
    failed["error"] = {{"code", "server_error"}, {"message", error.message}};
    failed["output"] = output_;
    std::string bytes = event("error", {{"code", inner["code"]},
                                        {"message", error.message},
                                        {"param", inner["param"]}});
    bytes += event("response.failed", {{"response", std::move(failed)}});
    return bytes;
  }

private:
  enum class Open { Nothing, Message, Reasoning, Call };
  static constexpr const char *kComplete = "completed";

  static const char *endOf(const Choice &choice) {
    return choice.finish == Choice::Finish::Length ? "incomplete" : kComplete;
  }

  bool isCustom(const ToolCall &call) const {
    const ToolOrigin *origin = facts_.origin(call.name);
    return origin && origin->isCustom;
  }

  Json inProgress() const {
    Json json = {{"id", "resp_" + facts_.id},     {"object", "response"},
                 {"created_at", facts_.created},  {"status", "in_progress"},
                 {"incomplete_details", nullptr}, {"model", facts_.model},
                 {"output", Json::array()}};
    json.update(echoed_);
    json["usage"] = nullptr;
    return json;
  }

  Json response(std::span<const Choice> choices) const {
    Json json = inProgress();
    bool isCut = choices[0].finish == Choice::Finish::Length;
    json["status"] = isCut ? "incomplete" : "completed";
    if (isCut)
      json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["output"] = output_;
    int32_t generated = generatedTokens(choices);
    json["usage"] = {{"input_tokens", facts_.promptTokens},
                     {"input_tokens_details",
                      {{"cached_tokens", cachedTokens(facts_, choices)},
                       {"cache_write_tokens", 0}}},
                     {"output_tokens", generated},
                     {"output_tokens_details",
                      {{"reasoning_tokens", choices[0].reasoningTokens}}},
                     {"total_tokens", facts_.promptTokens + generated}};
    return json;
  }

  std::string itemId(const char *prefix, size_t index) const {
    return fmt::format("{}_{}_{}", prefix, facts_.id, index);
  }

  Json logprobs(std::span<const TokenLogprob> entries) const {
    return hasLogprobs_ ? logprobsJson(*facts_.tokenizer, entries)["content"]
                        : Json::array();
  }

  Json textPart(const std::string &text,
                std::span<const TokenLogprob> entries) const {
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", Json::array()},
            {"logprobs", logprobs(entries)}};
  }

  static Json reasoningPart(const std::string &text) {
    return {{"type", "reasoning_text"}, {"text", text}};
  }

  Json messageItem(const std::string &text,
                   std::span<const TokenLogprob> entries, size_t index,
                   const char *status) const {
    Json content = Json::array();
    if (std::string_view(status) != "in_progress")
      content.push_back(textPart(text, entries));
    return {{"type", "message"},
            {"id", itemId("msg", index)},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }

  Json reasoningItem(const std::string &text, size_t index) const {
    Json content = Json::array();
    if (!text.empty())
      content.push_back(reasoningPart(text));
    return {{"type", "reasoning"},
            {"id", itemId("rs", index)},
            {"summary", Json::array()},
            {"content", std::move(content)}};
  }

  Json callItem(const ToolCall &call, const std::string &arguments,
                size_t index, const char *status) const {
    const ToolOrigin *origin = facts_.origin(call.name);
    Json json = {{"type", "function_call"},
                 {"id", itemId(isCustom(call) ? "ctc" : "fc", index)},
                 {"call_id", call.id},
                 {"name", origin ? origin->name : call.name}};
    if (origin && !origin->space.empty())
      json["namespace"] = origin->space;
    if (isCustom(call)) {
      json["type"] = "custom_tool_call";
      json["input"] = arguments.empty() ? "" : customInput(arguments);
    } else {
      json["arguments"] = arguments;
    }
    json["status"] = status;
    return json;
  }

  /// The open item, with its text if it is complete.
  Json item(const char *status) const {
    switch (open_) {
    case Open::Message:
      return messageItem(text_, logprobs_, output_.size(), status);
    case Open::Reasoning:
      return reasoningItem(text_, output_.size());
    default:
      return callItem(call_, text_, output_.size(), status);
    }
  }

  std::string openId() const { return item("in_progress")["id"]; }

  /// Events have the item and, except of calls, the part that they are about.
  Json place(bool hasPart) const {
    Json json = {{"item_id", openId()}, {"output_index", output_.size()}};
    if (hasPart && open_ != Open::Call)
      json["content_index"] = 0;
    return json;
  }

  std::string event(const char *type, Json fields) {
    Json json = {{"type", type}, {"sequence_number", sequence_++}};
    json.update(fields);
    return sseEvent(json, type);
  }

  std::string enter(Open kind) {
    if (open_ == kind)
      return {};
    std::string bytes = leave();
    open_ = kind;
    bytes +=
        event("response.output_item.added", {{"output_index", output_.size()},
                                             {"item", item("in_progress")}});
    if (kind == Open::Call)
      return bytes;
    Json fields = place(true);
    fields["part"] = part();
    bytes += event("response.content_part.added", std::move(fields));
    return bytes;
  }

  /// The part of the open item, as far as it is known.
  Json part() const {
    return open_ == Open::Message ? textPart(text_, logprobs_)
                                  : reasoningPart(text_);
  }

  std::string grow(const char *type, const Delta &delta) {
    text_ += delta.text;
    Json fields = place(true);
    fields["delta"] = delta.text;
    if (open_ == Open::Message) {
      fields["logprobs"] = logprobs(delta.logprobs);
      logprobs_.insert(logprobs_.end(), delta.logprobs.begin(),
                       delta.logprobs.end());
    }
    return event(type, std::move(fields));
  }

  /// The last events of the open item.
  std::string leave(const char *status = kComplete) {
    if (open_ == Open::Nothing)
      return {};
    std::string bytes;
    if (open_ == Open::Call)
      bytes = leaveCall();
    else
      bytes = leaveText();
    Json complete = item(status);
    bytes += event("response.output_item.done",
                   {{"output_index", output_.size()}, {"item", complete}});
    output_.push_back(std::move(complete));
    open_ = Open::Nothing;
    text_.clear();
    logprobs_.clear();
    return bytes;
  }

  std::string leaveCall() {
    Json fields = place(true);
    if (!isCustom(call_)) {
      fields["name"] = item("in_progress")["name"];
      fields["arguments"] = text_;
      return event("response.function_call_arguments.done", std::move(fields));
    }
    const std::string input = customInput(text_);
    Json delta = fields;
    delta["delta"] = input;
    std::string bytes =
        event("response.custom_tool_call_input.delta", std::move(delta));
    fields["input"] = input;
    return bytes +
           event("response.custom_tool_call_input.done", std::move(fields));
  }

  std::string leaveText() {
    Json fields = place(true), done = fields;
    done["text"] = text_;
    if (open_ == Open::Message)
      done["logprobs"] = logprobs(logprobs_);
    std::string bytes =
        event(open_ == Open::Message ? "response.output_text.done"
                                     : "response.reasoning_text.done",
              std::move(done));
    fields["part"] = part();
    return bytes + event("response.content_part.done", std::move(fields));
  }

  ReplyFacts facts_;
  Json echoed_;
  bool hasLogprobs_;
  ResponseFinished finished_;
  Json output_ = Json::array(); ///< Items that are complete.
  Open open_ = Open::Nothing;
  std::string text_;                   ///< Text of the open item.
  std::vector<TokenLogprob> logprobs_; ///< Probabilities of the open item.
  ToolCall call_; ///< The open call, whose arguments are in text_.
  int sequence_ = 0;
};
} // namespace

std::unique_ptr<ReplyWriter> makeResponseWriter(const ReplyFacts &facts,
                                                Json echoed, bool hasLogprobs,
                                                ResponseFinished finished) {
  return std::make_unique<ResponseWriter>(facts, std::move(echoed), hasLogprobs,
                                          std::move(finished));
}

} // namespace moert
