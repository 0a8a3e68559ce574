//===- HttpServer.h - Receives requests and sends answers -------*- C++ -*-===//
//
// HTTP/1.1 over TCP, TLS and unix sockets: keep-alive, pipelined requests one
// after another, chunked bodies in both directions, limits on everything. What
// reaches the handler is complete and allowed to be there. HttpAnswer tells
// what the handler can do.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_HTTP_HTTPSERVER_H
#define MOE_RUNTIME_SERVE_HTTP_HTTPSERVER_H

#include "runtime/base/Status.h"
#include "runtime/serve/Exchange.h"
#include "runtime/serve/http/HttpSettings.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moert {

/// Counts of a server's work, for monitoring.
struct HttpCounts {
  size_t openConnections = 0; ///< Number of connections now.
  uint64_t bodyBytes = 0;     ///< Bytes now, of bodies that are being received.
  // Sums since the start:
  uint64_t connections = 0;
  /// Connections refused because a limit was reached.
  uint64_t refusedConnections = 0;
  uint64_t requests = 0; ///< Requests that reached the handler or a file.
  /// Requests that the server answered with an error.
  uint64_t refusedRequests = 0;
  uint64_t cutAnswers = 0; ///< Answers whose client left or was too slow.
};

/// The counts in Prometheus's text format, under names that begin with
/// moert_http_.
std::string metricsText(const HttpCounts &counts);

class HttpServer {
public:
  /// Listens and begins to serve. The handler must be callable on several
  /// threads at once. Fails with Usage for settings that contradict each other
  /// or are not safe, with InvalidFile for keys and certificates, and with Io
  /// for files and addresses that cannot be used.
  static StatusOr<std::unique_ptr<HttpServer>> create(HttpSettings settings,
                                                      HttpHandler handler);
  /// Fails as create() would now, and serves nothing: for what a user should
  /// know before hours of other work. Its sockets are closed again. It looks
  /// neither at a service manager's sockets nor into streams.
  static Status check(HttpSettings settings);
  /// Stops without grace. Answers that are still held then do nothing.
  ~HttpServer();

  /// The port that is listened on; 0 for a unix socket alone.
  uint16_t port() const;
  /// Addresses for clients: "http://127.0.0.1:8080", "unix:/run/moert.sock".
  const std::vector<std::string> &addresses() const;
  /// Facts about the files that a user should know, such as keys that others
  /// can read.
  std::vector<std::string> warnings() const;
  HttpCounts counts() const;

  /// Reads keys and certificate again, for requests and connections from now
  /// on. After a failure the old ones stay. Any thread.
  Status reload();

  /// Listens no more and closes idle connections; answers that are running
  /// have `grace` to end and are cut off then. Returns when all are closed. Not
  /// from a handler; any other thread, again without effect.
  void stop(std::chrono::milliseconds grace);

private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_HTTPSERVER_H
