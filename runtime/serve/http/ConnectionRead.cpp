// Reads requests.

#include "runtime/serve/http/Connection.h"

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>

namespace moert {

namespace {
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// A client may take so long for the headers, and between parts of a body,
/// before it counts as silent.
constexpr std::chrono::seconds kHeadPause{1}, kBodyPause{5};

/// A client that sends no more is not asked whether it is there if it gets its
/// answer so soon.
constexpr std::chrono::milliseconds kAnswerAtOnce{50};

/// Runs the handler, unless that is of no use any more.
void handle(const ServerCore &core, HttpRequest request,
            const AnswerQueue &queue, std::shared_ptr<HttpAnswer> answer,
            std::chrono::steady_clock::time_point latest) {
  if (queue.isGone())
    return;
  if (std::chrono::steady_clock::now() > latest) {
    constexpr std::string_view message =
        "the request waited too long to be read; try again";
    const auto &bodyOf = core.settings().errorBody;
    answer->send(503, "application/json",
                 bodyOf ? bodyOf(request.path, 503, message)
                        : errorBody(message),
                 {{"Retry-After", "5"}});
    return;
  }
  try {
    core.handler()(std::move(request), std::move(answer));
  } catch (...) {
    // The answer went with its last reference: the client gets an error.
  }
}

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
  if (phase_ == Phase::Ending) {
    // Data of a client that sends without end is not read any more, and it is
    // closed when its time is up.
    dropped_ += bytes;
    if (dropped_ < limits().droppedBytes)
      read();
    return;
  }
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
  if (!peer_.isUnix && answer_)
    arm(deadline_, kAnswerAtOnce, &Connection::askWhetherGone);
}

/// Sends something that says nothing.
void Connection::askWhetherGone() {
  if (!answer_)
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
      // The rest that the reader cannot use yet is a part of a line.
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
  silentSince_ = Clock::now() + kHeadPause;
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
  body_ = std::make_shared<BodySpace::Share>(core_->bodies(), owner());
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
  silentSince_ = Clock::now() + kBodyPause;
  if (!body_->growTo(reader_->bodySize())) {
    refuse({.status = 503,
            .message = "the server receives too much at this moment; try again",
            .headers = {{"Retry-After", "1"}}},
           false);
    return false;
  }
  return true;
}

void Connection::dispatch() {
  if (admission_.isOptions) {
    newAnswer()->send(204, "", "", {});
    return read();
  }
  if (file_) {
    ++core_->requests;
    answerFile();
    return read();
  }
  handOver();
  read();
}

/// Hands the request to a thread for handlers.
void Connection::handOver() {
  WorkQueue &work = core_->workFor(target_.path);
  if (!work.hasRoom(owner()))
    return refuse({.status = 503,
                   .message = "too many requests wait to be read; try again",
                   .headers = {{"Retry-After", "1"}}},
                  true);
  ++core_->requests;
  const RequestHead &head = reader_->head();
  auto request = std::make_shared<HttpRequest>();
  // The body is left out by the queue.
  request->method = head.method == "HEAD" ? "GET" : head.method;
  request->path = target_.path;
  request->query = std::move(target_.query);
  request->headers = head.headers;
  request->body = reader_->takeBody();
  request->client = admission_.client;
  request->group = admission_.group;
  const uint64_t bytes = request->body.size();
  std::shared_ptr<AnswerQueue> queue = newAnswer();
  work.add({owner(), bytes,
            [core = core_, request = std::move(request), queue,
             answer = makeAnswer(queue), body = std::move(body_),
             latest = Clock::now() + limits().waitingTime]() mutable {
              handle(*core, std::move(*request), *queue, std::move(answer),
                     latest);
            }});
}

void Connection::onReadTimeout() {
  if (phase_ == Phase::Head || phase_ == Phase::Body)
    return refuse(
        {.status = 408, .message = "the request did not arrive in time"},
        false);
  close();
}

} // namespace moert
