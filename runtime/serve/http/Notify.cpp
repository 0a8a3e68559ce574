#include "runtime/serve/http/Notify.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace moert {

namespace {
/// A line's end would begin another variable.
std::string oneLine(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\0'; },
      ' ');
  return line;
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}
} // namespace

Status ServiceNotifier::send(std::string_view message) const {
  if (socket_.empty())
    return Status::ok();
  auto failure = [&](std::string_view why) {
    return Status(StatusCode::Io,
                  fmt::format("cannot notify the service manager at {}: {}",
                              socket_, why));
  };
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof(address.sun_path))
    return failure("the path is too long");
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@')
    address.sun_path[0] = '\0';
  socklen_t bytes = socklen_t(offsetof(sockaddr_un, sun_path) + socket_.size());
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return failure(std::strerror(errno));
  ssize_t sent =
      sendto(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
             reinterpret_cast<sockaddr *>(&address), bytes);
  int error = errno;
  close(fd);
  return sent < 0 ? failure(std::strerror(error)) : Status::ok();
}

Status ServiceNotifier::ready(std::string_view status) const {
  return send("READY=1\nSTATUS=" + oneLine(status));
}

Status ServiceNotifier::stopping(std::string_view status) const {
  return send("STOPPING=1\nSTATUS=" + oneLine(status));
}

Status ServiceNotifier::status(std::string_view text) const {
  return send("STATUS=" + oneLine(text));
}

Status ServiceNotifier::watchdog() const { return send("WATCHDOG=1"); }

Status ServiceNotifier::extendTimeout(std::chrono::milliseconds time) const {
  return send(fmt::format(
      "EXTEND_TIMEOUT_USEC={}",
      std::chrono::duration_cast<std::chrono::microseconds>(time).count()));
}

std::optional<std::chrono::milliseconds>
watchdogInterval(std::string_view microseconds, std::string_view pid) {
  std::optional<uint64_t> limit = number(microseconds);
  // The variables may have been inherited from another process.
  if (!limit || (!pid.empty() && number(pid) != uint64_t(getpid())))
    return std::nullopt;
  auto half = std::chrono::milliseconds(*limit / 2000);
  if (half.count() == 0)
    return std::nullopt;
  return half;
}

std::vector<int> activatedSockets(std::string_view count,
                                  std::string_view pid) {
  // Sockets with another pid are for the process that has started this one.
  constexpr uint64_t first = 3, most = 64;
  std::optional<uint64_t> sockets = number(count);
  if (!sockets || *sockets > most || number(pid) != uint64_t(getpid()))
    return {};
  std::vector<int> list;
  for (uint64_t i = 0; i < *sockets; ++i) {
    int fd = int(first + i);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    list.push_back(fd);
  }
  return list;
}

} // namespace moert
