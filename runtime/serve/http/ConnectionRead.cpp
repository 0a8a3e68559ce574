// How a connection reads requests.

#include "runtime/serve/http/Connection.h"

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>

namespace moert {

namespace {
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool isEnd(ErrorCode error) {
  return error == boost::asio::error::eof ||
         error == boost::asio::ssl::error::stream_truncated;
}
} // namespace

void Connection::read() {
  if (reading_ || phase_ == Phase::Closed)
    return;
  if (inputEnded_)
    return onEndOfInput();
  reading_ = true;
  transport_->read(boost::asio::buffer(chunk_),
                   [self = shared_from_this()](ErrorCode error, size_t bytes) {
                     self->reading_ = false;
                     if (self->phase_ != Phase::Closed)
                       self->onRead(error, bytes);
                   });
}

void Connection::onRead(ErrorCode error, size_t bytes) {
  if (error) {
    if (!isEnd(error))
      return close();
    inputEnded_ = true;
    return onEndOfInput();
  }
  if (phase_ == Phase::Ending)
    return read();
  input_.append(chunk_.data(), bytes);
  if (phase_ != Phase::Answering)
    return advance();
  // Reading goes on to see the client leave, but not without end.
  if (input_.size() < limits().headerBytes)
    read();
}

void Connection::onEndOfInput() {
  if (phase_ != Phase::Answering)
    return close();
  // A client that has closed its socket looks like one that only sends no more.
  // The first one's system refuses whatever is sent to it, which
  // watchForReset() sees. A unix socket's end needs no such question.
  if (peer_.isUnix || !answer_)
    return;
  if (answer_->look().status == 0 && reader_->head().isHttp11)
    raw_ += kContinue;
  else
    answer_->pingNow();
  pump();
}

void Connection::advance() {
  while (true) {
    if (phase_ == Phase::Idle && !beginRequest())
      return read();
    size_t used = reader_->feed(input_);
    input_.erase(0, used);
    if (!countBody())
      return;
    switch (reader_->state()) {
    case RequestReader::State::Head:
    case RequestReader::State::Body:
      // What the reader cannot use yet is a part of a line.
      if (input_.size() > limits().headerBytes + chunk_.size())
        return refuse({.status = 431,
                       .message = "a line of the request is too "
                                  "long"},
                      false);
      return read();
    case RequestReader::State::AfterHead:
      if (!takeHead())
        return;
      break;
    case RequestReader::State::Done:
      return dispatch();
    case RequestReader::State::Failed:
      return refuse(reader_->refusal(), false);
    }
  }
}

/// Returns whether there is a byte of a request.
bool Connection::beginRequest() {
  // Some clients end a body with a line's end too many (RFC 9112, 2.2).
  size_t start = input_.find_first_not_of("\r\n");
  input_.erase(0, start);
  if (input_.empty())
    return false;
  phase_ = Phase::Head;
  reader_.emplace(limits().headerBytes);
  target_ = {};
  admission_ = {};
  file_ = nullptr;
  mayContinue_ = ++requestCount_ < limits().requestsPerConnection;
  beginRecord();
  arm(deadline_, limits().headerTime, &Connection::onReadTimeout);
  return true;
}

/// Decides on a request after its headers. Returns false if it was refused.
bool Connection::takeHead() {
  const RequestHead &head = reader_->head();
  record_.method = loggedText(head.method);
  if (auto agent = head.headers.find("user-agent"); agent != head.headers.end())
    record_.userAgent = loggedText(agent->second);
  mayContinue_ = mayContinue_ && head.keepAlive;

  StatusOr<RequestTarget> target = parseTarget(head.target);
  if (!target) {
    refuse({.status = 400, .message = target.status().message()}, false);
    return false;
  }
  target_ = *std::move(target);
  record_.path = loggedText(target_.path);
  file_ = findStatic(core_->settings().files, target_.path);
  admission_ = admit(core_->rules(), core_->keys().get(), head, target_,
                     file_ != nullptr);
  record_.client = admission_.client;
  if (admission_.refusal) {
    // The body of a refused request is not read.
    refuse(*admission_.refusal, !head.hasBody());
    return false;
  }
  reader_->readBody(limits().bodyBytes);
  if (reader_->state() != RequestReader::State::Body)
    return true;
  phase_ = Phase::Body;
  arm(deadline_, limits().bodyTime, &Connection::onReadTimeout);
  if (head.expectsContinue && input_.empty()) {
    raw_ += kContinue;
    pump();
  }
  return true;
}

/// Counts what was read of a body. Returns false if the request was refused.
bool Connection::countBody() {
  if (phase_ != Phase::Body)
    return true;
  uint64_t more = reader_->bodySize() - countedBody_;
  if (!core_->takeBodySpace(more)) {
    refuse({.status = 503,
            .message = "the server receives too much at this moment; try again",
            .headers = {{"Retry-After", "1"}}},
           false);
    return false;
  }
  countedBody_ += more;
  return true;
}

void Connection::releaseBody() {
  core_->returnBodySpace(countedBody_);
  countedBody_ = 0;
}

void Connection::dispatch() {
  const RequestHead &head = reader_->head();
  if (admission_.isOptions) {
    newAnswer()->send(204, "", "", {});
    return read();
  }
  ++core_->requests;
  if (file_) {
    answerFile();
    return read();
  }
  HttpRequest request;
  // The body is left out by the queue.
  request.method = head.method == "HEAD" ? "GET" : head.method;
  request.path = target_.path;
  request.query = std::move(target_.query);
  request.headers = head.headers;
  request.body = reader_->takeBody();
  request.client = admission_.client;
  std::shared_ptr<HttpAnswer> answer = makeAnswer(newAnswer());
  try {
    core_->handler()(std::move(request), std::move(answer));
  } catch (...) {
    // The answer went with its last reference: the client gets an error.
  }
  releaseBody();
  read();
}

void Connection::onReadTimeout() {
  if (phase_ == Phase::Head || phase_ == Phase::Body)
    return refuse(
        {.status = 408, .message = "the request did not arrive in time"},
        false);
  close();
}

} // namespace moert
