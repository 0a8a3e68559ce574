//===- ServerCore.h - What the connections of a server share ----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_SERVERCORE_H
#define MOE_RUNTIME_SERVE_HTTP_SERVERCORE_H

#include "runtime/serve/Exchange.h"
#include "runtime/serve/http/Admission.h"
#include "runtime/serve/http/HttpServer.h"
#include "runtime/serve/http/HttpSettings.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct ssl_ctx_st;

namespace moert {

class Connection;

/// All functions may be called from any thread.
class ServerCore {
public:
  ServerCore(HttpSettings settings, HttpHandler handler);

  const HttpSettings &settings() const { return settings_; }
  const HttpHandler &handler() const { return handler_; }
  const AdmissionRules &rules() const { return rules_; }
  /// Before the server starts.
  void addBoundAddress(const std::string &address);

  /// Reads the files that the settings name. After a failure the old content
  /// stays.
  Status readFiles();
  std::vector<std::string> warnings() const;
  std::shared_ptr<const KeyRing> keys() const; ///< Null: none are asked for.
  std::shared_ptr<ssl_ctx_st> tls() const;     ///< Null: no TLS.

  /// How a new connection is treated.
  enum class Place {
    Served,
    Refused, ///< It gets an error: a limit is reached.
    Dropped, ///< It gets nothing: there are too many that get an error.
  };
  /// `group` is the peer's share (peerGroup()), "" for unix sockets.
  Place add(const std::shared_ptr<Connection> &connection,
            const std::string &group);
  void remove(const Connection *connection);
  std::vector<std::shared_ptr<Connection>> connections() const;
  /// Returns whether all connections were removed in time.
  bool waitUntilEmpty(std::chrono::milliseconds most);

  /// Takes space for a part of a body. Returns whether there was any.
  bool takeBodySpace(uint64_t bytes);
  void returnBodySpace(uint64_t bytes) { bodyBytes_ -= bytes; }

  std::atomic<bool> isDraining{false};
  std::atomic<uint64_t> requests{0}, refusedRequests{0}, cutAnswers{0};
  HttpCounts counts() const;

private:
  struct Entry {
    std::weak_ptr<Connection> connection;
    std::string group;
  };

  const HttpSettings settings_;
  const HttpHandler handler_;
  AdmissionRules rules_;
  std::atomic<uint64_t> bodyBytes_{0};

  mutable std::mutex mutex_; ///< Of all below.
  std::condition_variable removed_;
  std::map<const Connection *, Entry> connections_;
  std::map<std::string, size_t> groups_; ///< Connections of each.
  uint64_t allConnections_ = 0, refusedConnections_ = 0;
  std::shared_ptr<const KeyRing> keys_;
  std::shared_ptr<ssl_ctx_st> tls_;
  std::vector<std::string> warnings_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_SERVERCORE_H
