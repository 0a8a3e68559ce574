#include "runtime/serve/http/AnswerQueue.h"

#include "runtime/serve/http/Refusal.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

namespace {
constexpr std::string_view kLastChunk = "0\r\n\r\n";

class QueuedAnswer final : public HttpAnswer {
public:
  explicit QueuedAnswer(std::shared_ptr<AnswerQueue> queue)
      : queue_(std::move(queue)) {}
  ~QueuedAnswer() override { queue_->abandon(); }
  void send(int status, std::string_view contentType, std::string body,
            HttpHeaders headers) override {
    queue_->send(status, contentType, std::move(body), headers);
  }
  void begin(int status, std::string_view contentType, HttpHeaders headers,
             std::string ping) override {
    queue_->begin(status, contentType, headers, std::move(ping));
  }
  void write(std::string bytes) override { queue_->write(std::move(bytes)); }
  void end() override { queue_->end(); }
  size_t pendingBytes() const override { return queue_->pendingBytes(); }
  void onGone(std::function<void()> gone) override {
    queue_->onGone(std::move(gone));
  }

private:
  std::shared_ptr<AnswerQueue> queue_;
};
} // namespace

std::shared_ptr<HttpAnswer> makeAnswer(std::shared_ptr<AnswerQueue> queue) {
  return std::make_shared<QueuedAnswer>(std::move(queue));
}

void AnswerQueue::wake() {
  if (awake_ || gone_)
    return;
  awake_ = true;
  options_.wake();
}

void AnswerQueue::push(std::string bytes) {
  if (bytes.empty())
    return;
  pending_ += bytes.size();
  pieces_.push_back(std::move(bytes));
  lastWrite_ = Clock::now();
}

void AnswerQueue::pushChunk(std::string_view bytes) {
  if (!sendsBody() || bytes.empty())
    return;
  push(options_.form.isHttp11
           ? fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes)
           : std::string(bytes));
}

void AnswerQueue::pushHead(int status, std::string_view contentType,
                           const HttpHeaders &headers,
                           std::optional<uint64_t> length) {
  status_ = status;
  // Only the end of the connection ends an HTTP/1.0 body of unknown length.
  bool framed = options_.form.isHttp11 || length || !hasBody(status);
  keepAlive_ = framed && options_.keepAlive();
  push(answerHead(options_.form, status, contentType, headers,
                  {.length = length, .keepAlive = keepAlive_}));
}

void AnswerQueue::send(int status, std::string_view contentType,
                       std::string body, const HttpHeaders &headers) {
  std::function<void()> unused;
  std::lock_guard lock(mutex_);
  if (status_ != 0 || gone_)
    return;
  pushHead(status, contentType, headers, body.size());
  if (sendsBody())
    push(std::move(body));
  ended_ = true;
  unused.swap(onGone_);
  wake();
}

void AnswerQueue::begin(int status, std::string_view contentType,
                        const HttpHeaders &headers, std::string ping) {
  std::lock_guard lock(mutex_);
  if (status_ != 0 || gone_)
    return;
  pushHead(status, contentType, headers, std::nullopt);
  ping_ = std::move(ping);
  wake();
}

void AnswerQueue::write(std::string bytes) {
  std::lock_guard lock(mutex_);
  if (!isWriting() || overfull_)
    return;
  pushChunk(bytes);
  overfull_ = pending_ > options_.mostPending;
  wake();
}

void AnswerQueue::end() {
  std::function<void()> unused;
  std::lock_guard lock(mutex_);
  if (!isWriting())
    return;
  if (options_.form.isHttp11 && sendsBody())
    push(std::string(kLastChunk));
  ended_ = true;
  unused.swap(onGone_);
  wake();
}

void AnswerQueue::abandon() {
  std::function<void()> unused;
  std::unique_lock lock(mutex_);
  if (ended_ || gone_)
    return;
  if (status_ == 0) {
    lock.unlock();
    send(500, "application/json",
         errorBody("the server dropped the request; its log may say why"), {});
    return;
  }
  broken_ = true;
  unused.swap(onGone_);
  wake();
}

size_t AnswerQueue::pendingBytes() const {
  std::lock_guard lock(mutex_);
  return pending_;
}

void AnswerQueue::onGone(std::function<void()> gone) {
  {
    std::lock_guard lock(mutex_);
    if (ended_)
      return;
    if (!gone_) {
      onGone_.swap(gone);
      return;
    }
  }
  gone();
}

std::vector<std::string> AnswerQueue::take(size_t most) {
  std::lock_guard lock(mutex_);
  size_t count = std::min(most, pieces_.size());
  std::vector<std::string> taken(
      std::make_move_iterator(pieces_.begin()),
      std::make_move_iterator(pieces_.begin() + count));
  pieces_.erase(pieces_.begin(), pieces_.begin() + count);
  return taken;
}

void AnswerQueue::taken(size_t bytes) {
  std::lock_guard lock(mutex_);
  pending_ -= std::min(bytes, pending_);
}

void AnswerQueue::leave() {
  std::function<void()> gone;
  std::function<void()> unusedWake;
  std::function<bool()> unusedKeepAlive;
  std::deque<std::string> unusedPieces;
  {
    std::lock_guard lock(mutex_);
    if (gone_)
      return;
    gone_ = true;
    pending_ = 0;
    gone.swap(onGone_);
    unusedPieces.swap(pieces_);
    unusedWake.swap(options_.wake);
    unusedKeepAlive.swap(options_.keepAlive);
  }
  if (gone)
    gone();
}

bool AnswerQueue::isGone() const {
  std::lock_guard lock(mutex_);
  return gone_;
}

std::chrono::milliseconds
AnswerQueue::pingAfter(std::chrono::milliseconds interval) {
  using std::chrono::milliseconds;
  std::lock_guard lock(mutex_);
  if (!isWriting() || ping_.empty())
    return milliseconds(0);
  auto quiet = std::chrono::floor<milliseconds>(Clock::now() - lastWrite_);
  if (quiet < interval)
    return interval - quiet;
  // A client that is behind learns from what it has not taken yet.
  if (pending_ == 0)
    pushChunk(ping_);
  else
    lastWrite_ = Clock::now();
  return interval;
}

bool AnswerQueue::pingNow() {
  std::lock_guard lock(mutex_);
  if (!isWriting() || ping_.empty())
    return false;
  pushChunk(ping_);
  return true;
}

AnswerQueue::Progress AnswerQueue::look() {
  std::lock_guard lock(mutex_);
  awake_ = false;
  return {.status = status_,
          .keepAlive = keepAlive_,
          .isDone = ended_ && pending_ == 0,
          .isBroken = broken_,
          .isOverfull = overfull_};
}

} // namespace moert
