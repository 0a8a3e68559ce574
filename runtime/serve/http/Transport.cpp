#include "runtime/serve/http/Transport.h"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <utility>

namespace moert {

namespace {
namespace asio = boost::asio;

class PlainTransport final : public Transport {
public:
  explicit PlainTransport(StreamSocket socket) : socket_(std::move(socket)) {}

  void handshake(std::function<void(ErrorCode)> done) override {
    asio::post(socket_.get_executor(),
               [done = std::move(done)] { done(ErrorCode()); });
  }
  void read(asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(buffer, std::move(done));
  }
  void write(const std::vector<asio::const_buffer> &buffers,
             Done done) override {
    socket_.async_write_some(buffers, std::move(done));
  }
  void endWriting(std::function<void()> done) override {
    ErrorCode ignored;
    socket_.shutdown(StreamSocket::shutdown_send, ignored);
    asio::post(socket_.get_executor(), std::move(done));
  }
  StreamSocket &socket() override { return socket_; }

private:
  StreamSocket socket_;
};

class TlsTransport final : public Transport {
public:
  TlsTransport(StreamSocket socket, std::shared_ptr<SSL_CTX> context)
      : context_(share(context)), stream_(std::move(socket), context_) {}

  void handshake(std::function<void(ErrorCode)> done) override {
    stream_.async_handshake(asio::ssl::stream_base::server, std::move(done));
  }
  void read(asio::mutable_buffer buffer, Done done) override {
    stream_.async_read_some(buffer, std::move(done));
  }
  void write(const std::vector<asio::const_buffer> &buffers,
             Done done) override {
    stream_.async_write_some(buffers, std::move(done));
  }
  void endWriting(std::function<void()> done) override {
    // Ends when the client has said the same, or the socket is closed.
    stream_.async_shutdown(
        [done = std::move(done)](const ErrorCode &) { done(); });
  }
  StreamSocket &socket() override { return stream_.next_layer(); }

private:
  /// A context of Asio owns what it is given.
  static asio::ssl::context share(const std::shared_ptr<SSL_CTX> &context) {
    SSL_CTX_up_ref(context.get());
    return asio::ssl::context(context.get());
  }

  asio::ssl::context context_;
  asio::ssl::stream<StreamSocket> stream_;
};
} // namespace

std::unique_ptr<Transport> makePlainTransport(StreamSocket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

std::unique_ptr<Transport> makeTlsTransport(StreamSocket socket,
                                            std::shared_ptr<SSL_CTX> context) {
  return std::make_unique<TlsTransport>(std::move(socket), std::move(context));
}

} // namespace moert
