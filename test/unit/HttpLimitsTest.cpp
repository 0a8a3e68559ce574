// Limits of size and time, and requests that are malformed.

#include "HttpTestServer.h"

#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>

using moert::HttpSettings;
using moetest::HttpClient;
using moetest::HttpResponse;
using moetest::TestServer;
using namespace std::chrono_literals;

namespace {

/// Expects an error of the server's own, after which it closes the connection.
void expectRefused(HttpClient &client, int status, std::string_view words,
                   bool closes = true) {
  HttpResponse response = client.receive();
  EXPECT_EQ(response.status, status);
  EXPECT_EQ(response.header("content-type"), "application/json");
  auto body = nlohmann::json::parse(response.body, nullptr, false);
  ASSERT_FALSE(body.is_discarded()) << response.body;
  ASSERT_TRUE(body.contains("error")) << response.body;
  EXPECT_NE(body["error"]["message"].get<std::string>().find(words),
            std::string::npos)
      << response.body;
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(body["error"]["param"].is_null());
  EXPECT_TRUE(body["error"]["code"].is_null());
  if (!closes)
    return;
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(client.receiveToEnd(), "");
}

struct Malformed {
  const char *request;
  int status;
  const char *words;
};

const Malformed kMalformed[] = {
    {"nonsense\r\n\r\n", 400, "not valid HTTP"},
    {"GET\r\n\r\n", 400, "not valid HTTP"},
    {"GET /\r\n\r\n", 400, "not valid HTTP"},
    {"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505, "HTTP/1.1"},
    {"GET / HTTP/1.1\nHost: localhost\n\n\r\n\r\n", 505, "HTTP/1.1"},
    {"GET / HTTP/1.1\r\n\r\n", 400, "no Host"},
    {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400,
     "two host headers"},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "the host"},
    {"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, "the host"},
    {"GET / HTTP/1.1\r\nHost: localhost:99999999\r\n\r\n", 400, "the host"},
    {"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400, "not valid HTTP"},
    {"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x01z\r\n\r\n", 400,
     "not valid HTTP"},
    {"GET / HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n", 400, "not valid HTTP"},
    {"GET x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "begin with \"/\""},
    {"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "no path"},
    {"GET /a%00b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
     "control character"},
    {"GET /a%0d%0ab HTTP/1.1\r\nHost: localhost\r\n\r\n", 400,
     "control character"},
    {"GET /a%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "hexadecimal"},
    {"GET /a% HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "hexadecimal"},
    {"GET /?a=%4 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "hexadecimal"},
    {"GET /%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "UTF-8"},
    {"GET /a/../b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "segment \"..\""},
    {"GET /%2e%2E HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "segment \"..\""},
    {"GET /./b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "segment \".\""},
    {"GET /a#b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "\"#\""},
    {"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, "BREW"},
    {"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "begin with"},
    {"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, "TRACE"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400,
     "not valid HTTP"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400,
     "not valid HTTP"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
     "99999999999999999999999\r\n\r\n",
     400, "not valid HTTP"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
     "Content-Length: 2\r\n\r\nx",
     400, ""},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, ""},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
     "Content-Length: 3\r\n\r\n0\r\n\r\n",
     400, ""},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
     "Transfer-Encoding: gzip\r\n\r\nabc",
     400, ""},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n"
     "Content-Length: 3\r\n\r\nabc",
     400, "both"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
     501, "Transfer-Encoding"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\n"
     "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
     501, "Transfer-Encoding"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\n"
     "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
     501, "Transfer-Encoding"},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
     "HTTP/1.0"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
     "z\r\n",
     400, "not valid HTTP"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
     "ffffffffffffffffff\r\n",
     400, "not valid HTTP"},
    {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
     "3\r\nabcdefgh\r\n",
     400, "not valid HTTP"},
};

TEST(HttpLimitsTest, MalformedRequestsAreRefused) {
  TestServer server;
  for (const Malformed &entry : kMalformed) {
    SCOPED_TRACE(entry.request);
    HttpClient client = server.client();
    ASSERT_TRUE(client.send(entry.request));
    client.endWriting();
    expectRefused(client, entry.status, entry.words, false);
  }
  EXPECT_EQ(server->counts().requests, 0u);
  EXPECT_EQ(server->counts().refusedRequests, std::size(kMalformed));
}

TEST(HttpLimitsTest, AnAbsoluteAddressIsUnderstood) {
  TestServer server;
  HttpClient client = server.client();
  EXPECT_EQ(client.request("GET", "http://localhost/x?y=1").body, "GET /x ");
  EXPECT_EQ(client.request("GET", "HTTP://localhost").body, "GET / ");
  // The host in the request line counts more than the header.
  EXPECT_EQ(client.request("GET", "http://evil.example/x").status, 403);
}

TEST(HttpLimitsTest, LongHeadersAreRefused) {
  TestServer server;
  for (std::string request :
       {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'x') +
            "\r\n\r\n",
        "GET /" + std::string(20'000, 'x') + " HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\n" + std::string(20'000, 'x')}) {
    HttpClient client = server.client();
    client.send(request);
    expectRefused(client, 431, "too long");
  }
  // The request is just below the limit.
  HttpClient client = server.client();
  EXPECT_EQ(
      client.request("GET", "/", "", {{"X", std::string(16'000, 'x')}}).status,
      200);
}

TEST(HttpLimitsTest, ALargeBodyIsRefusedBeforeItIsRead) {
  HttpSettings settings;
  settings.limits.bodyBytes = 1000;
  TestServer server(settings);
  HttpClient client = server.client();
  EXPECT_EQ(client.request("POST", "/", std::string(1000, 'x')).status, 200);
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n"
              "Expect: 100-continue\r\n\r\n");
  expectRefused(client, 413, "takes 1000");

  // The client sends the body nevertheless, and must still see the answer.
  HttpClient eager = server.client();
  eager.send(HttpClient::requestText("POST", "/", std::string(300'000, 'x')));
  expectRefused(eager, 413, "takes 1000");

  HttpClient chunked = server.client();
  chunked.send("POST / HTTP/1.1\r\nHost: localhost\r\n"
               "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 6; ++i)
    chunked.send("c8\r\n" + std::string(200, 'x') + "\r\n");
  expectRefused(chunked, 413, "too large");
}

TEST(HttpLimitsTest, AChunksLineHasALimit) {
  TestServer server;
  HttpClient client = server.client();
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\n"
              "Transfer-Encoding: chunked\r\n\r\n3;x=");
  client.send(std::string(100'000, 'x'));
  expectRefused(client, 431, "too long");
}

TEST(HttpLimitsTest, BodiesTogetherHaveALimit) {
  HttpSettings settings;
  settings.limits.bodyBytesInAll = 140'000;
  TestServer server(settings);
  HttpClient first = server.client(), second = server.client();
  first.send("POST /x HTTP/1.1\r\nHost: localhost\r\n"
             "Content-Length: 80000\r\n\r\n" +
             std::string(79'999, 'x'));
  while (server->counts().bodyBytes < 79'999)
    std::this_thread::yield();
  HttpResponse refused = second.request("POST", "/x", std::string(30'000, 'x'));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  first.send("x");
  EXPECT_EQ(first.receive().status, 200);
  // The room of an answered request is given back when the request is
  // destroyed.
  auto waitForRoom = [&] {
    while (server->counts().bodyBytes > 0)
      std::this_thread::yield();
  };
  waitForRoom();
  second = server.client();
  EXPECT_EQ(second.request("POST", "/x", std::string(80'000, 'x')).status, 200);
  // One client alone has three quarters.
  HttpClient alone = server.client();
  EXPECT_EQ(alone.request("POST", "/x", std::string(106'000, 'x')).status, 503);
  // The refused request has given its room back, too.
  waitForRoom();
  HttpClient third = server.client();
  EXPECT_EQ(third.request("POST", "/x", std::string(100'000, 'x')).status, 200);
}

TEST(HttpLimitsTest, SlowHeadersAndBodiesAreRefused) {
  HttpSettings settings;
  settings.limits.headerTime = 50ms;
  settings.limits.bodyTime = 50ms;
  TestServer server(settings);
  HttpClient headers = server.client();
  headers.send("GET / HTTP/1.1\r\nHost: loc");
  expectRefused(headers, 408, "in time");
  HttpClient body = server.client();
  body.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
  expectRefused(body, 408, "in time");
  // A connection that sends nothing at all gets no answer.
  HttpClient silent = server.client();
  EXPECT_EQ(silent.receiveToEnd(), "");
}

TEST(HttpLimitsTest, IdleConnectionsAreClosed) {
  HttpSettings settings;
  settings.limits.idleTime = 30ms;
  TestServer server(settings);
  HttpClient client = server.client();
  EXPECT_EQ(client.request("GET", "/x").header("connection"), "");
  EXPECT_EQ(client.receiveToEnd(), "");
}

TEST(HttpLimitsTest, AnAnswerMayTakeLongerThanAnyLimitOfTheRequest) {
  HttpSettings settings;
  settings.limits.headerTime = settings.limits.bodyTime =
      settings.limits.idleTime = 20ms;
  settings.pingInterval = 60ms;
  TestServer server(settings);
  HttpClient client = server.client();
  client.send(HttpClient::requestText("GET", "/hold"));
  auto answer = server.held();
  answer->begin(200, "text/event-stream", {}, ": ping\n\n");
  client.receiveHead();
  EXPECT_EQ(client.nextChunk(), ": ping\n\n");
  answer->end();
  EXPECT_EQ(client.nextChunk(), std::nullopt);
}

TEST(HttpLimitsTest, AConnectionEndsAfterItsRequests) {
  HttpSettings settings;
  settings.limits.requestsPerConnection = 3;
  TestServer server(settings);
  HttpClient client = server.client();
  EXPECT_EQ(client.request("GET", "/").header("connection"), "");
  EXPECT_EQ(client.request("GET", "/").header("connection"), "");
  EXPECT_EQ(client.request("GET", "/").header("connection"), "close");
  EXPECT_EQ(client.receiveToEnd(), "");
}

/// A server that takes two connections, of all or of one peer.
HttpSettings twoConnections(bool perPeer) {
  HttpSettings settings;
  (perPeer ? settings.limits.connectionsPerPeer : settings.limits.connections) =
      2;
  return settings;
}

TEST(HttpLimitsTest, TooManyConnectionsAreRefused) {
  for (bool perPeer : {false, true}) {
    TestServer server(twoConnections(perPeer));
    HttpClient first = server.client(), second = server.client();
    first.send(HttpClient::requestText("GET", "/hold/1"));
    second.send(HttpClient::requestText("GET", "/hold/2"));
    server.held(1);
    HttpClient third = server.client();
    HttpResponse response = third.receive();
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.header("retry-after"), "1");
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_EQ(third.receiveToEnd(), "");
    third.close();
    EXPECT_EQ(server->counts().refusedConnections, 1u);
    // A place becomes free.
    first.close();
    while (server->counts().openConnections > 1)
      std::this_thread::yield();
    HttpClient fourth = server.client();
    EXPECT_EQ(fourth.request("GET", "/").status, 200);
  }
}

TEST(HttpLimitsTest, SilentConnectionsGiveWay) {
  for (bool perPeer : {false, true}) {
    HttpSettings settings = twoConnections(perPeer);
    settings.limits.headerTime = settings.limits.idleTime = 1h;
    TestServer server(settings);
    HttpClient busy = server.client();
    busy.send(HttpClient::requestText("GET", "/hold"));
    server.held();
    // One connection has sent nothing; one waits between two requests.
    HttpClient silent = server.client();
    HttpClient idle = server.client();
    EXPECT_EQ(silent.receiveToEnd(), "");
    EXPECT_EQ(idle.request("GET", "/x").status, 200);
    std::vector<HttpClient> open;
    for (int i = 0; i < 50; ++i) {
      // The server may be about to learn that the one before has its answer.
      open.push_back(server.client());
      HttpResponse response = open.back().request("GET", "/y");
      while (response.status == 503) {
        open.back().close();
        std::this_thread::sleep_for(1ms);
        open.back() = server.client();
        response = open.back().request("GET", "/y");
      }
      EXPECT_EQ(response.status, 200);
    }
    server.held()->send(200, "text/plain", "late");
    EXPECT_EQ(busy.receive().body, "late");
  }
}

TEST(HttpLimitsTest, WhatFollowsTheLastAnswerIsNotReadToItsEnd) {
  HttpSettings settings;
  settings.limits.bodyBytes = 1000;
  settings.limits.lingerTime = 200ms;
  TestServer server(settings);
  for (bool isChunked : {false, true}) {
    HttpClient client = server.client();
    client.send(std::string("POST / HTTP/1.1\r\nHost: localhost\r\n") +
                (isChunked ? "Transfer-Encoding: chunked"
                           : "Content-Length: 268435456") +
                "\r\n\r\n");
    const std::string part =
        isChunked ? "10000\r\n" + std::string(0x10000, 'x') + "\r\n"
                  : std::string(0x10000, 'x');
    size_t sent = 0;
    while (sent < 4096 && client.send(part))
      ++sent;
    // Only the system's buffers can have taken pieces.
    EXPECT_LT(sent, 1024u);
  }
}

TEST(HttpLimitsTest, AFoldedHeaderIsRefused) {
  TestServer server;
  const std::string start = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (const char *rest :
       {"X: a\r\n b\r\n\r\n", "X: a\r\n\tb\r\n\r\n",
        "X: a\r\n GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n",
        " X: a\r\n\r\n"})
    for (size_t cut = 1; cut < start.size() + std::strlen(rest); cut += 7) {
      HttpClient client = server.client();
      const std::string request = start + rest;
      client.send(request.substr(0, cut));
      client.send(request.substr(cut));
      expectRefused(client, 400, "begins with a space");
    }
  EXPECT_EQ(server->counts().requests, 0u);
  // A body may have such lines.
  HttpClient client = server.client();
  EXPECT_EQ(client.request("POST", "/", "a\r\n b\r\n\r\n c").status, 200);
}

} // namespace
