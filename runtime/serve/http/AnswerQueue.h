//===- AnswerQueue.h - An answer on its way to the client -------*- C++ -*-===//
//
// A handler's threads put bytes in; the connection takes them out at the
// client's speed. It knows no sockets.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_HTTP_ANSWERQUEUE_H
#define MOE_RUNTIME_SERVE_HTTP_ANSWERQUEUE_H

#include "runtime/serve/Exchange.h"
#include "runtime/serve/http/AnswerHead.h"

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// All functions may be called from any thread.
class AnswerQueue {
public:
  struct Options {
    AnswerForm form;
    /// Bytes that may wait; more make isOverfull() true.
    size_t mostPending = 0;
    /// Says whether the connection goes on after this answer, when the answer
    /// begins.
    std::function<bool()> keepAlive;
    /// Makes the connection look at the queue, soon and on its own thread.
    /// Called with the queue locked.
    std::function<void()> wake;
  };
  explicit AnswerQueue(Options options) : options_(std::move(options)) {}

  // Functions of HttpAnswer.
  void send(int status, std::string_view contentType, std::string body,
            const HttpHeaders &headers);
  void begin(int status, std::string_view contentType,
             const HttpHeaders &headers, std::string ping);
  void write(std::string bytes);
  void end();
  size_t pendingBytes() const;
  void onGone(std::function<void()> gone);
  /// The handler will do no more: an answer that has not ended never will.
  void abandon();

  // Functions for the connection.

  /// Returns up to `most` pieces, in order, that the client has to get next.
  std::vector<std::string> take(size_t most);
  /// Says that the client took so many bytes of them.
  void taken(size_t bytes);
  /// The client has left, or was cut off: tells the handler, unless its answer
  /// has ended. Afterwards nothing is accepted, and wake is not called.
  void leave();
  /// Whether the client has left.
  bool isGone() const;
  /// Writes the ping if there is one and nothing was written for `interval`.
  /// Returns when to ask again; zero: never.
  std::chrono::milliseconds pingAfter(std::chrono::milliseconds interval);
  /// Writes the ping, if there is one, and else nothing. Returns whether it
  /// did.
  bool pingNow();

  /// The state by which the connection decides.
  struct Progress {
    int status = 0; ///< 0 before the answer has begun.
    bool keepAlive = true;
    bool isDone = false; ///< Whether all of the answer was taken.
    /// Whether the answer was abandoned after its beginning.
    bool isBroken = false;
    bool isOverfull = false;
  };
  /// From now on, wake is called again when there is something new.
  Progress look();

private:
  using Clock = std::chrono::steady_clock;
  /// Adds to the queue; the mutex is held.
  void push(std::string bytes);
  void pushChunk(std::string_view bytes);
  void pushHead(int status, std::string_view contentType,
                const HttpHeaders &headers, std::optional<uint64_t> length);
  void wake();
  bool isWriting() const { return status_ != 0 && !ended_ && !gone_; }
  bool sendsBody() const { return !options_.form.isHead && hasBody(status_); }

  mutable std::mutex mutex_;
  Options options_;
  std::deque<std::string> pieces_;
  /// Bytes in pieces_, and bytes that were taken but not sent.
  size_t pending_ = 0;
  int status_ = 0;
  bool keepAlive_ = true, ended_ = false, gone_ = false, broken_ = false;
  bool overfull_ = false, awake_ = false;
  std::string ping_;
  Clock::time_point lastWrite_;
  std::function<void()> onGone_;
};

/// Returns an answer that fills the queue, and abandons it at its own end.
std::shared_ptr<HttpAnswer> makeAnswer(std::shared_ptr<AnswerQueue> queue);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_ANSWERQUEUE_H
