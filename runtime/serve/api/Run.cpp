#include "runtime/serve/api/Run.h"

#include "runtime/serve/api/ChoiceStream.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>

namespace moert {

namespace {
/// Choices of a request that are submitted, for each sequence of the model: one
/// that runs, and one that waits for its place.
constexpr size_t kRounds = 2;

class Run : public std::enable_shared_from_this<Run> {
public:
  Run(const Exchange &exchange, std::shared_ptr<HttpAnswer> answer,
      std::shared_ptr<Backend> backend, RunPlan plan,
      std::unique_ptr<ReplyWriter> writer)
      : context_(exchange.context), client_(exchange.request.client),
        group_(exchange.request.group), answer_(std::move(answer)),
        backend_(std::move(backend)), plan_(std::move(plan)),
        writer_(std::move(writer)),
        together_(kRounds * size_t(std::max(1, backend_->facts().sequences))),
        choices_(plan_.choices()) {
    for (Choice &choice : choices_)
      states_.push_back({{backend_->tokenizer(), plan_.toolUse, choice}, {}});
  }

  void start();

private:
  struct State {
    ChoiceStream stream;
    /// Number of the generation, once it is known.
    std::optional<uint64_t> generation;
  };

  void submitMore();
  std::optional<size_t> nextChoice();
  void submit(size_t index);
  void receive(size_t index, GenerationEvent event);
  void takeEvents();
  void take(size_t index, GenerationEvent event);
  void receiveEnd(size_t index, const GenerationEvent &event,
                  std::string &bytes);
  ApiError errorOf(const ChoiceStream &stream) const;
  void begin(std::string &bytes);
  void fail(const ApiError &error, std::string bytes);
  void cancelAll();

  const std::shared_ptr<ApiContext> context_;
  const std::string client_, group_;
  const std::shared_ptr<HttpAnswer> answer_;
  const std::shared_ptr<Backend> backend_;
  const RunPlan plan_;
  const std::unique_ptr<ReplyWriter> writer_;
  const size_t together_; ///< The most choices that run or wait.

  std::mutex eventsMutex_;
  /// Events for the thread that does long work.
  std::deque<std::pair<size_t, GenerationEvent>> events_;

  /// Guards all below. Recursive: an answer may say that its client is gone
  /// while it is written to.
  std::recursive_mutex mutex_;
  std::vector<Choice> choices_;
  std::vector<State> states_;
  size_t next_ = 0, running_ = 0, ended_ = 0; ///< Numbers of choices.
  bool isSubmitting_ = false, hasBegun_ = false;
  /// Whether it was answered, or nobody waits for an answer.
  bool isOver_ = false;
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
  const bool isEnd = event.isEnd;
  if (!isEnd && !writer_->mayWait())
    return take(index, std::move(event));
  // The scheduler's thread waits neither for the disk nor for a long answer.
  {
    std::lock_guard lock(eventsMutex_);
    events_.emplace_back(index, std::move(event));
    if (events_.size() > 1)
      return;
  }
  context_->later(client_, 0,
                  [self = shared_from_this()] { self->takeEvents(); });
}

/// Takes the events that wait, in order.
void Run::takeEvents() {
  std::unique_lock lock(eventsMutex_);
  while (!events_.empty()) {
    auto [index, event] = std::move(events_.front());
    lock.unlock();
    take(index, std::move(event));
    lock.lock();
    // The one at the front is the sign that somebody takes them.
    events_.pop_front();
  }
}

void Run::take(size_t index, GenerationEvent event) {
  std::unique_lock lock(mutex_);
  ChoiceStream &stream = states_[index].stream;
  if (event.isEnd)
    --running_;
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
  else if (event.isEnd)
    submitMore();
}

/// Returns the reason for the client why the choice failed.
ApiError Run::errorOf(const ChoiceStream &stream) const {
  Status status = stream.failure();
  if (status.code() == StatusCode::Cancelled)
    status = Status(StatusCode::Cancelled,
                    status.message() + ": the server is stopping");
  ApiError error = moert::errorOf(status, backend_->retryAfterSeconds());
  // For example, a reply could not be held to its grammar: another try would
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
    choice.stop = plan_.requests[index / size_t(plan_.choicesPerPrompt)]
                      .reply.stops[size_t(event.reply.stop)];
  const std::string &user =
      plan_.requests[index / size_t(plan_.choicesPerPrompt)].client;
  context_->usage.add(client_.empty() ? user : client_, backend_->facts().id,
                      choice.stats);
  if (plan_.streams) {
    begin(bytes);
    bytes += writer_->choiceEnd(index, choice);
  }
  if (++ended_ < choices_.size())
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
  submitMore();
}

void Run::submitMore() {
  {
    std::lock_guard lock(mutex_);
    // A backend that answers at once calls this from the loop below.
    if (isSubmitting_)
      return;
    isSubmitting_ = true;
  }
  while (std::optional<size_t> next = nextChoice())
    submit(*next);
}

/// The choice to submit now, or none: then submitMore() has ended.
std::optional<size_t> Run::nextChoice() {
  std::lock_guard lock(mutex_);
  if (!isOver_ && running_ < together_ && next_ < choices_.size()) {
    ++running_;
    return next_++;
  }
  isSubmitting_ = false;
  return std::nullopt;
}

void Run::submit(size_t index) {
  const auto ofPrompt = size_t(plan_.choicesPerPrompt);
  // The stops stay here: the last event says which of them ended the text.
  GenerationRequest request = plan_.requests[index / ofPrompt];
  request.sampling.seed += index % ofPrompt;
  request.group = group_;
  if (request.client.empty())
    request.client = client_;
  request.isFurtherChoice = index > 0;
  StatusOr<uint64_t> generation =
      backend_->submit(std::move(request), [self = shared_from_this(),
                                            index](GenerationEvent event) {
        self->receive(index, std::move(event));
      });
  bool isOver = false;
  {
    std::lock_guard lock(mutex_);
    std::string bytes;
    if (!generation) {
      fail(moert::errorOf(generation.status(), backend_->retryAfterSeconds()),
           {});
      if (hasBegun_)
        answer_->end();
    } else {
      states_[index].generation = *generation;
      if (plan_.streams && !isOver_)
        begin(bytes);
    }
    if (!bytes.empty())
      answer_->write(std::move(bytes));
    isOver = isOver_;
  }
  if (isOver)
    cancelAll();
}
} // namespace

void startRun(const Exchange &exchange, std::shared_ptr<Backend> backend,
              RunPlan plan, std::unique_ptr<ReplyWriter> writer,
              std::shared_ptr<HttpAnswer> answer) {
  std::make_shared<Run>(exchange, answer ? std::move(answer) : exchange.answer,
                        std::move(backend), std::move(plan), std::move(writer))
      ->start();
}

} // namespace moert
