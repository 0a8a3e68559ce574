#include "runtime/serve/http/ListenSocket.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace moert {

namespace {
/// Connections that may wait to be accepted.
constexpr int kBacklog = 1024;

Status ioError(std::string_view what, const std::string &where,
               std::string_view fix = "") {
  return Status(StatusCode::Io, fmt::format("cannot {} {}: {}{}", what, where,
                                            std::strerror(errno), fix));
}

std::string hostText(const addrinfo &info) {
  char text[NI_MAXHOST];
  if (getnameinfo(info.ai_addr, info.ai_addrlen, text, sizeof(text), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "?";
  return text;
}

void setPort(sockaddr *address, uint16_t port) {
  if (address->sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6 *>(address)->sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in *>(address)->sin_port = htons(port);
}

std::optional<uint16_t> portOf(int fd) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    return std::nullopt;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6 *>(&address)->sin6_port
                   : reinterpret_cast<sockaddr_in *>(&address)->sin_port);
}

void turnOn(int fd, int level, int option, int value = 1) {
  // An option that this system lacks is none that the server depends on.
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/// Returns an error if a file at a unix socket's path must stay; else removes
/// it.
Status removeStaleSocket(const std::string &path, const sockaddr_un &address) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0)
    return errno == ENOENT ? Status::ok() : ioError("listen on", path);
  if (!S_ISSOCK(info.st_mode))
    return Status(StatusCode::Io,
                  fmt::format("cannot listen on {}: a file is there that is no "
                              "socket; remove it or choose another path",
                              path));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return ioError("listen on", path);
  int result = connect(fd, reinterpret_cast<const sockaddr *>(&address),
                       sizeof(address));
  int error = errno;
  close(fd);
  if (result == 0 || error != ECONNREFUSED)
    return Status(StatusCode::Io,
                  fmt::format("cannot listen on {}: another server listens "
                              "there; stop it or choose another path",
                              path));
  if (unlink(path.c_str()) != 0)
    return ioError("replace the old socket", path);
  return Status::ok();
}
} // namespace

ListenSocket::ListenSocket(ListenSocket &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), family_(other.family_),
      address_(std::move(other.address_)),
      path_(std::exchange(other.path_, "")), port_(other.port_),
      isAdopted_(other.isAdopted_), device_(other.device_),
      inode_(other.inode_) {}

ListenSocket::~ListenSocket() {
  if (fd_ >= 0)
    close(fd_);
  struct stat info;
  if (!path_.empty() && lstat(path_.c_str(), &info) == 0 &&
      info.st_dev == device_ && info.st_ino == inode_)
    unlink(path_.c_str());
}

bool ListenSocket::isUnix() const { return family_ == AF_UNIX; }

int ListenSocket::release() { return std::exchange(fd_, -1); }

StatusOr<std::vector<ListenSocket>> listenTcp(const std::string &host,
                                              uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo *list = nullptr;
  if (int error = getaddrinfo(host.c_str(), nullptr, &hints, &list))
    return Status(StatusCode::Usage,
                  fmt::format("cannot find the address of --host {}: {}", host,
                              gai_strerror(error)));
  std::unique_ptr<addrinfo, void (*)(addrinfo *)> owner(list, freeaddrinfo);

  std::vector<ListenSocket> sockets;
  Status failure;
  for (const addrinfo *info = list; info; info = info->ai_next) {
    setPort(info->ai_addr, port);
    std::string address = hostText(*info);
    std::string where = fmt::format("{} port {}", address, port);
    ListenSocket listener(
        socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
        info->ai_family);
    if (listener.fd_ < 0) {
      failure = ioError("listen on", where);
      continue;
    }
    turnOn(listener.fd_, SOL_SOCKET, SO_REUSEADDR);
    if (info->ai_family == AF_INET6)
      turnOn(listener.fd_, IPPROTO_IPV6, IPV6_V6ONLY, address != "::");
    if (bind(listener.fd_, info->ai_addr, info->ai_addrlen) != 0 ||
        listen(listener.fd_, kBacklog) != 0) {
      // An address family that the machine lacks leaves the others.
      bool isAbsent = errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;
      failure = ioError("listen on", where,
                        errno == EADDRINUSE ? "; choose another --port" : "");
      if (isAbsent)
        continue;
      return failure;
    }
    std::optional<uint16_t> bound = portOf(listener.fd_);
    if (!bound)
      return ioError("listen on", where);
    port = *bound;
    listener.port_ = port;
    listener.address_ = address;
    sockets.push_back(std::move(listener));
  }
  if (sockets.empty())
    return failure;
  return sockets;
}

StatusOr<ListenSocket> listenUnix(const std::string &path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return Status(StatusCode::Usage,
                  fmt::format("the unix socket's path {} has {} bytes; at most "
                              "{} are possible",
                              path, path.size(), sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  MOE_RETURN_IF_ERROR(removeStaleSocket(path, address));
  ListenSocket listener(
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), AF_UNIX);
  if (listener.fd_ < 0 ||
      bind(listener.fd_, reinterpret_cast<const sockaddr *>(&address),
           sizeof(address)) != 0)
    return ioError("listen on", path);
  listener.address_ = listener.path_ = path;
  struct stat info;
  if (lstat(path.c_str(), &info) != 0)
    return ioError("listen on", path);
  listener.device_ = info.st_dev;
  listener.inode_ = info.st_ino;
  // Nobody can connect before listen().
  if (chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 ||
      listen(listener.fd_, kBacklog) != 0)
    return ioError("listen on", path);
  return listener;
}

StatusOr<ListenSocket> adoptSocket(int fd) {
  auto option = [&](int name) {
    int value = -1;
    socklen_t bytes = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
  };
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  int family = option(SO_DOMAIN);
  bool isKnown = family == AF_INET || family == AF_INET6 || family == AF_UNIX;
  if (!isKnown || option(SO_TYPE) != SOCK_STREAM ||
      option(SO_ACCEPTCONN) != 1 ||
      getsockname(fd, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    return Status(StatusCode::Usage,
                  fmt::format("descriptor {}, which $LISTEN_FDS hands over, is "
                              "no listening stream socket: the socket's unit "
                              "needs ListenStream= and Accept=no",
                              fd));
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  ListenSocket listener(fd, family);
  listener.isAdopted_ = true;
  if (family == AF_UNIX) {
    constexpr size_t head = offsetof(sockaddr_un, sun_path);
    const char *path = reinterpret_cast<sockaddr_un *>(&address)->sun_path;
    listener.address_.assign(path, bytes > head ? bytes - head : 0);
    // A path ends with a zero; an abstract name begins with one.
    if (!listener.address_.empty() && listener.address_[0] == '\0')
      listener.address_[0] = '@';
    listener.address_ = listener.address_.c_str();
    return listener;
  }
  addrinfo info = {};
  info.ai_addr = reinterpret_cast<sockaddr *>(&address);
  info.ai_addrlen = bytes;
  listener.address_ = hostText(info);
  listener.port_ = portOf(fd).value_or(0);
  return listener;
}

} // namespace moert
