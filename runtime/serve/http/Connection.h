//===- Connection.h - One client's connection -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_CONNECTION_H
#define MOE_RUNTIME_SERVE_HTTP_CONNECTION_H

#include "runtime/serve/http/AccessLog.h"
#include "runtime/serve/http/AnswerQueue.h"
#include "runtime/serve/http/RequestReader.h"
#include "runtime/serve/http/RequestTarget.h"
#include "runtime/serve/http/ServerCore.h"
#include "runtime/serve/http/Transport.h"

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moert {

/// Reads requests and writes their answers, one after another. It lives until
/// it is closed. All functions but the constructor run on the socket's
/// executor, which is a strand.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  struct Peer {
    std::string name; ///< For the log: "127.0.0.1:40312" or "unix".
    bool isUnix = false;
  };
  Connection(std::shared_ptr<ServerCore> core,
             std::unique_ptr<Transport> transport, Peer peer);
  ~Connection();

  void start();
  /// Instead of start(): says that there are too many connections.
  void refuse();
  /// The server stops: an idle connection is closed, another one after its
  /// answer.
  void drain();
  /// Closes at once. The client gets no more of its answer.
  void cut();

  StreamSocket &socket() { return transport_->socket(); }

private:
  using Clock = std::chrono::steady_clock;
  using Timer = boost::asio::steady_timer;
  enum class Phase {
    Handshake,
    Idle,      ///< No byte of the next request is here.
    Head,      ///< Of a request.
    Body,      ///< Likewise.
    Answering, ///< A whole request was read; one that follows must wait.
    Ending,    ///< Everything was sent; waiting for the client to close.
    Closed,
  };

  // Reading (ConnectionRead.cpp).
  void read();
  void onRead(ErrorCode error, size_t bytes);
  void onEndOfInput();
  void advance();
  bool beginRequest();
  bool takeHead();
  bool countBody();
  void releaseBody();
  void dispatch();
  void onReadTimeout();

  // Answering.
  std::shared_ptr<AnswerQueue> newAnswer();
  void refuse(const Refusal &refusal, bool keepAlive);
  void answerFile();
  void onAnswered();
  void endConnection();
  void watchForReset();
  void pump();
  void refill();
  void onWritten(ErrorCode error, size_t bytes);
  void armPing();
  void onPing();
  void close();
  void beginRecord();
  void log(bool cut);

  using Reaction = void (Connection::*)();
  void arm(Timer &timer, std::chrono::milliseconds time, Reaction expired);
  static void disarm(Timer &timer) {
    timer.expires_at(Timer::time_point::max());
  }

  const HttpLimits &limits() const { return core_->settings().limits; }

  const std::shared_ptr<ServerCore> core_;
  const std::unique_ptr<Transport> transport_;
  const Peer peer_;
  Phase phase_ = Phase::Handshake;
  /// `deadline_` is that of the phase.
  Timer deadline_, writeDeadline_, pingTimer_;

  // Input.
  std::array<char, 16384> chunk_;
  std::string input_; ///< Bytes that no request has used yet.
  bool reading_ = false, inputEnded_ = false;

  // The request and its answer.
  std::optional<RequestReader> reader_;
  RequestTarget target_;
  Admission admission_;
  const StaticFile *file_ = nullptr; ///< That is asked for, or null.
  size_t requestCount_ = 0;
  uint64_t countedBody_ = 0; ///< Bytes taken of the core's space for bodies.
  bool mayContinue_ = true;  ///< Whether a request may follow the answer.
  std::shared_ptr<AnswerQueue> answer_;
  AccessRecord record_;
  Clock::time_point requestStart_;

  // Output.
  std::string raw_;                ///< Interim answers, in front of the answer.
  std::deque<std::string> output_; ///< Pieces that are being written.
  size_t outputOffset_ = 0;        ///< Bytes of the first that are written.
  bool outputIsRaw_ = false, writing_ = false, pinging_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_CONNECTION_H
