#include "runtime/serve/api/Run.h"

#include "runtime/chat/ToolCalls.h"

#include <algorithm>
#include <mutex>
#include <optional>

namespace moert {

namespace {
class Run : public std::enable_shared_from_this<Run> {
public:
  Run(std::shared_ptr<Backend> backend, std::shared_ptr<HttpAnswer> answer,
      RunPlan plan, std::unique_ptr<ReplyWriter> writer)
      : backend_(std::move(backend)), answer_(std::move(answer)),
        plan_(std::move(plan)), writer_(std::move(writer)),
        choices_(plan_.requests.size()), states_(plan_.requests.size()) {
    for (size_t i = 0; i < states_.size() && plan_.toolFormat; ++i)
      states_[i].parser.emplace(*plan_.toolFormat, plan_.tools);
  }

  void start();

private:
  struct State {
    std::optional<ToolCallParser> parser;
    std::vector<TokenLogprob> logprobs; ///< Of text that is held back.
    bool followsReasoning = false;      ///< What comes next.
    std::optional<uint64_t> generation; ///< Its name, once it is known.
    bool hasEnded = false;
  };

  void receive(size_t index, GenerationEvent event);
  void receiveEnd(size_t index, GenerationEvent &event, std::string &bytes);
  void add(size_t index, Delta delta, std::string &bytes);
  void addText(size_t index, std::string_view text, std::string &bytes);
  void addToolEvents(size_t index, std::vector<ToolEvent> events,
                     std::string &bytes);
  void dropMarks(std::vector<TokenLogprob> &logprobs, size_t textBytes) const;
  void begin(std::string &bytes);
  void fail(const ApiError &error, std::string bytes);
  void cancelAll();

  std::shared_ptr<Backend> backend_;
  std::shared_ptr<HttpAnswer> answer_;
  RunPlan plan_;
  std::unique_ptr<ReplyWriter> writer_;

  /// Guards all below. Recursive: an answer may say that its client is gone
  /// while it is written to.
  std::recursive_mutex mutex_;
  std::vector<Choice> choices_;
  std::vector<State> states_;
  std::optional<ApiError> malformed_; ///< A call that was written wrongly.
  bool hasBegun_ = false;
  bool isOver_ = false; ///< Answered, or nobody waits for an answer.
};

void Run::begin(std::string &bytes) {
  if (hasBegun_)
    return;
  hasBegun_ = true;
  answer_->begin(200, writer_->contentType(), {{"Cache-Control", "no-cache"}},
                 writer_->ping());
  bytes += writer_->begin();
}

void Run::add(size_t index, Delta delta, std::string &bytes) {
  if (!plan_.streams)
    return;
  begin(bytes);
  bytes += writer_->delta(index, choices_[index], delta);
}

void Run::addText(size_t index, std::string_view text, std::string &bytes) {
  if (text.empty())
    return;
  State &state = states_[index];
  std::vector<TokenLogprob> logprobs = std::exchange(state.logprobs, {});
  if (std::exchange(state.followsReasoning, false))
    dropMarks(logprobs, text.size());
  choices_[index].text += text;
  choices_[index].logprobs.insert(choices_[index].logprobs.end(),
                                  logprobs.begin(), logprobs.end());
  add(index,
      {.kind = Delta::Kind::Text,
       .text = std::string(text),
       .logprobs = std::move(logprobs)},
      bytes);
}

/// Of the tokens before the end of a text of so many bytes, those that are none
/// of it: the marks between reasoning and answer.
void Run::dropMarks(std::vector<TokenLogprob> &logprobs,
                    size_t textBytes) const {
  size_t kept = logprobs.size(), bytes = 0;
  while (kept > 0 && bytes < textBytes)
    bytes += backend_->tokenizer().tokenBytes(logprobs[--kept].token).size();
  logprobs.erase(logprobs.begin(), logprobs.begin() + ptrdiff_t(kept));
}

void Run::addToolEvents(size_t index, std::vector<ToolEvent> events,
                        std::string &bytes) {
  std::vector<ToolCall> &calls = choices_[index].calls;
  for (ToolEvent &event : events) {
    if (event.kind != ToolEvent::Kind::Text)
      states_[index].logprobs.clear();
    switch (event.kind) {
    case ToolEvent::Kind::Text:
      addText(index, event.text, bytes);
      break;
    case ToolEvent::Kind::Begin:
      calls.push_back(
          {event.id.empty() ? plan_.newCallId() : event.id, event.text, ""});
      add(index, {.kind = Delta::Kind::CallBegin, .call = calls.size() - 1},
          bytes);
      break;
    case ToolEvent::Kind::Arguments:
      calls.back().arguments += event.text;
      add(index,
          {.kind = Delta::Kind::CallArguments,
           .text = std::move(event.text),
           .call = calls.size() - 1},
          bytes);
      break;
    case ToolEvent::Kind::End:
      add(index, {.kind = Delta::Kind::CallEnd, .call = calls.size() - 1},
          bytes);
      break;
    case ToolEvent::Kind::Error:
      malformed_ = ApiError{.status = 422,
                            .message = std::move(event.text),
                            .code = "malformed_tool_call"};
      break;
    }
  }
}

void Run::receive(size_t index, GenerationEvent event) {
  std::unique_lock lock(mutex_);
  State &state = states_[index];
  if (isOver_ || state.hasEnded)
    return;
  std::string bytes;
  bool hasText = false, hasReasoning = false;
  state.logprobs.insert(state.logprobs.end(), event.logprobs.begin(),
                        event.logprobs.end());
  for (ReplyEvent &piece : event.events) {
    if (piece.kind == ReplyEvent::Kind::Text) {
      hasText = true;
      if (state.parser)
        addToolEvents(index, state.parser->push(piece.text), bytes);
      else
        addText(index, piece.text, bytes);
    } else if (piece.kind == ReplyEvent::Kind::Reasoning) {
      hasReasoning = state.followsReasoning = true;
      choices_[index].reasoning += piece.text;
      add(index,
          {.kind = Delta::Kind::Reasoning, .text = std::move(piece.text)},
          bytes);
    }
  }
  // Probabilities are those of the answer alone.
  if (hasReasoning && !hasText)
    state.logprobs.clear();
  if (event.isEnd)
    receiveEnd(index, event, bytes);
  if (malformed_ && !isOver_)
    fail(*malformed_, std::move(bytes));
  else if (!bytes.empty())
    answer_->write(std::move(bytes));
  bool isOver = isOver_;
  if (isOver && hasBegun_)
    answer_->end();
  lock.unlock();
  if (isOver)
    cancelAll();
}

void Run::receiveEnd(size_t index, GenerationEvent &event, std::string &bytes) {
  State &state = states_[index];
  Choice &choice = choices_[index];
  state.hasEnded = true;
  choice.reason = event.reply.reason.value_or(StopReason::Cancelled);
  if (!event.status || choice.reason == StopReason::Cancelled) {
    Status status = event.status;
    if (status)
      status = Status(StatusCode::Cancelled,
                      "the generation was cancelled: the server is stopping");
    ApiError error = errorOf(status, backend_->retryAfterSeconds());
    // Such as a reply that could not be held to its grammar: another try would
    // end in the same way.
    if (status.code() == StatusCode::DoesNotFit ||
        status.code() == StatusCode::Unsupported) {
      error.status = 422;
      error.retryAfter = 0;
    }
    fail(error, std::exchange(bytes, {}));
    return;
  }
  bool isCut = choice.reason == StopReason::Length ||
               choice.reason == StopReason::ContextFull;
  if (state.parser)
    addToolEvents(index, state.parser->finish(), bytes);
  if (malformed_) {
    if (isCut)
      malformed_->message += "; its length was limited: ask for more tokens";
    return;
  }
  choice.finish = isCut                  ? Choice::Finish::Length
                  : choice.calls.empty() ? Choice::Finish::Stop
                                         : Choice::Finish::ToolCalls;
  if (event.reply.stop >= 0)
    choice.stop = plan_.requests[index].reply.stops[size_t(event.reply.stop)];
  choice.tokens = std::move(event.reply.tokens);
  choice.stats = event.stats;
  if (!choice.reasoning.empty()) {
    auto tokens = backend_->tokenizer().encode(
        choice.reasoning, {.addBos = false, .addEos = false});
    choice.reasoningTokens =
        tokens ? std::min(int32_t(tokens->size()), choice.stats.generatedTokens)
               : 0;
  }
  if (plan_.streams) {
    begin(bytes);
    bytes += writer_->choiceEnd(index, choice);
  }
  for (const State &other : states_)
    if (!other.hasEnded)
      return;
  isOver_ = true;
  if (plan_.streams)
    bytes += writer_->end(choices_);
  else
    sendJson(*answer_, writer_->whole(choices_));
}

/// Sends `bytes`, the error, and the end.
void Run::fail(const ApiError &error, std::string bytes) {
  if (isOver_)
    return;
  isOver_ = true;
  if (hasBegun_)
    answer_->write(bytes + writer_->error(error));
  else
    sendError(*answer_, writer_->errorStyle(), error);
}

void Run::cancelAll() {
  std::vector<uint64_t> running;
  {
    std::lock_guard lock(mutex_);
    isOver_ = true;
    for (State &state : states_)
      if (state.generation && !state.hasEnded)
        running.push_back(*std::exchange(state.generation, {}));
  }
  for (uint64_t generation : running)
    backend_->cancel(generation);
}

void Run::start() {
  if (!plan_.echoes.empty()) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < choices_.size(); ++i)
      choices_[i].text = plan_.echoes[i];
  }
  std::weak_ptr<Run> weak = weak_from_this();
  answer_->onGone([weak] {
    if (std::shared_ptr<Run> run = weak.lock())
      run->cancelAll();
  });
  for (size_t i = 0; i < plan_.requests.size(); ++i) {
    // The stops stay here: the last event says which of them ended the text.
    StatusOr<uint64_t> generation =
        backend_->submit(plan_.requests[i],
                         [self = shared_from_this(), i](GenerationEvent event) {
                           self->receive(i, std::move(event));
                         });
    bool isOver = false;
    {
      std::lock_guard lock(mutex_);
      if (generation)
        states_[i].generation = *generation;
      else
        fail(errorOf(generation.status(), backend_->retryAfterSeconds()), {});
      isOver = isOver_;
      if (!generation && hasBegun_)
        answer_->end();
    }
    if (isOver) {
      cancelAll();
      return;
    }
  }
}
} // namespace

void startRun(std::shared_ptr<Backend> backend,
              std::shared_ptr<HttpAnswer> answer, RunPlan plan,
              std::unique_ptr<ReplyWriter> writer) {
  std::make_shared<Run>(std::move(backend), std::move(answer), std::move(plan),
                        std::move(writer))
      ->start();
}

} // namespace moert
