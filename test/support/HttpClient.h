//===- HttpClient.h - A client of HTTP servers for tests --------*- C++ -*-===//
//
// Speaks HTTP/1.1 over a blocking socket, so that a test decides which bytes
// are sent when, and sees chunks as they arrive:
//
//   moetest::HttpClient client = moetest::HttpClient::tcp(server->port());
//   moetest::HttpResponse response = client.request("GET", "/v1/models");
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_HTTPCLIENT_H
#define MOE_TEST_SUPPORT_HTTPCLIENT_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moetest {

struct HttpResponse {
  int status = 0; ///< 0: the connection ended before a whole head.
  std::map<std::string, std::string> headers; ///< Names in lower case.
  std::string body;
  std::vector<std::string> chunks; ///< Chunks of a chunked body.
  /// Whether all of the body came, and not only what the connection's end left.
  bool isComplete = false;

  /// A header's value, or "".
  std::string header(const std::string &name) const;
};

using HttpFields = std::vector<std::pair<std::string, std::string>>;

struct HttpClientOptions {
  /// Bytes that the system keeps for a client that does not read; 0: its
  /// usual ones.
  int receiveBuffer = 0;
  bool isTls = false;
  /// With TLS: the certificate that the server must have; "": any.
  std::string certificateFile = {};
};

/// Throws std::runtime_error if it cannot connect or nothing comes for 20 s.
class HttpClient {
public:
  static HttpClient tcp(uint16_t port, const HttpClientOptions &options = {},
                        const std::string &address = "127.0.0.1");
  static HttpClient unixSocket(const std::string &path);

  HttpClient(HttpClient &&other) noexcept;
  HttpClient &operator=(HttpClient &&other) noexcept;
  ~HttpClient();

  /// Sends a request with Host and, for a body, Content-Length, and receives
  /// the whole response.
  HttpResponse request(std::string_view method, std::string_view target,
                       std::string_view body = "",
                       const HttpFields &headers = {});
  /// The bytes that request() sends.
  static std::string requestText(std::string_view method,
                                 std::string_view target,
                                 std::string_view body = "",
                                 const HttpFields &headers = {});

  /// Sends bytes as they are. Returns false if the server has closed the
  /// connection.
  bool send(std::string_view bytes);
  /// Receives a response; interim ones (1xx) are skipped. `isHead`: to a HEAD
  /// request, which has no body.
  HttpResponse receive(bool isHead = false);
  /// Receives a response's head alone, an interim one too. nextChunk() gives
  /// the body then.
  HttpResponse receiveHead();
  /// Returns the next chunk of a chunked body; nothing at its end.
  /// `isComplete`, if given, says whether the end was the body's.
  std::optional<std::string> nextChunk(bool *isComplete = nullptr);
  /// Waits for the connection's end. Returns the bytes before it.
  std::string receiveToEnd();

  /// Sends no more, but goes on to receive.
  void endWriting();
  /// Closes; `reset`: so that the server's system is told at once.
  void close(bool reset = false);

private:
  struct Tls;
  HttpClient(int fd, const HttpClientOptions &options);
  /// Receives more bytes. Returns false at the end.
  bool fill();
  std::optional<std::string> line();
  /// Returns so many bytes, or fewer at the end.
  std::string bytes(size_t count);

  int fd_ = -1;
  std::unique_ptr<Tls> tls_;
  std::string input_;
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_HTTPCLIENT_H
