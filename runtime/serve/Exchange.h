//===- Exchange.h - A request to the server and its answer ------*- C++ -*-===//
//
// What lies between the HTTP server (runtime/serve/http) and the interfaces
// that it offers (runtime/serve/api): neither knows the other's types, and
// tests of one need nothing of the other.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_EXCHANGE_H
#define MOE_RUNTIME_SERVE_EXCHANGE_H

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moert {

/// A whole request. The server has checked its size, key, Host and Origin.
struct HttpRequest {
  std::string method; ///< "GET", "POST", ...
  std::string path;   ///< Percent-decoded, without the query: "/v1/models".
  std::map<std::string, std::string> query; ///< Percent-decoded.
  /// Names are in lower case.
  std::map<std::string, std::string, std::less<>> headers;
  std::string body;
  /// Names the key that the client sent, without giving it away; "" if the
  /// server asks for no key. Requests of one client share its part of the
  /// engine.
  std::string client;
  /// Names those who may find out what each other asked: clients whose keys
  /// have the same group, or else the client alone.
  std::string group;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// The answer to one request: either send(), or begin(), any number of write()
/// and end(). Functions may be called from any thread, one at a time, and never
/// wait for the client. After the client has left they do nothing. If the last
/// reference goes before the answer has ended, the client gets an error
/// (status 500, or a connection that is cut).
class HttpAnswer {
public:
  virtual ~HttpAnswer() = default;

  virtual void send(int status, std::string_view contentType, std::string body,
                    HttpHeaders headers = {}) = 0;
  /// Begins an answer of unknown length (chunked, or server-sent events).
  /// A `ping` that is not empty is written after each interval of the server's
  /// settings in which nothing else was: ": ping\n\n" for server-sent events.
  virtual void begin(int status, std::string_view contentType,
                     HttpHeaders headers = {}, std::string ping = {}) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void end() = 0;

  /// Bytes that were written and that the client has not taken yet. A caller
  /// that produces without end stops while this is large.
  virtual size_t pendingBytes() const = 0;
  /// Calls `gone` once, from any thread, when the client has left before the
  /// answer ended; at once if it has left already.
  virtual void onGone(std::function<void()> gone) = 0;
};

/// Answers a request, now or later. Called on one of the server's threads for
/// handlers, never on one that receives and sends: it may take its time, which
/// the requests of the same client wait for before those of others do.
using HttpHandler =
    std::function<void(HttpRequest, std::shared_ptr<HttpAnswer>)>;

} // namespace moert

#endif // MOE_RUNTIME_SERVE_EXCHANGE_H
