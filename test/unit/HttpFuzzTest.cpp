// Thousands of damaged requests against one server: it answers each with
// something that can be parsed, or closes the connection.

#include "HttpTestServer.h"

#include <random>
#include <thread>

using moert::HttpSettings;
using moetest::HttpClient;
using moetest::HttpResponse;
using moetest::TestServer;
using namespace std::chrono_literals;

namespace {

constexpr int kRequests = 2000;

const std::string kSeeds[] = {
    HttpClient::requestText("GET", "/v1/models?x=%20y&z"),
    HttpClient::requestText("POST", "/v1/chat/completions",
                            R"({"model":"m","messages":[]})",
                            {{"Content-Type", "application/json"}}),
    HttpClient::requestText("HEAD", "/"),
    HttpClient::requestText("OPTIONS", "/x", "",
                            {{"Origin", "http://localhost:1"},
                             {"Access-Control-Request-Method", "POST"}}),
    "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5\r\nabcde\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
    "GET /a%41 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    HttpClient::requestText("GET", "/one") +
        HttpClient::requestText("PUT", "/two", "body"),
    "POST /x HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 3\r\n"
    "Expect: 100-continue\r\n\r\nabc",
};

const std::string kParts[] = {"\r\n",
                              "\r\n\r\n",
                              "\n",
                              std::string(1, '\0'),
                              "Content-Length: 4294967296\r\n",
                              "Content-Length: 3\r\n",
                              "Transfer-Encoding: chunked\r\n",
                              "ffffffffffffffff\r\n",
                              "%00",
                              "%",
                              "/../",
                              "Host: x\r\n",
                              " HTTP/1.1",
                              std::string(3000, 'x'),
                              "\xff\xfe",
                              ":"};

std::string damaged(std::mt19937 &random) {
  auto below = [&](size_t most) { return size_t(random() % most); };
  std::string text = kSeeds[below(std::size(kSeeds))];
  size_t changes = below(4);
  for (size_t i = 0; i <= changes && !text.empty(); ++i) {
    size_t at = below(text.size());
    switch (below(6)) {
    case 0:
      text[at] = char(random());
      break;
    case 1:
      text[at] ^= char(1 << below(8));
      break;
    case 2:
      text.erase(at, 1 + below(20));
      break;
    case 3:
      text.insert(at, kParts[below(std::size(kParts))]);
      break;
    case 4:
      text.insert(at, text.substr(below(text.size()), below(60)));
      break;
    case 5:
      text.resize(at);
      break;
    }
  }
  return text;
}

/// Expects answers that can be parsed and then the connection's end.
void expectAnswers(HttpClient &client, const std::string &request) {
  // A HEAD request among others has no body; then the rest cannot be told
  // apart, but must begin like an answer.
  std::string all = client.receiveToEnd();
  while (!all.empty()) {
    ASSERT_EQ(all.compare(0, 9, "HTTP/1.1 "), 0)
        << testing::PrintToString(request) << "\ngave\n"
        << all;
    size_t head = all.find("\r\n\r\n");
    ASSERT_NE(head, std::string::npos) << all;
    int status = std::stoi(all.substr(9, 3));
    ASSERT_TRUE(status >= 100 && status < 600) << all;
    size_t length = all.find("Content-Length: ");
    size_t body =
        length < head ? std::stoul(all.substr(length + 16)) : size_t(0);
    all.erase(0, head + 4);
    if (all.compare(0, 9, "HTTP/1.1 ") != 0)
      all.erase(0, body);
  }
}

TEST(HttpFuzzTest, DamagedRequestsGetAnAnswerOrAreClosed) {
  HttpSettings settings;
  settings.limits.bodyBytes = 10'000;
  settings.limits.headerTime = settings.limits.bodyTime = 2000ms;
  TestServer server(settings);
  auto run = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRequests / 4; ++i) {
      std::string request = damaged(random);
      HttpClient client = server.client();
      // The request is sent in one piece or in several.
      size_t cut = random() % 3 == 0 ? random() % (request.size() + 1) : 0;
      client.send(request.substr(0, cut));
      client.send(request.substr(cut));
      if (random() % 16 == 0) {
        client.close(random() % 2 == 0);
        continue;
      }
      client.endWriting();
      expectAnswers(client, request);
    }
  };
  std::vector<std::thread> clients;
  for (unsigned seed = 1; seed <= 4; ++seed)
    clients.emplace_back(run, seed);
  for (std::thread &client : clients)
    client.join();
  // The server still answers, and nothing is left behind.
  HttpClient client = server.client();
  EXPECT_EQ(client.request("GET", "/x").body, "GET /x ");
  client.close();
  EXPECT_GT(server->counts().refusedRequests, 100u);
  EXPECT_GT(server->counts().requests, 100u);
  server->stop(20s);
  EXPECT_EQ(server->counts().openConnections, 0u);
}

} // namespace
