#include "runtime/serve/api/VectorJob.h"

#include <map>
#include <mutex>

namespace moert {

namespace {
/// The prompts of one request. As many are evaluated together as the model has
/// sequences, so that a long list does not fill the queue.
class VectorJob : public std::enable_shared_from_this<VectorJob> {
public:
  VectorJob(Exchange exchange, std::shared_ptr<Backend> backend,
            std::vector<ChatPrompt> prompts, AskVector ask, WriteVectors write)
      : exchange_(std::move(exchange)), backend_(std::move(backend)),
        prompts_(std::move(prompts)), ask_(ask), write_(std::move(write)),
        together_(size_t(std::max(1, backend_->facts().sequences))),
        vectors_(prompts_.size()) {}

  void start() {
    std::weak_ptr<VectorJob> weak = weak_from_this();
    exchange_.answer->onGone([weak] {
      if (std::shared_ptr<VectorJob> job = weak.lock())
        job->cancel();
    });
    advance();
  }

private:
  /// Submits what may run now, and answers after the last one.
  void advance() {
    std::unique_lock lock(mutex_);
    // A backend that answers at once calls this from the loop below.
    if (isSubmitting_)
      return;
    isSubmitting_ = true;
    while (status_.isOk() && running_ < together_ && next_ < prompts_.size()) {
      const size_t index = next_++;
      ++running_;
      tokens_ += prompts_[index].tokens.size();
      lock.unlock();
      const uint64_t name =
          ((*backend_).*ask_)(prompts_[index].tokens, exchange_.request.client,
                              [job = shared_from_this(),
                               index](StatusOr<std::vector<float>> vector) {
                                job->take(index, std::move(vector));
                              });
      lock.lock();
      names_[index] = name;
      if (isGone_)
        backend_->cancel(name);
    }
    isSubmitting_ = false;
    if (running_ > 0 || isAnswered_)
      return;
    isAnswered_ = true;
    lock.unlock();
    // Many vectors take long to write.
    const uint64_t bytes =
        vectors_.empty()
            ? 0
            : vectors_.size() * vectors_.front().size() * sizeof(float);
    exchange_.context->later(exchange_.request.client, bytes,
                             [job = shared_from_this()] { job->answer(); });
  }

  void answer() {
    exchange_.context->usage.add(exchange_.request.client, backend_->facts().id,
                                 {.promptTokens = int32_t(tokens_)});
    if (status_.isOk())
      sendJson(*exchange_.answer,
               write_(backend_->facts(), std::move(vectors_), tokens_));
    else
      exchange_.fail(errorOf(status_, backend_->retryAfterSeconds()));
  }

  /// Nobody waits for the answer any more.
  void cancel() {
    std::lock_guard lock(mutex_);
    isGone_ = true;
    next_ = prompts_.size();
    for (auto [index, name] : names_)
      backend_->cancel(name);
  }

  void take(size_t index, StatusOr<std::vector<float>> vector) {
    {
      std::lock_guard lock(mutex_);
      if (vector)
        vectors_[index] = *std::move(vector);
      else if (status_.isOk())
        status_ = vector.status();
      --running_;
      names_.erase(index);
    }
    advance();
  }

  Exchange exchange_;
  const std::shared_ptr<Backend> backend_;
  const std::vector<ChatPrompt> prompts_;
  const AskVector ask_;
  const WriteVectors write_;
  /// The most prompts that are evaluated at the same time.
  const size_t together_;
  std::mutex mutex_;
  // Guarded by the lock, and unchanged once `isAnswered_`.
  std::vector<std::vector<float>> vectors_;
  size_t next_ = 0, running_ = 0, tokens_ = 0;
  bool isSubmitting_ = false, isAnswered_ = false, isGone_ = false;
  /// Numbers of the running generations, for cancel().
  std::map<size_t, uint64_t> names_;
  Status status_; ///< Error of the first one that failed.
};

} // namespace

void answerWithVectors(Exchange exchange, std::shared_ptr<Backend> backend,
                       std::vector<ChatPrompt> prompts, AskVector ask,
                       WriteVectors write) {
  std::make_shared<VectorJob>(std::move(exchange), std::move(backend),
                              std::move(prompts), ask, std::move(write))
      ->start();
}

} // namespace moert
