//===- AccessLog.h - A line for each answer ---------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_ACCESSLOG_H
#define MOE_RUNTIME_SERVE_HTTP_ACCESSLOG_H

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// What is kept of a request and its answer: nothing of either's content, and
/// no query, because clients put keys and prompts there. All texts are
/// printable ASCII.
struct AccessRecord {
  /// Time at which the request arrived.
  std::chrono::system_clock::time_point time;
  std::string peer;   ///< "127.0.0.1:40312", "[::1]:40312" or "unix".
  std::string client; ///< Same as HttpRequest::client.
  std::string method; ///< "-" where the request could not be read.
  std::string path;   ///< "-" where the request could not be read.
  int status = 0;     ///< 499 if the client left before the answer began.
  bool cut = false;   ///< Whether the client did not get all of the answer.
  uint64_t bytes = 0; ///< Bytes sent, with headers.
  double milliseconds = 0; ///< Time until the last byte of the answer.
  std::string userAgent;
};

/// Maximum bytes of a path or user agent in a record.
inline constexpr size_t kMostLoggedBytes = 256;

/// Returns a client's text as a record has it: cut, control characters and
/// bytes outside ASCII escaped.
std::string loggedText(std::string_view text);

/// Formats a record as a line without its end:
/// 2026-11-25T22:52:56.123Z 127.0.0.1:40312 alice "GET /v1/models" 200 312B
/// 1.2ms "curl/8.0"
std::string accessLine(const AccessRecord &record);

/// Formats it as one JSON object without a line's end.
std::string accessJson(const AccessRecord &record);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_ACCESSLOG_H
