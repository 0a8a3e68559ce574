//===- Notify.h - What systemd and a service tell each other ----*- C++ -*-===//
//
// The protocols of sd_notify(3) and sd_listen_fds(3), without their library:
// lines of NAME=VALUE in a datagram to the socket that systemd names to a
// service, and sockets that a service inherits.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_HTTP_NOTIFY_H
#define MOE_RUNTIME_SERVE_HTTP_NOTIFY_H

#include "runtime/base/Status.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Functions may be called from any thread and never wait. Without a socket
/// they do nothing. They fail with Io, naming the socket.
class ServiceNotifier {
public:
  /// `socket` is the value of $NOTIFY_SOCKET: a path, "@NAME" in the abstract
  /// namespace, or "" where no service manager listens.
  explicit ServiceNotifier(std::string socket) : socket_(std::move(socket)) {}

  bool isListening() const { return !socket_.empty(); }
  /// The service serves now; `status` is what "systemctl status" shows.
  Status ready(std::string_view status) const;
  /// Tells that the service ends, and serves no new requests.
  Status stopping(std::string_view status) const;
  /// Tells the state of the service, such as the progress of loading.
  Status status(std::string_view text) const;
  /// Tells that the service is alive (watchdogInterval()).
  Status watchdog() const;
  /// Tells that the service needs this much more time to start or stop.
  Status extendTimeout(std::chrono::milliseconds time) const;

private:
  Status send(std::string_view message) const;
  std::string socket_;
};

/// Returns how often watchdog() has to be called, half of the time after which
/// systemd kills the service; none if it does not watch. The arguments are the
/// values of $WATCHDOG_USEC and $WATCHDOG_PID, "" where they are not set.
std::optional<std::chrono::milliseconds>
watchdogInterval(std::string_view microseconds, std::string_view pid);

/// Returns the descriptors of sockets on which systemd listens for this service
/// and which it hands over; none if there are none. Programs that this one
/// starts will not inherit them. The arguments are the values of $LISTEN_FDS
/// and $LISTEN_PID, "" where they are not set.
std::vector<int> activatedSockets(std::string_view count, std::string_view pid);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_NOTIFY_H
