//===- RequestReader.h - Bytes become a request -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_REQUESTREADER_H
#define MOE_RUNTIME_SERVE_HTTP_REQUESTREADER_H

#include "runtime/serve/http/Refusal.h"
#include "runtime/serve/http/Security.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// The request line and headers.
struct RequestHead {
  std::string method, target;
  bool isHttp11 = true;  ///< Whether the version is HTTP/1.1, not HTTP/1.0.
  bool keepAlive = true; ///< Whether the client wants to send another request.
  bool expectsContinue = false;
  bool isChunked = false;
  uint64_t contentLength = 0; ///< Length as announced; 0 if there is none.
  /// Names in lower case; values of repeated headers are joined.
  HeaderMap headers;

  bool hasBody() const { return isChunked || contentLength > 0; }
};

/// Reads one request from bytes as they arrive. Stops after the headers, so
/// that the caller can refuse before the body is read.
class RequestReader {
public:
  enum class State { Head, AfterHead, Body, Done, Failed };

  /// Headers of more than `headerBytes` are refused with 431.
  explicit RequestReader(size_t headerBytes);
  ~RequestReader();

  State state() const { return state_; }
  /// Returns how many of the bytes were used. The others have to be there again
  /// in front of new ones. In the states AfterHead, Done and Failed none are.
  size_t feed(std::string_view bytes);

  /// Valid after the head was read.
  const RequestHead &head() const { return head_; }
  /// Goes on after the head. A body of more than `bodyBytes` is refused with
  /// 413.
  void readBody(uint64_t bodyBytes);
  size_t bodySize() const;
  std::string takeBody(); ///< May be called when the request is complete.
  /// Valid after a failure.
  const Refusal &refusal() const { return refusal_; }

private:
  struct Parser;
  void takeHead();
  void fail(int status, std::string message);

  std::unique_ptr<Parser> parser_;
  State state_ = State::Head;
  bool hasLine_ = false; ///< Whether a line of the headers was read.
  RequestHead head_;
  Refusal refusal_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_REQUESTREADER_H
