//===- ServerCore.h - What the connections of a server share ----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_SERVERCORE_H
#define MOE_RUNTIME_SERVE_HTTP_SERVERCORE_H

#include "runtime/base/WorkQueue.h"
#include "runtime/serve/Exchange.h"
#include "runtime/serve/http/Admission.h"
#include "runtime/serve/http/BodySpace.h"
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
  /// Must be called before the server starts.
  void addBoundAddress(const std::string &address);

  /// Reads the files that the settings name. After a failure the old content
  /// stays.
  Status readFiles();
  std::vector<std::string> warnings() const;
  std::shared_ptr<const KeyRing> keys() const; ///< Null if clients need no key.
  /// Null if the server does not use TLS.
  std::shared_ptr<ssl_ctx_st> tls() const;

  /// Returns the queue in which the handlers of a path run: that of monitors is
  /// separate.
  WorkQueue &workFor(const std::string &path);
  const std::shared_ptr<BodySpace> &bodies() const { return bodies_; }
  /// Waits for the handlers that run. When no connection is left.
  void stopWork();

  /// The treatment of a new connection.
  enum class Place {
    Served,
    Refused, ///< The client gets an error because a limit is reached.
    Dropped, ///< The client gets nothing: too many others get an error.
  };
  /// `group` is the peer's share (peerGroup()), "" for unix sockets. Closes a
  /// connection that is silent if that makes a place.
  Place add(const std::shared_ptr<Connection> &connection,
            const std::string &group);
  void remove(const Connection *connection);
  std::vector<std::shared_ptr<Connection>> connections() const;
  /// Returns whether all connections were removed in time.
  bool waitUntilEmpty(std::chrono::milliseconds most);

  std::atomic<bool> isDraining{false};
  std::atomic<uint64_t> requests{0}, refusedRequests{0}, cutAnswers{0};
  HttpCounts counts() const;

private:
  struct Entry {
    std::weak_ptr<Connection> connection;
    std::string group;
  };

  using Entries = std::map<const Connection *, Entry>;

  // With the lock.
  /// Removes the connection that has been silent for longest, of a group or, if
  /// that is "", of all, and returns it; null if none is silent. The lock must
  /// be free when it goes.
  std::shared_ptr<Connection> removeSilent(const std::string &group);
  void erase(Entries::iterator entry);
  Place placeFor(const std::string &group) const;
  /// Number of connections of a group.
  size_t countOf(const std::string &group) const;

  const HttpSettings settings_;
  const HttpHandler handler_;
  AdmissionRules rules_;
  const std::shared_ptr<BodySpace> bodies_;
  WorkQueue work_, monitors_;

  mutable std::mutex mutex_; ///< Guards all members below.
  std::condition_variable removed_;
  Entries connections_;
  /// Number of connections of each group.
  std::map<std::string, size_t> groups_;
  uint64_t allConnections_ = 0, refusedConnections_ = 0;
  std::shared_ptr<const KeyRing> keys_;
  std::shared_ptr<ssl_ctx_st> tls_;
  std::vector<std::string> warnings_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_SERVERCORE_H
