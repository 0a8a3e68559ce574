// Requests and their answers, over TCP and unix sockets.

#include "HttpTestServer.h"
#include "runtime/serve/http/ListenSocket.h"
#include "test/support/TempDir.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

using moert::HttpServer;
using moert::HttpSettings;
using moert::StatusCode;
using moetest::HttpClient;
using moetest::HttpResponse;
using moetest::TestServer;

namespace {

TEST(HttpServerTest, AnswersARequestOfEachMethod) {
  TestServer server;
  HttpClient client = server.client();
  for (std::string method : {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
    HttpResponse response = client.request(method, "/v1/x%20y?a=b", "body");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, method + " /v1/x y body");
    EXPECT_EQ(response.header("content-type"), "text/plain");
    EXPECT_EQ(response.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(response.header("cache-control"), "no-store");
    EXPECT_EQ(response.header("date").substr(25), " GMT");
  }
}

TEST(HttpServerTest, CountsAreMetrics) {
  TestServer server;
  HttpClient client = server.client();
  client.request("GET", "/x");
  client.request("GET", "/y");
  const std::string text = metricsText(server->counts());
  for (const char *part : {"# TYPE moert_http_connections_open gauge\n"
                           "moert_http_connections_open 1\n",
                           "# TYPE moert_http_requests_total counter\n"
                           "moert_http_requests_total 2\n",
                           "moert_http_connections_total 1\n",
                           "moert_http_connections_refused_total 0\n",
                           "moert_http_requests_refused_total 0\n",
                           "moert_http_answers_cut_total 0\n",
                           "moert_http_body_bytes_pending 0\n"})
    EXPECT_NE(text.find(part), text.npos) << part << "is not in\n" << text;
}

TEST(HttpServerTest, HandsOverWhatTheClientSent) {
  moert::HttpRequest seen;
  TestServer server({}, [&](moert::HttpRequest request, auto answer) {
    seen = std::move(request);
    answer->send(200, "text/plain", "");
  });
  HttpClient client = server.client();
  client.request("GET", "/a%2Fb?x=1+2&y=%C3%A9&flag", "",
                 {{"X-Thing", "one"}, {"x-thing", "two"}});
  EXPECT_EQ(seen.path, "/a/b");
  EXPECT_EQ(seen.query, (std::map<std::string, std::string>{
                            {"x", "1 2"}, {"y", "\xC3\xA9"}, {"flag", ""}}));
  EXPECT_EQ(seen.headers["x-thing"], "one, two");
  EXPECT_EQ(seen.client, "");
}

TEST(HttpServerTest, HeadIsGetWithoutTheBody) {
  TestServer server;
  HttpClient client = server.client();
  HttpResponse response = client.request("HEAD", "/x");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("content-length"), "7"); // The length of "GET /x ".
  EXPECT_EQ(client.request("GET", "/y").body, "GET /y ");
}

TEST(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server;
  HttpClient client = server.client();
  std::string requests;
  for (int i = 0; i < 50; ++i)
    requests += HttpClient::requestText("POST", fmt::format("/{}", i),
                                        fmt::format("body{}", i));
  ASSERT_TRUE(client.send(requests));
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(client.receive().body, fmt::format("POST /{} body{}", i, i));
}

TEST(HttpServerTest, APipelinedRequestWaitsForTheAnswerBeforeIt) {
  TestServer server;
  HttpClient client = server.client();
  client.send(HttpClient::requestText("GET", "/hold") +
              HttpClient::requestText("GET", "/next"));
  auto answer = server.held();
  EXPECT_EQ(server->counts().requests, 1u);
  answer->send(200, "text/plain", "first");
  EXPECT_EQ(client.receive().body, "first");
  EXPECT_EQ(client.receive().body, "GET /next ");
}

TEST(HttpServerTest, ABodyMayComeInChunks) {
  TestServer server;
  HttpClient client = server.client();
  client.send("POST /x HTTP/1.1\r\nHost: localhost\r\n"
              "Transfer-Encoding: chunked\r\n\r\n3\r\nab");
  client.send("c\r\n4;name=value\r\ndefg\r\n0\r\nTrailer: 1\r\n\r\n");
  EXPECT_EQ(client.receive().body, "POST /x abcdefg");
  EXPECT_EQ(client.request("GET", "/y").body, "GET /y ");
}

TEST(HttpServerTest, ARequestMayComeByteByByte) {
  TestServer server;
  HttpClient client = server.client();
  for (char c : HttpClient::requestText("POST", "/x", "abc"))
    ASSERT_TRUE(client.send({&c, 1}));
  EXPECT_EQ(client.receive().body, "POST /x abc");
}

TEST(HttpServerTest, ALargeBodyArrivesWhole) {
  TestServer server({}, [](moert::HttpRequest request, auto answer) {
    answer->send(200, "text/plain", std::move(request.body));
  });
  std::string body(5'000'000, 'x');
  for (size_t i = 0; i < body.size(); i += 7)
    body[i] = char('a' + i % 26);
  HttpClient client = server.client();
  // The whole of it is received before the answer begins.
  EXPECT_TRUE(client.request("POST", "/", body).body == body);
}

TEST(HttpServerTest, ABodyIsAskedForWhereTheClientExpectsThat) {
  TestServer server;
  HttpClient client = server.client();
  client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
              "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receiveHead().status, 100);
  client.send("abc");
  EXPECT_EQ(client.receive().body, "POST /x abc");

  client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
              "Expect: miracles\r\n\r\n");
  EXPECT_EQ(client.receive().status, 417);
}

TEST(HttpServerTest, ConnectionCloseEndsTheConnection) {
  TestServer server;
  HttpClient client = server.client();
  HttpResponse response =
      client.request("GET", "/x", "", {{"Connection", "close"}});
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(client.receiveToEnd(), "");
}

TEST(HttpServerTest, SpeaksHttp10) {
  TestServer server;
  HttpClient client = server.client();
  client.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  HttpResponse response = client.receive();
  EXPECT_EQ(response.body, "GET /x ");
  EXPECT_EQ(response.header("connection"), "keep-alive");
  client.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto answer = server.held();
  answer->begin(200, "text/plain");
  answer->write("one ");
  answer->write("two");
  answer->end();
  response = client.receive();
  EXPECT_EQ(response.header("transfer-encoding"), "");
  EXPECT_EQ(response.body, "one two");
}

TEST(HttpServerTest, AnEmptyLineBeforeARequestDoesNotCount) {
  TestServer server;
  HttpClient client = server.client();
  client.send("\r\n\r\n" + HttpClient::requestText("GET", "/x"));
  EXPECT_EQ(client.receive().body, "GET /x ");
}

TEST(HttpServerTest, AHandlerThatThrowsOrForgetsIsAnError) {
  TestServer server({}, [](moert::HttpRequest request, auto answer) {
    if (request.path == "/throw")
      throw std::runtime_error("unexpected");
  });
  HttpClient client = server.client();
  for (const char *path : {"/throw", "/forget"}) {
    HttpResponse response = client.request("GET", path);
    EXPECT_EQ(response.status, 500);
    EXPECT_NE(response.body.find("\"error\":{\"message\":"), std::string::npos);
  }
}

TEST(HttpServerTest, HeadersOfAnAnswerCannotEndEarly) {
  TestServer server({}, [](moert::HttpRequest, auto answer) {
    answer->send(200, "text/plain", "x",
                 {{"X-Name", "a\r\nX-Evil: b"},
                  {"Bad Name", "c"},
                  {"Content-Length", "100"}});
  });
  HttpClient client = server.client();
  HttpResponse response = client.request("GET", "/");
  EXPECT_EQ(response.header("x-name"), "a  X-Evil: b");
  EXPECT_EQ(response.headers.count("x-evil"), 0u);
  EXPECT_EQ(response.headers.count("bad name"), 0u);
  EXPECT_EQ(response.body, "x");
}

TEST(HttpServerTest, ServesManyClientsAtOnce) {
  TestServer server;
  std::atomic<int> good{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 64; ++i)
    clients.emplace_back([&, i] {
      HttpClient client = server.client();
      for (int turn = 0; turn < 20; ++turn) {
        std::string body(size_t(i) * 97, char('a' + turn));
        if (client.request("POST", "/x", body).body == "POST /x " + body)
          ++good;
      }
    });
  for (std::thread &client : clients)
    client.join();
  EXPECT_EQ(good, 64 * 20);
  EXPECT_EQ(server->counts().requests, 64u * 20);
}

TEST(HttpServerTest, ListensOnIPv6) {
  HttpSettings settings;
  settings.host = "::1";
  auto server = HttpServer::create(
      [&] {
        settings.port = 0;
        return settings;
      }(),
      [](moert::HttpRequest, auto answer) {
        answer->send(200, "text/plain", "six");
      });
  if (!server &&
      server.status().message().find("assign requested") != std::string::npos)
    GTEST_SKIP() << "no IPv6 here";
  ASSERT_TRUE(server.isOk()) << server.status().message();
  HttpClient client = HttpClient::tcp((*server)->port(), {}, "::1");
  EXPECT_EQ(client
                .request("GET", "/", "",
                         {{"Host", fmt::format("[::1]:{}", (*server)->port())}})
                .body,
            "six");
  EXPECT_EQ((*server)->addresses().front(),
            fmt::format("http://[::1]:{}", (*server)->port()));
}

TEST(HttpServerTest, APortInUseIsAnErrorThatNamesIt) {
  TestServer first;
  HttpSettings settings;
  settings.port = first->port();
  auto second = HttpServer::create(settings, [](auto, auto) {});
  ASSERT_FALSE(second.isOk());
  EXPECT_EQ(second.status().code(), StatusCode::Io);
  EXPECT_EQ(second.status().message(),
            fmt::format("cannot listen on 127.0.0.1 port {}: Address already "
                        "in use; choose another --port",
                        first->port()));
}

TEST(HttpServerTest, ListensOnAUnixSocketThatOthersCannotUse) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.host = "";
  settings.unixSocket = folder.file("moert.sock");
  {
    TestServer server(settings);
    struct stat info;
    ASSERT_EQ(stat(settings.unixSocket.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    HttpClient client = HttpClient::unixSocket(settings.unixSocket);
    EXPECT_EQ(client.request("GET", "/x").body, "GET /x ");
    EXPECT_EQ(server.records(1)[0].peer, "unix");
    EXPECT_EQ(server->port(), 0);

    // Where a server listens, another must not.
    auto second = HttpServer::create(settings, [](auto, auto) {});
    ASSERT_FALSE(second.isOk());
    EXPECT_NE(second.status().message().find("another server listens"),
              std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(settings.unixSocket));
}

TEST(HttpServerTest, ReplacesAUnixSocketThatAKilledServerLeft) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.host = "";
  settings.unixSocket = folder.file("moert.sock");
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  settings.unixSocket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)),
            0);
  close(fd);

  TestServer server(settings);
  HttpClient client = HttpClient::unixSocket(settings.unixSocket);
  EXPECT_EQ(client.request("GET", "/x").status, 200);
}

TEST(HttpServerTest, LeavesAFileThatIsNoSocket) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.host = "";
  settings.unixSocket = folder.write("notes.txt", "mine");
  auto server = HttpServer::create(settings, [](auto, auto) {});
  ASSERT_FALSE(server.isOk());
  EXPECT_EQ(server.status().code(), StatusCode::Io);
  std::ifstream file(settings.unixSocket);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "mine");

  settings.unixSocket = "/tmp/" + std::string(200, 'x');
  server = HttpServer::create(settings, [](auto, auto) {});
  ASSERT_FALSE(server.isOk());
  EXPECT_EQ(server.status().code(), StatusCode::Usage);
}

TEST(HttpServerTest, LogsWhatWasAnswered) {
  TestServer server;
  HttpClient client = server.client();
  client.request("POST", "/v1/chat?secret=1", "private",
                 {{"User-Agent", "caf\xC3\xA9"}});
  client.send("nonsense\r\n\r\n");
  client.receive();
  auto records = server.records(2);
  EXPECT_EQ(records[0].method, "POST");
  EXPECT_EQ(records[0].path, "/v1/chat");
  EXPECT_EQ(records[0].status, 200);
  EXPECT_GT(records[0].bytes, 50u);
  EXPECT_FALSE(records[0].cut);
  EXPECT_EQ(records[0].userAgent, "caf\\xc3\\xa9");
  EXPECT_EQ(records[0].peer.rfind("127.0.0.1:", 0), 0u);
  EXPECT_EQ(records[1].method, "-");
  EXPECT_EQ(records[1].status, 400);
}

TEST(HttpServerTest, TakesOverSocketsThatAManagerMade) {
  moetest::TempDir folder;
  std::string path = folder.file("socket");
  auto tcp = moert::listenTcp("127.0.0.1", 0);
  auto file = moert::listenUnix(path);
  ASSERT_TRUE(tcp && file);
  uint16_t port = tcp->front().port();
  moert::HttpSettings settings;
  // The host has no meaning with a unix socket.
  settings.host = "nowhere.invalid";
  // The original keeps the file.
  int copy = dup(file->release());
  settings.inheritedSockets.push_back(tcp->front().release());
  settings.inheritedSockets.push_back(copy);
  {
    TestServer server(settings);
    EXPECT_EQ(server->port(), port);
    EXPECT_EQ(server->addresses(),
              (std::vector<std::string>{
                  "http://127.0.0.1:" + std::to_string(port), "unix:" + path}));
    EXPECT_EQ(HttpClient::tcp(port).request("GET", "/x").body, "GET /x ");
    EXPECT_EQ(HttpClient::unixSocket(path).request("GET", "/x").body,
              "GET /x ");
  }
  EXPECT_TRUE(std::filesystem::exists(path)) << "the file is the manager's";
  settings.inheritedSockets.assign(1, 0);
  auto failed = moert::HttpServer::create(settings, {});
  EXPECT_EQ(failed.status().code(), moert::StatusCode::Usage);
  EXPECT_NE(failed.status().message().find("$LISTEN_FDS"), std::string::npos);
}

} // namespace
