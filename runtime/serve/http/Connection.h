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
#include <atomic>
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
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string name; ///< Name in the log: "127.0.0.1:40312" or "unix".
    /// Group whose connections are counted together; "" for unix sockets.
    std::string group;
    bool isUnix = false;
  };
  Connection(std::shared_ptr<ServerCore> core,
             std::unique_ptr<Transport> transport, Peer peer);
  ~Connection();

  void start();
  /// Tells the client that there are too many connections; replaces start().
  void refuse();
  /// The server stops: an idle connection is closed, another one after its
  /// answer.
  void drain();
  /// Closes at once. The client gets no more of its answer.
  void cut();

  /// Closes if it is silent still, because another one needs its place.
  void giveWay();

  StreamSocket &socket() { return transport_->socket(); }
  /// Since when it has neither been answered nor got on with a request; in the
  /// future while it does. Any thread.
  Clock::time_point silentSince() const { return silentSince_; }

private:
  using Timer = boost::asio::steady_timer;
  enum class Phase {
    Handshake,
    Idle,      ///< No byte of the next request has arrived.
    Head,      ///< The head of a request is being read.
    Body,      ///< The body of a request is being read.
    Answering, ///< A whole request was read; a following one must wait.
    Ending,    ///< Everything was sent; the client is expected to close.
    Closed,
  };

  // Functions for reading (ConnectionRead.cpp).
  void read();
  void onRead(ErrorCode error, size_t bytes);
  void onEndOfInput();
  void askWhetherGone();
  void advance();
  bool beginRequest();
  bool takeHead();
  bool countBody();
  void dispatch();
  void handOver();
  void onReadTimeout();

  // Answering.
  std::shared_ptr<AnswerQueue> newAnswer();
  /// Name of the client whose share of bodies and handlers a request uses.
  const std::string &owner() const {
    return admission_.client.empty() ? peer_.group : admission_.client;
  }
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
  std::string input_; ///< Bytes that belong to no request yet.
  bool reading_ = false, inputEnded_ = false;
  uint64_t dropped_ = 0; ///< Bytes that were read after the last answer.
  std::atomic<Clock::time_point> silentSince_{Clock::now()};

  // The request and its answer.
  std::optional<RequestReader> reader_;
  RequestTarget target_;
  Admission admission_;
  /// The file that the request asks for, or null.
  const StaticFile *file_ = nullptr;
  size_t requestCount_ = 0;
  /// Space for the body of the request.
  std::shared_ptr<BodySpace::Share> body_;
  bool mayContinue_ = true; ///< Whether a request may follow the answer.
  std::shared_ptr<AnswerQueue> answer_;
  AccessRecord record_;
  Clock::time_point requestStart_;

  // Output.
  std::string raw_; ///< Interim answers, which are sent before the answer.
  std::deque<std::string> output_; ///< Pieces that are being written.
  /// Number of bytes of the first piece that are written.
  size_t outputOffset_ = 0;
  bool outputIsRaw_ = false, writing_ = false, pinging_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_CONNECTION_H
