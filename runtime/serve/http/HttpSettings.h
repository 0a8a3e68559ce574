//===- HttpSettings.h - What an HTTP server is told -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_HTTPSETTINGS_H
#define MOE_RUNTIME_SERVE_HTTP_HTTPSETTINGS_H

#include "runtime/serve/http/AccessLog.h"
#include "runtime/serve/http/StaticFiles.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// Limits of size and time, so that no client takes more of the server than its
/// share. Each is reached by a client that is broken, slow or hostile, and
/// never by one that is none of these.
struct HttpLimits {
  /// Bytes of the headers, and of the request line; 431 beyond.
  size_t headerBytes = size_t(16) << 10;
  /// Bytes of a request's body; 413 beyond. A length that is announced is
  /// refused before the body is read.
  uint64_t bodyBytes = uint64_t(64) << 20;
  /// Bytes of all bodies that are being received or read by the handler; 503
  /// beyond. One client or peer address has at most three quarters of them.
  uint64_t bodyBytesInAll = uint64_t(128) << 20;
  /// Open connections. Beyond, the one that has been silent for longest,
  /// between requests or before the end of one's headers, gives way to a new
  /// one; 503 where there is none.
  size_t connections = 1024;
  /// The same for one peer address (one /64 network for IPv6). A proxy is one
  /// peer. Connections to a unix socket are not counted.
  size_t connectionsPerPeer = 256;
  /// After so many requests a connection is closed.
  size_t requestsPerConnection = 10'000;
  /// Requests that wait for a thread to read them, of all clients and of one
  /// (by its key, else by its address); 503 beyond.
  size_t waitingRequests = 1024, waitingRequestsPerClient = 256;
  /// Bytes of a body from which on a request does not delay smaller ones, and
  /// of such bodies that are read at one time; one alone may have more.
  uint64_t largeBody = uint64_t(256) << 10, largeBodiesTogether = uint64_t(16)
                                                                  << 20;
  /// Bytes that are read, and dropped, after the last answer of a connection.
  uint64_t droppedBytes = uint64_t(512) << 10;
  /// Bytes of an answer that wait for the client; it is cut off beyond. An
  /// answer of one piece may be larger.
  size_t pendingBytes = size_t(8) << 20;

  /// From a connection's start, or a request's first byte, to the end of the
  /// headers; includes the TLS handshake. 408.
  std::chrono::milliseconds headerTime{10'000};
  /// Time from the end of the headers to the end of the body; then 408.
  std::chrono::milliseconds bodyTime{120'000};
  /// Time from the end of a request to the beginning of its handler; then 503.
  std::chrono::milliseconds waitingTime{60'000};
  /// Time between an answer and the next request; then the connection is
  /// closed.
  std::chrono::milliseconds idleTime{75'000};
  /// A client that takes nothing of its answer for so long is cut off.
  std::chrono::milliseconds writeTime{30'000};
  /// After the last answer of a connection the server waits so long for the
  /// client to close it, so that the client can read the answer.
  std::chrono::milliseconds lingerTime{2'000};
};

struct HttpSettings {
  /// Address or name to listen on; "" for the unix socket alone. A name may
  /// stand for several addresses. 0.0.0.0 is all of IPv4; :: is IPv4 and IPv6.
  std::string host = "127.0.0.1";
  uint16_t port = 8080; ///< 0: any free port.
  /// Path of a unix socket to listen on too; "": none. Only this user can
  /// connect to it. A socket that a killed server left is replaced.
  std::string unixSocket;

  /// Descriptors of listening sockets that a service manager made
  /// (activatedSockets()). The server takes them over, and then listens on no
  /// others: `host`, `port` and `unixSocket` mean nothing. Who can connect to a
  /// unix socket among them is the manager's affair.
  std::vector<int> inheritedSockets;

  /// File with the keys of clients (KeyRing), and further keys. Without both no
  /// key is asked for, and then only loopback addresses and unix sockets are
  /// listened on.
  std::string apiKeyFile;
  std::vector<std::string> apiKeys;
  bool asksForKeys() const { return !apiKeyFile.empty() || !apiKeys.empty(); }
  /// Whether to listen on any address without keys.
  bool insecure = false;
  /// Host names, besides those of loopback, by which a server without keys may
  /// be called. A web page elsewhere can make a browser call a local server by
  /// a name of its own.
  std::vector<std::string> allowedHosts;
  /// Origins ("https://chat.example.org", or "*" for all) whose web pages may
  /// use the server.
  std::vector<std::string> allowedOrigins;
  /// Paths that need no key. The static files need none either.
  std::vector<std::string> publicPaths = {"/health", "/v1/health"};

  /// PEM files of the certificate chain and of its key; "": no TLS. The unix
  /// socket has none.
  std::string certificateFile, certificateKeyFile;

  std::span<const StaticFile> files; ///< The files must outlive the server.
  /// The Content-Security-Policy of static files.
  std::string contentSecurityPolicy{kStrictContentSecurityPolicy};

  int threads = 2; ///< Threads that only receive and send.
  /// Threads that run the handler, in turn for its clients; at least 3.
  int handlerThreads = 4;
  /// Paths whose requests have a thread of their own, because their answers
  /// must not wait for others.
  std::vector<std::string> monitorPaths = {"/health", "/v1/health", "/metrics"};
  HttpLimits limits;
  /// How often HttpAnswer::begin()'s ping is written.
  std::chrono::milliseconds pingInterval{5'000};
  /// Returns the JSON of an error that the server itself answers with, as
  /// clients of the path's interface expect it. Called from any thread. Empty:
  /// OpenAI's form.
  std::function<std::string(std::string_view path, int status,
                            std::string_view message)>
      errorBody;
  /// Receives a record of each answer, on one of the server's threads; may be
  /// empty.
  std::function<void(const AccessRecord &)> accessLog;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_HTTPSETTINGS_H
