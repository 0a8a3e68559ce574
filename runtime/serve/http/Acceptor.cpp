#include "runtime/serve/http/Acceptor.h"

#include "runtime/serve/http/Connection.h"

#include <arpa/inet.h>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace moert {

namespace {
namespace asio = boost::asio;

/// How long to accept nothing when descriptors or memory are used up.
constexpr std::chrono::milliseconds kPause{100};
/// A client that is silent for so many seconds is asked whether it is there; it
/// may miss kProbes such questions, kProbeSeconds apart.
constexpr int kSilentSeconds = 30, kProbeSeconds = 10, kProbes = 3;

void set(int fd, int level, int option, int value) {
  // A connection works without them too.
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void tuneTcp(int fd, const HttpLimits &limits) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kSilentSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  // A client that vanished takes nothing.
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, int(limits.writeTime.count()));
}

struct PeerAddress {
  std::string name;  ///< "127.0.0.1:40312"
  std::string group; ///< Group whose connections are counted together.
};

PeerAddress peerAddress(int fd) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  char text[INET6_ADDRSTRLEN] = "?";
  if (getpeername(fd, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
    return {"?", "?"};
  if (address.ss_family == AF_INET) {
    auto *v4 = reinterpret_cast<sockaddr_in *>(&address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return {fmt::format("{}:{}", text, ntohs(v4->sin_port)), text};
  }
  auto *v6 = reinterpret_cast<sockaddr_in6 *>(&address);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, text, sizeof(text));
    return {fmt::format("{}:{}", text, ntohs(v6->sin6_port)), text};
  }
  inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  std::string name = fmt::format("[{}]:{}", text, ntohs(v6->sin6_port));
  // One customer of a provider has at least a /64 network.
  constexpr size_t kNetworkBytes = 8;
  std::memset(v6->sin6_addr.s6_addr + kNetworkBytes, 0, kNetworkBytes);
  inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  return {std::move(name), text};
}
} // namespace

Acceptor::Acceptor(asio::io_context &context, std::shared_ptr<ServerCore> core,
                   ListenSocket socket)
    : context_(context), core_(std::move(core)), file_(std::move(socket)),
      acceptor_(asio::make_strand(context)), pause_(acceptor_.get_executor()) {
  ErrorCode ignored; // No error is possible for a listening socket.
  acceptor_.assign({file_.family(), 0}, file_.release(), ignored);
}

void Acceptor::start() {
  asio::post(acceptor_.get_executor(),
             [self = shared_from_this()] { self->accept(); });
}

std::future<void> Acceptor::close() {
  auto closed = std::make_shared<std::promise<void>>();
  asio::post(acceptor_.get_executor(), [self = shared_from_this(), closed] {
    self->acceptWaiting();
    ErrorCode ignored;
    self->acceptor_.close(ignored);
    self->pause_.cancel();
    closed->set_value();
  });
  return closed->get_future();
}

void Acceptor::accept() {
  if (!acceptor_.is_open())
    return;
  acceptor_.async_accept(
      asio::make_strand(context_),
      [self = shared_from_this()](ErrorCode error, auto socket) {
        if (!error) {
          self->onAccepted(std::move(socket));
          return self->accept();
        }
        if (!self->acceptor_.is_open())
          return;
        self->pause_.expires_after(kPause);
        self->pause_.async_wait([self](ErrorCode) { self->accept(); });
      });
}

/// Accepts the clients whose connections the system has established already:
/// closing the listening socket resets these, without an answer. Of a socket
/// that was handed over, the next process serves them.
void Acceptor::acceptWaiting() {
  if (file_.isAdopted())
    return;
  ErrorCode error;
  acceptor_.non_blocking(true, error);
  // Clients that keep connecting must not keep the socket open.
  for (int i = 0; i < SOMAXCONN && !error; ++i) {
    StreamSocket socket = acceptor_.accept(asio::make_strand(context_), error);
    if (!error)
      onAccepted(std::move(socket));
  }
}

void Acceptor::onAccepted(StreamSocket socket) {
  try {
    serve(std::move(socket));
  } catch (const std::exception &) {
    // There was no memory for this connection; it is closed.
  }
}

void Acceptor::serve(StreamSocket socket) {
  bool isUnix = file_.isUnix();
  PeerAddress peer{"unix", ""};
  if (!isUnix) {
    peer = peerAddress(socket.native_handle());
    tuneTcp(socket.native_handle(), core_->settings().limits);
  }
  std::shared_ptr<ssl_ctx_st> tls = isUnix ? nullptr : core_->tls();
  auto transport = tls ? makeTlsTransport(std::move(socket), tls)
                       : makePlainTransport(std::move(socket));
  auto connection = std::make_shared<Connection>(
      core_, std::move(transport),
      Connection::Peer{peer.name, peer.group, isUnix});
  ServerCore::Place place = core_->add(connection, peer.group);
  if (place == ServerCore::Place::Dropped)
    return;
  asio::post(connection->socket().get_executor(), [connection, place, tls] {
    if (place == ServerCore::Place::Served)
      connection->start();
    else if (tls) // With TLS, an error could only follow a handshake.
      connection->cut();
    else
      connection->refuse();
  });
}

} // namespace moert
