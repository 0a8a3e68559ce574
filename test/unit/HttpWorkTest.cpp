// Handlers run on threads of their own, which no client can keep from others.

#include "HttpTestServer.h"
#include "test/support/TempDir.h"

#include <atomic>
#include <latch>
#include <set>
#include <thread>

using moert::HttpAnswer;
using moert::HttpRequest;
using moert::HttpSettings;
using moetest::Event;
using moetest::HttpClient;
using moetest::HttpResponse;
using moetest::TestServer;
using namespace std::chrono_literals;

namespace {

/// A handler whose requests to /slow... stay on their threads until the end.
class SlowHandler {
public:
  moert::HttpHandler handler() {
    return [this](HttpRequest request, std::shared_ptr<HttpAnswer> answer) {
      if (request.path.starts_with("/slow")) {
        begun.set();
        gate_.wait();
      }
      answer->send(200, "text/plain", request.path);
    };
  }
  void open() { gate_.count_down(); }
  Event begun;

private:
  std::latch gate_{1};
};

TEST(HttpWorkTest, NoThreadThatReceivesAndSendsRunsTheHandler) {
  std::mutex mutex;
  std::set<std::thread::id> sending, handling;
  HttpSettings settings;
  // Called by the thread that has sent the answer.
  settings.accessLog = [&](const moert::AccessRecord &) {
    std::lock_guard lock(mutex);
    sending.insert(std::this_thread::get_id());
  };
  TestServer server(
      settings, [&](HttpRequest request, std::shared_ptr<HttpAnswer> answer) {
        {
          std::lock_guard lock(mutex);
          handling.insert(std::this_thread::get_id());
        }
        answer->send(200, "text/plain", request.body);
      });
  std::vector<HttpClient> clients;
  for (int i = 0; i < 8; ++i)
    clients.push_back(server.client());
  for (int i = 0; i < 40; ++i)
    for (HttpClient &client : clients) {
      const std::string body(size_t(i) * 10'000, 'x');
      EXPECT_EQ(
          client.request("POST", i % 5 == 0 ? "/health" : "/x", body).body,
          body);
    }
  std::lock_guard lock(mutex);
  EXPECT_EQ(handling.count(std::this_thread::get_id()), 0u);
  for (std::thread::id each : handling)
    EXPECT_EQ(sending.count(each), 0u);
}

TEST(HttpWorkTest, HandlersThatTakeLongKeepNobodyElseWaiting) {
  SlowHandler slow;
  moetest::TempDir folder;
  HttpSettings settings;
  settings.apiKeyFile = folder.write("keys", "a:key-a\nb:key-b");
  TestServer server(settings, slow.handler());
  auto by = [](const std::string &key) {
    return moetest::HttpFields{{"Authorization", "Bearer " + key}};
  };
  std::vector<HttpClient> waiting;
  for (int i = 0; i < 60; ++i) {
    waiting.push_back(server.client());
    waiting.back().send(
        HttpClient::requestText("POST", "/slow", "x", by("key-a")));
  }
  ASSERT_TRUE(slow.begun.wait(3));
  HttpClient monitor = server.client(), other = server.client();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(monitor.request("GET", "/health").status, 200);
    EXPECT_EQ(other.request("POST", "/x", "y", by("key-b")).body, "/x");
  }
  slow.open();
  for (HttpClient &client : waiting)
    EXPECT_EQ(client.receive().body, "/slow");
}

TEST(HttpWorkTest, LargeBodiesLeaveRoomForSmallOnesOfTheSameClient) {
  SlowHandler slow;
  HttpSettings settings;
  settings.limits.largeBody = 1000;
  TestServer server(settings, slow.handler());
  std::vector<HttpClient> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(server.client());
    waiting.back().send(
        HttpClient::requestText("POST", "/slow", std::string(2000, 'x')));
  }
  ASSERT_TRUE(slow.begun.wait(2));
  HttpClient client = server.client();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(client.request("POST", "/x", "y").body, "/x");
  EXPECT_EQ(slow.begun.count(), 2);
  slow.open();
  for (HttpClient &each : waiting)
    EXPECT_EQ(each.receive().status, 200);
}

TEST(HttpWorkTest, WhatWaitsHasLimits) {
  SlowHandler slow;
  HttpSettings settings;
  settings.limits.waitingRequestsPerClient = 5;
  TestServer server(settings, slow.handler());
  std::vector<HttpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(server.client());
    clients.back().send(HttpClient::requestText("GET", "/slow"));
  }
  ASSERT_TRUE(slow.begun.wait(3));
  for (int i = 0; i < 5; ++i) {
    clients.push_back(server.client());
    clients.back().send(HttpClient::requestText("GET", "/slow"));
  }
  while (server->counts().requests < 8)
    std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  HttpResponse refused = server.client().request("GET", "/slow");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  slow.open();
}

TEST(HttpWorkTest, WhoHasLeftOrWaitedTooLongIsNotServed) {
  SlowHandler slow;
  HttpSettings settings;
  settings.limits.waitingTime = 100ms;
  TestServer server(settings, slow.handler());
  std::vector<HttpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(server.client());
    clients.back().send(HttpClient::requestText("GET", "/slow"));
  }
  ASSERT_TRUE(slow.begun.wait(3));
  HttpClient gone = server.client(), late = server.client();
  gone.send(HttpClient::requestText("GET", "/slow/gone"));
  late.send(HttpClient::requestText("GET", "/slow/late"));
  while (server->counts().requests < 5)
    std::this_thread::yield();
  gone.close(/*reset=*/true);
  std::this_thread::sleep_for(150ms);
  slow.open();
  EXPECT_EQ(late.receive().status, 503);
  for (HttpClient &client : clients)
    EXPECT_EQ(client.receive().status, 200);
  EXPECT_EQ(slow.begun.count(), 3);
}

} // namespace
