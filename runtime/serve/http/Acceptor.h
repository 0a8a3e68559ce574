//===- Acceptor.h - Takes connections of one listening socket ---*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_ACCEPTOR_H
#define MOE_RUNTIME_SERVE_HTTP_ACCEPTOR_H

#include "runtime/serve/http/ListenSocket.h"
#include "runtime/serve/http/ServerCore.h"
#include "runtime/serve/http/Transport.h"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <memory>

namespace moert {

/// Accepts until it is closed. It lives while it accepts.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
public:
  Acceptor(boost::asio::io_context &context, std::shared_ptr<ServerCore> core,
           ListenSocket socket);

  void start();
  /// Accepts the clients that wait, then closes the listening socket. The
  /// result is ready when it is closed. Any thread.
  std::future<void> close();

private:
  void accept();
  void acceptWaiting();
  void onAccepted(StreamSocket socket);
  void serve(StreamSocket socket);

  boost::asio::io_context &context_;
  const std::shared_ptr<ServerCore> core_;
  ListenSocket file_; ///< Owns the file of a unix socket, but no descriptor.
  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>
      acceptor_;
  boost::asio::steady_timer pause_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_ACCEPTOR_H
