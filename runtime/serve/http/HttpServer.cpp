#include "runtime/serve/http/HttpServer.h"

#include "runtime/serve/http/Acceptor.h"
#include "runtime/serve/http/Connection.h"
#include "runtime/serve/http/Security.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <future>
#include <system_error>
#include <thread>

namespace moert {

namespace {
namespace asio = boost::asio;

/// Closing a socket takes no time; the limit is for a very busy machine.
constexpr std::chrono::seconds kCloseTime{10};

Status usage(std::string message) {
  return Status(StatusCode::Usage, std::move(message));
}

Status checkSettings(const HttpSettings &settings) {
  if (settings.inheritedSockets.empty() && settings.host.empty() &&
      settings.unixSocket.empty())
    return usage("there is nothing to listen on; give --host or --unix-socket");
  if (settings.certificateFile.empty() != settings.certificateKeyFile.empty())
    return usage(
        "TLS needs both a certificate and its key; give --tls-cert and "
        "--tls-key");
  if (settings.threads < 1)
    return usage("an HTTP server needs a thread");
  return Status::ok();
}

/// Without keys, everybody who reaches the server may use it.
Status checkReach(const HttpSettings &settings,
                  const std::vector<ListenSocket> &sockets) {
  if (settings.asksForKeys() || settings.insecure)
    return Status::ok();
  for (const ListenSocket &socket : sockets)
    if (!socket.isUnix() && !isLoopbackHost(socket.address()))
      return usage(fmt::format(
          "without keys, everybody on the network could use a server on {}; "
          "give --api-key-file or --api-key, or --insecure if that is meant",
          socket.address()));
  return Status::ok();
}

std::string shownAddress(const ListenSocket &socket, bool isTls) {
  if (socket.isUnix())
    return "unix:" + socket.address();
  bool isV6 = socket.address().find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", isTls ? "https" : "http",
                     isV6 ? "[" : "", socket.address(), isV6 ? "]" : "",
                     socket.port());
}
} // namespace

class HttpServer::Impl {
public:
  Impl(HttpSettings settings, HttpHandler handler)
      : context_(std::max(settings.threads, 1)),
        core_(std::make_shared<ServerCore>(std::move(settings),
                                           std::move(handler))) {}
  ~Impl() { stop(std::chrono::milliseconds(0)); }

  StatusOr<std::vector<ListenSocket>> listen();
  Status start();
  void stop(std::chrono::milliseconds grace);

  ServerCore &core() { return *core_; }
  uint16_t port() const { return port_; }
  const std::vector<std::string> &addresses() const { return addresses_; }

private:
  /// Handles events until the context is stopped.
  void run();

  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{
      context_.get_executor()};
  std::shared_ptr<ServerCore> core_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  std::vector<std::thread> threads_;
  std::mutex stopping_;
  uint16_t port_ = 0;
  std::vector<std::string> addresses_;
};

/// Reads the files and opens the sockets, of which unix sockets come last.
StatusOr<std::vector<ListenSocket>> HttpServer::Impl::listen() {
  const HttpSettings &settings = core_->settings();
  MOE_RETURN_IF_ERROR(checkSettings(settings));
  MOE_RETURN_IF_ERROR(core_->readFiles());
  std::vector<ListenSocket> sockets;
  bool isActivated = !settings.inheritedSockets.empty();
  for (int fd : settings.inheritedSockets) {
    MOE_ASSIGN_OR_RETURN(ListenSocket socket, adoptSocket(fd));
    sockets.push_back(std::move(socket));
  }
  if (!isActivated && !settings.host.empty()) {
    MOE_ASSIGN_OR_RETURN(sockets, listenTcp(settings.host, settings.port));
  }
  MOE_RETURN_IF_ERROR(checkReach(settings, sockets));
  if (!isActivated && !settings.unixSocket.empty()) {
    MOE_ASSIGN_OR_RETURN(ListenSocket socket, listenUnix(settings.unixSocket));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

Status HttpServer::Impl::start() {
  const HttpSettings &settings = core_->settings();
  MOE_ASSIGN_OR_RETURN(std::vector<ListenSocket> sockets, listen());
  if (!sockets.empty())
    port_ = sockets.front().port();
  for (ListenSocket &socket : sockets) {
    if (!socket.isUnix())
      core_->addBoundAddress(socket.address());
    addresses_.push_back(
        shownAddress(socket, !settings.certificateFile.empty()));
    acceptors_.push_back(
        std::make_shared<Acceptor>(context_, core_, std::move(socket)));
  }
  for (const auto &acceptor : acceptors_)
    acceptor->start();
  try {
    for (int i = 0; i < settings.threads; ++i)
      threads_.emplace_back([this] { run(); });
  } catch (const std::system_error &error) {
    return Status(StatusCode::Io, fmt::format("cannot start a thread of the "
                                              "HTTP server: {}",
                                              error.what()));
  }
  return Status::ok();
}

void HttpServer::Impl::run() {
  while (true) {
    try {
      context_.run();
      return;
    } catch (const std::exception &) {
      // No memory for one connection, which goes with what it held; the others
      // go on.
    }
  }
}

void HttpServer::Impl::stop(std::chrono::milliseconds grace) {
  std::lock_guard lock(stopping_);
  std::vector<std::future<void>> closed;
  for (const auto &acceptor : acceptors_)
    closed.push_back(acceptor->close());
  if (!threads_.empty())
    for (std::future<void> &acceptor : closed)
      acceptor.wait();
  // Connections end from here on. A client that sees the end of one must not
  // reach this server by another, so the acceptors are closed before.
  core_->isDraining = true;
  auto toAll = [&](void (Connection::*action)()) {
    for (const auto &connection : core_->connections())
      asio::post(connection->socket().get_executor(),
                 [connection, action] { (connection.get()->*action)(); });
  };
  if (!threads_.empty()) {
    toAll(&Connection::drain);
    if (!core_->waitUntilEmpty(grace)) {
      toAll(&Connection::cut);
      core_->waitUntilEmpty(kCloseTime);
    }
  }
  core_->stopWork();
  work_.reset();
  context_.stop();
  for (std::thread &thread : threads_)
    thread.join();
  threads_.clear();
  acceptors_.clear();
  // Pending handlers still hold acceptors, and so the file of a unix socket.
  context_.restart();
  try {
    context_.poll();
  } catch (const std::exception &) {
    // Exceptions are ignored as in run(); handlers that are left end with the
    // context.
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

StatusOr<std::unique_ptr<HttpServer>> HttpServer::create(HttpSettings settings,
                                                         HttpHandler handler) {
  auto impl = std::make_unique<Impl>(std::move(settings), std::move(handler));
  MOE_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

Status HttpServer::check(HttpSettings settings) {
  // Sockets of a service manager are for the server itself.
  if (!settings.inheritedSockets.empty())
    return checkSettings(settings);
  // A stream can be read only once.
  auto isStream = [](const std::string &path) {
    std::error_code error;
    return std::filesystem::exists(path, error) &&
           !std::filesystem::is_regular_file(path, error);
  };
  if (isStream(settings.apiKeyFile)) {
    settings.apiKeyFile.clear();
    // Keys in a stream are not read yet and must not be missed here.
    settings.insecure = true;
  }
  if (isStream(settings.certificateFile) ||
      isStream(settings.certificateKeyFile))
    settings.certificateFile = settings.certificateKeyFile = "";
  return Impl(std::move(settings), {}).listen().status();
}

uint16_t HttpServer::port() const { return impl_->port(); }

const std::vector<std::string> &HttpServer::addresses() const {
  return impl_->addresses();
}

std::vector<std::string> HttpServer::warnings() const {
  return impl_->core().warnings();
}

HttpCounts HttpServer::counts() const { return impl_->core().counts(); }

Status HttpServer::reload() { return impl_->core().readFiles(); }

void HttpServer::stop(std::chrono::milliseconds grace) { impl_->stop(grace); }

} // namespace moert
