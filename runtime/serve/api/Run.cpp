#include "runtime/serve/api/Run.h"

#include "runtime/serve/api/ChoiceStream.h"

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
        choices_(plan_.requests.size()) {
    for (Choice &choice : choices_)
      states_.push_back({{backend_->tokenizer(), plan_.toolUse, choice}, {}});
  }

  void start();

private:
  struct State {
    ChoiceStream stream;
    std::optional<uint64_t> generation; ///< Its name, once it is known.
  };

  void receive(size_t index, GenerationEvent event);
  void receiveEnd(size_t index, const GenerationEvent &event,
                  std::string &bytes);
  ApiError errorOf(const ChoiceStream &stream) const;
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

void Run::receive(size_t index, GenerationEvent event) {
  std::unique_lock lock(mutex_);
  ChoiceStream &stream = states_[index].stream;
  if (isOver_ || stream.hasEnded())
    return;
  std::string bytes;
  stream.receive(event, [&](const Delta &delta) {
    if (!plan_.streams)
      return;
    begin(bytes);
    bytes += writer_->delta(index, choices_[index], delta);
  });
  if (!stream.failure())
    fail(errorOf(stream), std::exchange(bytes, {}));
  else if (event.isEnd)
    receiveEnd(index, event, bytes);
  if (!bytes.empty())
    answer_->write(std::move(bytes));
  bool isOver = isOver_;
  if (isOver && hasBegun_)
    answer_->end();
  lock.unlock();
  if (isOver)
    cancelAll();
}

/// Why the choice failed, for the client.
ApiError Run::errorOf(const ChoiceStream &stream) const {
  Status status = stream.failure();
  if (status.code() == StatusCode::Cancelled)
    status = Status(StatusCode::Cancelled,
                    status.message() + ": the server is stopping");
  ApiError error = moert::errorOf(status, backend_->retryAfterSeconds());
  // Such as a reply that could not be held to its grammar: another try would
  // end in the same way.
  if (status.code() == StatusCode::DoesNotFit ||
      status.code() == StatusCode::Unsupported) {
    error.status = 422;
    error.retryAfter = 0;
  }
  if (stream.isMalformed())
    error.code = "malformed_tool_call";
  return error;
}

void Run::receiveEnd(size_t index, const GenerationEvent &event,
                     std::string &bytes) {
  Choice &choice = choices_[index];
  if (event.reply.stop >= 0)
    choice.stop = plan_.requests[index].reply.stops[size_t(event.reply.stop)];
  if (plan_.streams) {
    begin(bytes);
    bytes += writer_->choiceEnd(index, choice);
  }
  for (const State &other : states_)
    if (!other.stream.hasEnded())
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
      if (state.generation)
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
        fail(moert::errorOf(generation.status(), backend_->retryAfterSeconds()),
             {});
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
