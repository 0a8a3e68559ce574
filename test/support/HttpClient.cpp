#include "test/support/HttpClient.h"

#include <arpa/inet.h>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace moetest {

namespace {
constexpr int kMostWaitSeconds = 20;

[[noreturn]] void fail(const std::string &what) {
  throw std::runtime_error("HTTP client: " + what + ": " +
                           std::strerror(errno));
}

std::string lower(std::string text) {
  for (char &c : text)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}
} // namespace

struct HttpClient::Tls {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX *)> context{
      SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::unique_ptr<SSL, void (*)(SSL *)> session{nullptr, SSL_free};
};

std::string HttpResponse::header(const std::string &name) const {
  auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpClient::HttpClient(int fd, const HttpClientOptions &options) : fd_(fd) {
  timeval wait = {kMostWaitSeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
  if (!options.isTls)
    return;
  tls_ = std::make_unique<Tls>();
  if (!options.certificateFile.empty()) {
    SSL_CTX_load_verify_locations(tls_->context.get(),
                                  options.certificateFile.c_str(), nullptr);
    SSL_CTX_set_verify(tls_->context.get(), SSL_VERIFY_PEER, nullptr);
  }
  tls_->session.reset(SSL_new(tls_->context.get()));
  SSL_set_fd(tls_->session.get(), fd);
  if (SSL_connect(tls_->session.get()) != 1)
    throw std::runtime_error("HTTP client: the TLS handshake failed");
}

HttpClient HttpClient::tcp(uint16_t port, const HttpClientOptions &options,
                           const std::string &address) {
  sockaddr_storage storage = {};
  socklen_t size;
  if (auto *v6 = reinterpret_cast<sockaddr_in6 *>(&storage);
      inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    size = sizeof(*v6);
  } else {
    auto *v4 = reinterpret_cast<sockaddr_in *>(&storage);
    storage = {};
    inet_pton(AF_INET, address.c_str(), &v4->sin_addr);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    size = sizeof(*v4);
  }
  int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (options.receiveBuffer)
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &options.receiveBuffer,
               sizeof(options.receiveBuffer));
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (connect(fd, reinterpret_cast<sockaddr *>(&storage), size) != 0) {
    ::close(fd);
    fail("cannot connect to port " + std::to_string(port));
  }
  return HttpClient(fd, options);
}

HttpClient HttpClient::unixSocket(const std::string &path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address))) {
    ::close(fd);
    fail("cannot connect to " + path);
  }
  return HttpClient(fd, {});
}

HttpClient::HttpClient(HttpClient &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), tls_(std::move(other.tls_)),
      input_(std::move(other.input_)) {}

HttpClient &HttpClient::operator=(HttpClient &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(tls_, other.tls_);
  std::swap(input_, other.input_);
  return *this;
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close(bool reset) {
  if (fd_ < 0)
    return;
  if (reset) {
    linger now = {1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  } else if (tls_ && tls_->session) {
    SSL_shutdown(tls_->session.get());
  }
  ::close(std::exchange(fd_, -1));
}

void HttpClient::endWriting() {
  if (tls_)
    SSL_shutdown(tls_->session.get());
  else
    shutdown(fd_, SHUT_WR);
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t sent =
        tls_ ? SSL_write(tls_->session.get(), bytes.data(), int(bytes.size()))
             : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    bytes.remove_prefix(size_t(sent));
  }
  return true;
}

bool HttpClient::fill() {
  char buffer[16384];
  ssize_t got = tls_ ? SSL_read(tls_->session.get(), buffer, sizeof(buffer))
                     : recv(fd_, buffer, sizeof(buffer), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    fail("nothing came");
  if (got <= 0)
    return false;
  input_.append(buffer, size_t(got));
  return true;
}

std::optional<std::string> HttpClient::line() {
  size_t end;
  while ((end = input_.find("\r\n")) == std::string::npos)
    if (!fill())
      return std::nullopt;
  std::string text = input_.substr(0, end);
  input_.erase(0, end + 2);
  return text;
}

std::string HttpClient::bytes(size_t count) {
  while (input_.size() < count && fill()) {
  }
  std::string result = input_.substr(0, count);
  input_.erase(0, result.size());
  return result;
}

std::string HttpClient::receiveToEnd() {
  while (fill()) {
  }
  return std::exchange(input_, "");
}

HttpResponse HttpClient::receiveHead() {
  HttpResponse response;
  std::optional<std::string> text = line();
  if (!text || text->size() < 12 || text->compare(0, 7, "HTTP/1.") != 0)
    return response;
  int status = std::stoi(text->substr(9, 3));
  while ((text = line())) {
    if (text->empty()) {
      response.status = status;
      return response;
    }
    size_t colon = text->find(':');
    if (colon == std::string::npos)
      return {};
    size_t value = text->find_first_not_of(' ', colon + 1);
    response.headers[lower(text->substr(0, colon))] =
        value == std::string::npos ? "" : text->substr(value);
  }
  return {};
}

std::optional<std::string> HttpClient::nextChunk(bool *isComplete) {
  if (isComplete)
    *isComplete = false;
  std::optional<std::string> size = line();
  if (!size || size->empty() || !std::isxdigit(size->front()))
    return std::nullopt;
  size_t count = std::stoul(*size, nullptr, 16);
  std::string chunk = bytes(count);
  std::optional<std::string> end = line();
  bool isWhole = end && end->empty() && chunk.size() == count;
  if (count == 0 || !isWhole) {
    if (isComplete)
      *isComplete = isWhole;
    return std::nullopt;
  }
  return chunk;
}

HttpResponse HttpClient::receive(bool isHead) {
  HttpResponse response = receiveHead();
  while (response.status >= 100 && response.status < 200)
    response = receiveHead();
  if (response.status == 0)
    return response;
  if (isHead || response.status == 204 || response.status == 304) {
    response.isComplete = true;
  } else if (response.header("transfer-encoding") == "chunked") {
    while (auto chunk = nextChunk(&response.isComplete)) {
      response.body += *chunk;
      response.chunks.push_back(std::move(*chunk));
    }
  } else if (response.headers.count("content-length")) {
    size_t count = std::stoul(response.header("content-length"));
    response.body = bytes(count);
    response.isComplete = response.body.size() == count;
  } else {
    response.body = receiveToEnd();
  }
  return response;
}

std::string HttpClient::requestText(std::string_view method,
                                    std::string_view target,
                                    std::string_view body,
                                    const HttpFields &headers) {
  std::string text(method);
  text += ' ';
  text += target;
  text += " HTTP/1.1\r\n";
  bool hasHost = false;
  for (const auto &[name, value] : headers) {
    hasHost = hasHost || lower(name) == "host";
    text += name + ": " + value + "\r\n";
  }
  if (!hasHost)
    text += "Host: localhost\r\n";
  if (!body.empty() || method == "POST")
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text += "\r\n";
  text += body;
  return text;
}

HttpResponse HttpClient::request(std::string_view method,
                                 std::string_view target, std::string_view body,
                                 const HttpFields &headers) {
  send(requestText(method, target, body, headers));
  return receive(method == "HEAD");
}

} // namespace moetest
