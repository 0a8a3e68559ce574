//===- ListenSocket.h - Sockets that clients connect to ---------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_LISTENSOCKET_H
#define MOE_RUNTIME_SERVE_HTTP_LISTENSOCKET_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// A listening socket. The file of a unix socket that listenUnix() made is
/// removed with it, unless another server has replaced the file.
class ListenSocket {
public:
  ListenSocket(int fd, int family) : fd_(fd), family_(family) {}
  ListenSocket(ListenSocket &&other) noexcept;
  ListenSocket &operator=(ListenSocket &&other) = delete;
  ~ListenSocket();

  int family() const { return family_; }
  bool isUnix() const;
  /// The address in numbers, such as "127.0.0.1"; the path of a unix socket.
  const std::string &address() const { return address_; }
  uint16_t port() const { return port_; }
  /// Whether adoptSocket() made it: others keep it open when this closes.
  bool isAdopted() const { return isAdopted_; }
  /// Gives the descriptor away.
  int release();

private:
  friend StatusOr<std::vector<ListenSocket>> listenTcp(const std::string &,
                                                       uint16_t);
  friend StatusOr<ListenSocket> listenUnix(const std::string &);
  friend StatusOr<ListenSocket> adoptSocket(int);

  int fd_, family_;
  std::string address_;
  /// Path of a unix socket whose file is to be removed; or "".
  std::string path_;
  uint16_t port_ = 0;
  bool isAdopted_ = false;
  /// They identify the file of a unix socket.
  uint64_t device_ = 0, inode_ = 0;
};

/// Listens on every address that a host's name stands for, all with one port; 0
/// is any that is free. Fails with Usage for a name without addresses and with
/// Io, naming the address.
StatusOr<std::vector<ListenSocket>> listenTcp(const std::string &host,
                                              uint16_t port);

/// Listens on a unix socket that only this user can connect to. Replaces the
/// file of a server that is gone. Fails with Usage for a path that is too long
/// and with Io for one where another server listens or another file is.
StatusOr<ListenSocket> listenUnix(const std::string &path);

/// Takes over a socket that listens already; a unix socket's file stays. Fails
/// with Usage for a descriptor that is no such socket.
StatusOr<ListenSocket> adoptSocket(int fd);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_LISTENSOCKET_H
