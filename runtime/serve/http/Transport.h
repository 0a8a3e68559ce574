//===- Transport.h - A connection's bytes, with and without TLS -*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_TRANSPORT_H
#define MOE_RUNTIME_SERVE_HTTP_TRANSPORT_H

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

struct ssl_ctx_st;

namespace moert {

using ErrorCode = boost::system::error_code;
using StreamSocket = boost::asio::generic::stream_protocol::socket;

/// Operations of a stream; each ends on the socket's executor. At most one read
/// and one write run at a time.
class Transport {
public:
  using Done = std::function<void(ErrorCode, size_t)>;

  virtual ~Transport() = default;
  virtual void handshake(std::function<void(ErrorCode)> done) = 0;
  /// Reads at least one byte.
  virtual void read(boost::asio::mutable_buffer buffer, Done done) = 0;
  /// Writes at least one byte.
  virtual void write(const std::vector<boost::asio::const_buffer> &buffers,
                     Done done) = 0;
  /// Tells the client that no more bytes come. Reading goes on.
  virtual void endWriting(std::function<void()> done) = 0;
  virtual StreamSocket &socket() = 0;
};

std::unique_ptr<Transport> makePlainTransport(StreamSocket socket);

/// Speaks TLS as a server. `context` is kept while the transport lives.
std::unique_ptr<Transport>
makeTlsTransport(StreamSocket socket, std::shared_ptr<ssl_ctx_st> context);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_TRANSPORT_H
