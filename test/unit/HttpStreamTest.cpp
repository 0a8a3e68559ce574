// Answers that are written while the client reads: chunks, pings, slow clients
// and those that leave.

#include "HttpTestServer.h"
#include "test/support/TempDir.h"

#include <atomic>
#include <thread>

using moert::HttpSettings;
using moetest::Event;
using moetest::HttpClient;
using moetest::HttpResponse;
using moetest::TestServer;
using namespace std::chrono_literals;

namespace {

constexpr const char *kEvents = "text/event-stream";

/// Requests an answer that the test gives.
struct Exchange {
  explicit Exchange(TestServer &server, HttpClient client_,
                    const char *path = "/hold")
      : client(std::move(client_)) {
    client.send(HttpClient::requestText("GET", path));
    answer = server.held();
    answer->onGone([gone = gone] { gone->set(); });
  }
  HttpClient client;
  std::shared_ptr<moert::HttpAnswer> answer;
  std::shared_ptr<Event> gone = std::make_shared<Event>();
};

TEST(HttpStreamTest, ChunksArriveAsTheyAreWritten) {
  TestServer server;
  Exchange exchange(server, server.client());
  exchange.answer->begin(200, kEvents, {{"X-Run", "1"}});
  HttpResponse head = exchange.client.receiveHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("transfer-encoding"), "chunked");
  EXPECT_EQ(head.header("x-run"), "1");
  for (std::string text : {"data: one\n\n", "data: two\n\n"}) {
    exchange.answer->write(text);
    EXPECT_EQ(exchange.client.nextChunk(), text);
  }
  exchange.answer->write("");
  exchange.answer->end();
  bool isComplete = false;
  EXPECT_EQ(exchange.client.nextChunk(&isComplete), std::nullopt);
  EXPECT_TRUE(isComplete);
  EXPECT_EQ(exchange.client.request("GET", "/next").body, "GET /next ");
  EXPECT_EQ(exchange.gone->count(), 0);
}

TEST(HttpStreamTest, ManyThreadsStreamAtOnce) {
  TestServer server({}, [](moert::HttpRequest, auto answer) {
    std::thread([answer] {
      answer->begin(200, kEvents);
      for (int i = 0; i < 200; ++i)
        answer->write(std::to_string(i) + "\n");
      answer->end();
    }).detach();
  });
  std::string expected;
  for (int i = 0; i < 200; ++i)
    expected += std::to_string(i) + "\n";
  std::atomic<int> good{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i)
    clients.emplace_back([&] {
      HttpClient client = server.client();
      for (int turn = 0; turn < 5; ++turn) {
        HttpResponse response = client.request("GET", "/");
        good += response.isComplete && response.body == expected;
      }
    });
  for (std::thread &client : clients)
    client.join();
  EXPECT_EQ(good, 16 * 5);
}

TEST(HttpStreamTest, AHeadRequestGetsNoBodyOfAStream) {
  TestServer server;
  HttpClient client = server.client();
  client.send(HttpClient::requestText("HEAD", "/hold"));
  auto answer = server.held();
  answer->begin(200, kEvents);
  answer->write("data");
  answer->end();
  EXPECT_EQ(client.receive(true).status, 200);
  EXPECT_EQ(client.request("GET", "/next").body, "GET /next ");
}

TEST(HttpStreamTest, APingIsWrittenWhereNothingElseIs) {
  HttpSettings settings;
  settings.pingInterval = 20ms;
  TestServer server(settings);
  Exchange exchange(server, server.client());
  exchange.answer->begin(200, kEvents, {}, ": ping\n\n");
  exchange.client.receiveHead();
  EXPECT_EQ(exchange.client.nextChunk(), ": ping\n\n");
  EXPECT_EQ(exchange.client.nextChunk(), ": ping\n\n");
  exchange.answer->write("data: x\n\n");
  std::string all;
  while (all.find("data") == std::string::npos)
    all += exchange.client.nextChunk().value_or("data");
  EXPECT_NE(all.find("data: x\n\n"), std::string::npos);
  exchange.answer->end();
  bool isComplete = false;
  while (exchange.client.nextChunk(&isComplete)) {
  }
  EXPECT_TRUE(isComplete);
}

TEST(HttpStreamTest, PendingBytesAreThoseThatTheClientHasNotTaken) {
  TestServer server;
  Exchange exchange(server, server.client({.receiveBuffer = 4096}));
  exchange.answer->begin(200, kEvents);
  size_t written = 0;
  // The system's buffers take the first of them.
  while (exchange.answer->pendingBytes() < 1'000'000) {
    exchange.answer->write(std::string(100'000, 'x'));
    written += 100'000;
  }
  exchange.answer->end();
  HttpResponse response = exchange.client.receive();
  EXPECT_TRUE(response.isComplete);
  EXPECT_EQ(response.body.size(), written);
  server.records(1);
  EXPECT_EQ(exchange.answer->pendingBytes(), 0u);
  EXPECT_EQ(exchange.gone->count(), 0);
}

TEST(HttpStreamTest, AClientWithTooMuchPendingIsCutOff) {
  HttpSettings settings;
  settings.limits.pendingBytes = 500'000;
  TestServer server(settings);
  Exchange exchange(server, server.client({.receiveBuffer = 4096}));
  exchange.answer->begin(200, kEvents);
  while (exchange.gone->count() == 0)
    exchange.answer->write(std::string(100'000, 'x'));
  EXPECT_LE(exchange.answer->pendingBytes(), 0u);
  auto record = server.records(1)[0];
  EXPECT_TRUE(record.cut);
  EXPECT_EQ(record.status, 200);
  EXPECT_EQ(server->counts().cutAnswers, 1u);
}

TEST(HttpStreamTest, AClientThatTakesNothingIsCutOffInTime) {
  HttpSettings settings;
  settings.limits.writeTime = 100ms;
  settings.limits.pendingBytes = 100'000'000;
  TestServer server(settings);
  Exchange exchange(server, server.client({.receiveBuffer = 4096}));
  exchange.answer->begin(200, kEvents);
  exchange.answer->write(std::string(20'000'000, 'x'));
  EXPECT_TRUE(exchange.gone->wait());
}

TEST(HttpStreamTest, AnAnswerOfOnePieceMayBeLargerThanWhatMayBePending) {
  HttpSettings settings;
  settings.limits.pendingBytes = 1000;
  TestServer server(settings);
  Exchange exchange(server, server.client());
  exchange.answer->send(200, "text/plain", std::string(5'000'000, 'x'));
  EXPECT_EQ(exchange.client.receive().body.size(), 5'000'000u);
}

/// The way in which a client leaves, the transport, and the moment in the
/// answer.
struct Leaving {
  const char *name;
  bool reset, begun;
  const char *ping;
};

class HttpLeavingTest : public testing::TestWithParam<Leaving> {};

TEST_P(HttpLeavingTest, TheHandlerIsToldAtOnce) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.unixSocket = folder.file("s");
  TestServer server(settings);
  for (bool isUnix : {false, true}) {
    Exchange exchange(server, isUnix
                                  ? HttpClient::unixSocket(settings.unixSocket)
                                  : server.client());
    if (GetParam().begun) {
      exchange.answer->begin(200, kEvents, {}, GetParam().ping);
      exchange.answer->write("data: x\n\n");
      exchange.client.receiveHead();
      exchange.client.nextChunk();
    }
    exchange.client.close(GetParam().reset);
    EXPECT_TRUE(exchange.gone->wait()) << (isUnix ? "unix" : "TCP");
    // A piece that comes too late has no effect.
    exchange.answer->write("more");
    exchange.answer->end();
    EXPECT_EQ(exchange.answer->pendingBytes(), 0u);
    bool atOnce = false;
    exchange.answer->onGone([&] { atOnce = true; });
    EXPECT_TRUE(atOnce);
    server.dropHeld();
  }
  auto records = server.records(2);
  for (const auto &record : records) {
    EXPECT_TRUE(record.cut);
    EXPECT_EQ(record.status, GetParam().begun ? 200 : 499);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HttpLeavingTest,
    testing::Values(Leaving{"CloseBeforeTheAnswer", false, false, ""},
                    Leaving{"ResetBeforeTheAnswer", true, false, ""},
                    Leaving{"CloseDuringEvents", false, true, ": ping\n\n"},
                    Leaving{"ResetDuringEvents", true, true, ": ping\n\n"},
                    Leaving{"ResetWithoutPings", true, true, ""}),
    [](const auto &info) { return info.param.name; });

TEST(HttpStreamTest, AClientThatClosesWithoutPingsIsSeenByTheNextWrite) {
  TestServer server;
  Exchange exchange(server, server.client());
  exchange.answer->begin(200, "application/x-ndjson");
  exchange.client.receiveHead();
  exchange.client.close();
  while (exchange.gone->count() == 0)
    exchange.answer->write("{}\n");
}

TEST(HttpStreamTest, AClientThatOnlySendsNoMoreGetsItsAnswer) {
  moetest::TempDir folder;
  HttpSettings settings;
  settings.unixSocket = folder.file("s");
  TestServer server(settings);
  for (bool isUnix : {false, true})
    for (bool isStream : {false, true}) {
      HttpClient client = isUnix ? HttpClient::unixSocket(settings.unixSocket)
                                 : server.client();
      client.send(HttpClient::requestText("GET", "/hold"));
      client.endWriting();
      auto answer = server.held();
      Event gone;
      answer->onGone([&] { gone.set(); });
      if (isStream) {
        answer->begin(200, kEvents, {}, ": ping\n\n");
        answer->write("data: x\n\n");
        answer->end();
      } else {
        // Pushes the interim answer in front, if it has not been written yet.
        answer->send(200, "text/plain", "data: x\n\n");
      }
      HttpResponse response = client.receive();
      EXPECT_TRUE(response.isComplete);
      EXPECT_NE(response.body.find("data: x\n\n"), std::string::npos);
      EXPECT_EQ(client.receiveToEnd(), "");
      EXPECT_EQ(gone.count(), 0);
      server.dropHeld();
    }
}

// More than the server reads ahead while it answers.
TEST(HttpStreamTest, AClientThatSendsMuchWhileItWaitsIsServedAndSeenToLeave) {
  TestServer server;
  Exchange exchange(server, server.client());
  std::string many;
  while (many.size() < 100'000)
    many += HttpClient::requestText("GET", "/x");
  exchange.client.send(many);
  exchange.answer->send(200, "text/plain", "first");
  EXPECT_EQ(exchange.client.receive().body, "first");
  for (size_t i = 0; i < many.size();
       i += HttpClient::requestText("GET", "/x").size())
    ASSERT_EQ(exchange.client.receive().body, "GET /x ");

  server.dropHeld();
  Exchange other(server, server.client());
  other.client.send(many);
  other.client.close(true);
  EXPECT_TRUE(other.gone->wait());
}

TEST(HttpStreamTest, AStreamThatIsAbandonedIsCutAndNotEnded) {
  TestServer server;
  Exchange exchange(server, server.client());
  exchange.answer->begin(200, kEvents);
  exchange.answer->write("data: x\n\n");
  exchange.answer.reset();
  server.dropHeld();
  HttpResponse response = exchange.client.receive();
  EXPECT_EQ(response.body, "data: x\n\n");
  EXPECT_FALSE(response.isComplete);
  EXPECT_EQ(exchange.gone->count(), 0);
}

TEST(HttpStreamTest, AnAnswerIsGivenOnce) {
  TestServer server;
  Exchange exchange(server, server.client());
  exchange.answer->write("too early");
  exchange.answer->end();
  exchange.answer->send(200, "text/plain", "first");
  exchange.answer->send(500, "text/plain", "second");
  exchange.answer->begin(500, "text/plain");
  exchange.answer->write("third");
  EXPECT_EQ(exchange.client.receive().body, "first");
  EXPECT_EQ(exchange.client.request("GET", "/x").body, "GET /x ");
}

TEST(HttpStreamTest, StoppingLetsAStreamEnd) {
  TestServer server;
  Exchange exchange(server, server.client());
  HttpClient idle = server.client();
  idle.request("GET", "/x");
  exchange.answer->begin(200, kEvents);
  exchange.answer->write("one ");
  exchange.client.receiveHead();
  uint16_t port = server->port();
  std::thread stopping([&] { server->stop(20s); });
  // The idle connection is closed, and nobody can connect.
  EXPECT_EQ(idle.receiveToEnd(), "");
  EXPECT_THROW(HttpClient::tcp(port), std::runtime_error);
  EXPECT_EQ(exchange.gone->count(), 0);
  exchange.answer->write("two");
  exchange.answer->end();
  bool isComplete = false;
  std::string all;
  while (auto chunk = exchange.client.nextChunk(&isComplete))
    all += *chunk;
  EXPECT_TRUE(isComplete);
  EXPECT_EQ(all, "one two");
  EXPECT_EQ(exchange.client.receiveToEnd(), "");
  exchange.client.close();
  stopping.join();
}

TEST(HttpStreamTest, WhoseConnectionEndsCannotConnectAgain) {
  for (int turn = 0; turn < 20; ++turn) {
    TestServer server;
    uint16_t port = server->port();
    std::atomic<int> connected{0}, answered{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i)
      clients.emplace_back([&, client = server.client()]() mutable {
        while (client.request("GET", "/x").isComplete)
          ++answered;
        try {
          HttpClient::tcp(port);
          ++connected;
        } catch (const std::runtime_error &) {
        }
      });
    while (answered < 8)
      std::this_thread::yield();
    server->stop(20s);
    for (std::thread &client : clients)
      client.join();
    EXPECT_EQ(connected, 0) << "of turn " << turn;
  }
}

TEST(HttpStreamTest, AnAnswerThatBeginsWhileTheServerStopsSaysClose) {
  for (int turn = 0; turn < 50; ++turn) {
    TestServer server;
    Exchange exchange(server, server.client());
    // The server may not have accepted this one when it begins to stop.
    HttpClient idle = server.client();
    std::thread stopping([&] { server->stop(20s); });
    idle.receiveToEnd();
    exchange.answer->send(200, "text/plain", "last");
    HttpResponse response = exchange.client.receive();
    EXPECT_EQ(response.body, "last");
    EXPECT_EQ(response.header("connection"), "close") << "of turn " << turn;
    exchange.client.close();
    stopping.join();
  }
}

TEST(HttpStreamTest, StoppingCutsOffWhatDoesNotEndInTime) {
  TestServer server;
  Exchange exchange(server, server.client());
  exchange.answer->begin(200, kEvents);
  server->stop(10ms);
  EXPECT_TRUE(exchange.gone->wait());
  exchange.answer->write("too late");
  server->stop(0ms);
  server.destroy();
  exchange.answer->write("much too late");
  exchange.answer->end();
}

TEST(HttpStreamTest, AnAnswerMayOutliveTheServer) {
  std::shared_ptr<moert::HttpAnswer> answer;
  {
    TestServer server;
    Exchange exchange(server, server.client());
    answer = exchange.answer;
  }
  answer->begin(200, kEvents);
  answer->write("x");
}

} // namespace
