#include "runtime/serve/http/Connection.h"

#include <boost/asio/post.hpp>
#include <poll.h>

namespace moert {

namespace {
/// Whether the other side has reset the connection. An event alone does not
/// say so: with several threads, Asio can hand over one of the connection that
/// had the descriptor before.
bool isReset(int fd) {
  pollfd state = {fd, 0, 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP));
}

/// Pieces of an answer that are written at once, and so the most buffers of a
/// system call.
constexpr size_t kMostPieces = 64;
} // namespace

Connection::Connection(std::shared_ptr<ServerCore> core,
                       std::unique_ptr<Transport> transport, Peer peer)
    : core_(std::move(core)), transport_(std::move(transport)),
      peer_(std::move(peer)), deadline_(socket().get_executor()),
      writeDeadline_(socket().get_executor()),
      pingTimer_(socket().get_executor()) {}

Connection::~Connection() {
  if (answer_)
    answer_->leave();
  core_->remove(this);
}

void Connection::start() {
  if (core_->isDraining)
    return close();
  watchForReset();
  arm(deadline_, limits().headerTime, &Connection::onReadTimeout);
  transport_->handshake([self = shared_from_this()](ErrorCode error) {
    if (self->phase_ != Phase::Handshake)
      return;
    if (error)
      return self->close();
    self->phase_ = Phase::Idle;
    self->read();
  });
}

void Connection::refuse() {
  watchForReset();
  beginRecord();
  refuse({.status = 503,
          .message = "too many connections; close some or try again",
          .headers = {{"Retry-After", "1"}}},
         false);
}

void Connection::drain() {
  ErrorCode ignored;
  // A request that has arrived is answered, and tells the client to close.
  bool isIdle = phase_ == Phase::Idle && socket().available(ignored) == 0;
  if (isIdle || phase_ == Phase::Handshake)
    close();
}

void Connection::giveWay() {
  if (silentSince() <= Clock::now())
    close();
}

void Connection::cut() {
  if (phase_ == Phase::Closed)
    return;
  // Without this the system would go on to send what the client does not take.
  ErrorCode ignored;
  socket().set_option(boost::asio::socket_base::linger(true, 0), ignored);
  close();
}

void Connection::arm(Timer &timer, std::chrono::milliseconds time,
                     Reaction expired) {
  timer.expires_after(time);
  timer.async_wait(
      [self = shared_from_this(), &timer, expired](ErrorCode error) {
        // A timer that was armed again may be on its way here already.
        if (!error && self->phase_ != Phase::Closed &&
            timer.expiry() <= Clock::now())
          (self.get()->*expired)();
      });
}

std::shared_ptr<AnswerQueue> Connection::newAnswer() {
  phase_ = Phase::Answering;
  silentSince_ = Clock::time_point::max();
  disarm(deadline_);
  AnswerQueue::Options options;
  if (reader_) {
    options.form.isHttp11 = reader_->head().isHttp11;
    options.form.isHead = reader_->head().method == "HEAD";
  }
  options.form.headers = admission_.headers;
  options.mostPending = limits().pendingBytes;
  options.keepAlive = [core = core_, mayContinue = mayContinue_] {
    return mayContinue && !core->isDraining;
  };
  options.wake = [weak = weak_from_this(), executor = socket().get_executor()] {
    boost::asio::post(executor, [weak] {
      if (auto self = weak.lock())
        self->pump();
    });
  };
  answer_ = std::make_shared<AnswerQueue>(std::move(options));
  return answer_;
}

void Connection::refuse(const Refusal &refusal, bool keepAlive) {
  ++core_->refusedRequests;
  body_.reset();
  mayContinue_ = mayContinue_ && keepAlive;
  const auto &bodyOf = core_->settings().errorBody;
  newAnswer()->send(refusal.status, "application/json",
                    bodyOf
                        ? bodyOf(target_.path, refusal.status, refusal.message)
                        : errorBody(refusal.message),
                    refusal.headers);
  if (mayContinue_)
    read();
}

void Connection::answerFile() {
  StaticAnswer answer = answerStatic(
      *file_, core_->settings().contentSecurityPolicy, reader_->head().headers);
  newAnswer()->send(answer.status, answer.contentType, std::string(answer.body),
                    answer.headers);
}

/// Closes when the client's system resets the connection. Until then, or until
/// it is closed, this keeps the connection alive.
void Connection::watchForReset() {
  socket().async_wait(StreamSocket::wait_error,
                      [self = shared_from_this()](ErrorCode error) {
                        if (error)
                          return;
                        if (isReset(self->socket().native_handle()))
                          self->close();
                        else
                          self->watchForReset();
                      });
}

void Connection::pump() {
  if (phase_ == Phase::Closed)
    return;
  AnswerQueue::Progress progress;
  if (answer_) {
    progress = answer_->look();
    record_.status = progress.status;
    if (progress.isOverfull)
      return cut();
    armPing();
  }
  if (writing_)
    return;
  if (output_.empty())
    refill();
  if (output_.empty()) {
    if (progress.isBroken)
      return close();
    if (progress.isDone)
      onAnswered();
    return;
  }
  writing_ = true;
  std::vector<boost::asio::const_buffer> buffers;
  for (const std::string &piece : output_)
    buffers.push_back(boost::asio::buffer(piece));
  buffers.front() += outputOffset_;
  arm(writeDeadline_, limits().writeTime, &Connection::cut);
  transport_->write(buffers,
                    [self = shared_from_this()](ErrorCode error, size_t bytes) {
                      self->onWritten(error, bytes);
                    });
}

void Connection::refill() {
  outputIsRaw_ = !raw_.empty();
  if (outputIsRaw_) {
    output_.push_back(std::move(raw_));
    raw_.clear();
  } else if (answer_) {
    for (std::string &piece : answer_->take(kMostPieces))
      output_.push_back(std::move(piece));
  }
}

void Connection::onWritten(ErrorCode error, size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::Closed)
    return;
  if (error)
    return close();
  disarm(writeDeadline_);
  record_.bytes += bytes;
  if (answer_ && !outputIsRaw_)
    answer_->taken(bytes);
  outputOffset_ += bytes;
  while (!output_.empty() && outputOffset_ >= output_.front().size()) {
    outputOffset_ -= output_.front().size();
    output_.pop_front();
  }
  pump();
}

void Connection::armPing() {
  if (pinging_)
    return;
  auto next = answer_->pingAfter(core_->settings().pingInterval);
  if (next.count() == 0)
    return;
  pinging_ = true;
  arm(pingTimer_, next, &Connection::onPing);
}

void Connection::onPing() {
  pinging_ = false;
  if (answer_)
    pump();
}

void Connection::onAnswered() {
  log(false);
  bool keepAlive = answer_->look().keepAlive && mayContinue_;
  answer_->leave();
  answer_.reset();
  disarm(pingTimer_);
  pinging_ = false;
  if (!keepAlive || core_->isDraining)
    return endConnection();
  phase_ = Phase::Idle;
  silentSince_ = Clock::now();
  arm(deadline_, limits().idleTime, &Connection::onReadTimeout);
  advance();
}

/// Sends the end and waits for the client's, because closing with unread input
/// would make the client's system drop what the client has not read yet.
void Connection::endConnection() {
  phase_ = Phase::Ending;
  arm(deadline_, limits().lingerTime, &Connection::close);
  transport_->endWriting([self = shared_from_this()] {});
  input_.clear();
  read();
}

void Connection::close() {
  if (phase_ == Phase::Closed)
    return;
  phase_ = Phase::Closed;
  if (answer_) {
    log(true);
    answer_->leave();
    answer_.reset();
  }
  body_.reset();
  for (Timer *timer : {&deadline_, &writeDeadline_, &pingTimer_})
    disarm(*timer);
  ErrorCode ignored;
  socket().close(ignored);
  core_->remove(this);
}

void Connection::beginRecord() {
  requestStart_ = Clock::now();
  record_ = {};
  record_.time = std::chrono::system_clock::now();
  record_.peer = peer_.name;
  record_.method = record_.path = "-";
}

void Connection::log(bool cut) {
  if (cut)
    ++core_->cutAnswers;
  if (!core_->settings().accessLog)
    return;
  constexpr int kClientLeft = 499;
  record_.cut = cut;
  record_.status = answer_->look().status;
  if (record_.status == 0)
    record_.status = kClientLeft;
  record_.milliseconds =
      std::chrono::duration<double, std::milli>(Clock::now() - requestStart_)
          .count();
  core_->settings().accessLog(record_);
}

} // namespace moert
