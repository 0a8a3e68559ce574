// How a request's generations run: when its stream begins, how many of its
// choices run together, and which threads wait for what comes of them.

#include "ApiTestSupport.h"

#include <gmock/gmock.h>

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace moert::testing {
namespace {

const Json kChat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                    {"stream", true}};

/// A path where streams are asked for, and the request.
struct StreamCase {
  const char *path;
  Json body;
  const char *type, *ping;
};
const StreamCase kStreams[] = {
    {"/v1/chat/completions", kChat, "text/event-stream", ": ping\n\n"},
    {"/v1/completions",
     {{"prompt", "Hi"}, {"stream", true}},
     "text/event-stream",
     ": ping\n\n"},
    {"/completion",
     {{"prompt", "Hi"}, {"stream", true}},
     "text/event-stream",
     ": ping\n\n"},
    {"/v1/responses",
     {{"input", "Hi"}, {"stream", true}},
     "text/event-stream",
     ": ping\n\n"},
    {"/v1/messages",
     {{"messages", kChat["messages"]}, {"max_tokens", 9}, {"stream", true}},
     "text/event-stream",
     "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
    {"/api/chat",
     {{"model", "tiny"}, {"messages", kChat["messages"]}},
     "application/x-ndjson",
     ""},
    {"/api/generate",
     {{"model", "tiny"}, {"prompt", "Hi"}},
     "application/x-ndjson",
     ""},
};

TEST_F(ApiTest, AStreamBeginsBeforeItsFirstToken) {
  model().waits = true;
  for (const StreamCase &each : kStreams) {
    SCOPED_TRACE(each.path);
    auto answer = post(each.path, each.body);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->type, each.type);
    EXPECT_EQ(answer->ping, each.ping);
    EXPECT_FALSE(answer->hasEnded);
    model().play();
    EXPECT_TRUE(answer->hasEnded);
    EXPECT_THAT(answer->body, HasSubstr("o"));
  }
}

TEST_F(ApiTest, AStreamThatFailsLaterEndsWithTheError) {
  model().waits = true;
  model().failure = Status(StatusCode::Unsupported, "the mask cannot be met");
  model().replies = {""};
  for (const StreamCase &each : kStreams) {
    SCOPED_TRACE(each.path);
    auto answer = post(each.path, each.body);
    model().play();
    EXPECT_EQ(answer->status, 200);
    EXPECT_TRUE(answer->hasEnded);
    std::vector<Json> events = answer->events();
    ASSERT_FALSE(events.empty());
    EXPECT_THAT(events.back().dump(), HasSubstr("the mask cannot be met"));
  }
}

TEST_F(ApiTest, ARefusalHasItsStatusInAStreamToo) {
  model().refusal = Status(StatusCode::DoesNotFit, "the queue is full");
  for (const StreamCase &each : kStreams) {
    SCOPED_TRACE(each.path);
    auto answer = post(each.path, each.body);
    EXPECT_EQ(answer->status, 503);
    EXPECT_FALSE(answer->isStream);
  }
}

TEST_F(ApiTest, ChoicesBeyondThoseThatRunTogetherFollow) {
  model().waits = true;
  model().modelFacts.sequences = 4;
  auto answer =
      post("/v1/completions", {{"prompt", {"a", "b"}}, {"n", 20}, {"seed", 7}});
  EXPECT_EQ(model().requests.size(), 8u);
  for (int i = 0; i < 40 && !answer->hasEnded; ++i)
    model().play();
  ASSERT_EQ(answer->json()["choices"].size(), 40u);
  ASSERT_EQ(model().requests.size(), 40u);
  for (size_t i = 0; i < 40; ++i) {
    const GenerationRequest &request = model().requests[i];
    EXPECT_EQ(request.prompt.back(), i < 20 ? 'a' : 'b');
    EXPECT_EQ(request.sampling.seed, 7 + i % 20);
    // The queue counts one request.
    EXPECT_EQ(request.isFurtherChoice, i > 0);
  }
}

TEST_F(ApiTest, TooManyChoicesAreRefusedBeforeTheyAreMade) {
  Json prompts = Json::array();
  for (int i = 0; i < 2048; ++i)
    prompts.push_back("p");
  for (const char *path : {"/v1/completions", "/completion"}) {
    auto answer = post(path, {{"prompt", prompts}, {"n", 2}});
    EXPECT_EQ(answer->status, 400);
    EXPECT_THAT(answer->body, HasSubstr("at most 2048 choices"));
  }
  EXPECT_TRUE(model().requests.empty());
}

TEST_F(ApiTest, LongWorkIsDoneLater) {
  std::vector<std::function<void()>> jobs;
  settings_.later = [&](const std::string &client, uint64_t,
                        std::function<void()> job) {
    EXPECT_EQ(client, "alice");
    jobs.push_back(std::move(job));
  };
  handler_ = makeApi(host_, settings_);
  // The end of an answer, which may be long, and of vectors.
  model().waits = true;
  auto whole = post("/v1/completions", {{"prompt", "a"}});
  auto stream = post("/v1/chat/completions", kChat);
  model().play();
  EXPECT_EQ(whole->status, 0);
  EXPECT_THAT(stream->body, HasSubstr("H"));
  EXPECT_FALSE(stream->hasEnded);
  auto vectors = post("/v1/embeddings", {{"input", "a"}});
  model().embeddings[0]();
  EXPECT_EQ(vectors->status, 0);
  EXPECT_EQ(jobs.size(), 3u);
  for (auto &job : jobs)
    job();
  EXPECT_EQ(whole->status, 200);
  EXPECT_TRUE(stream->hasEnded);
  EXPECT_EQ(vectors->status, 200);
}

TEST_F(ApiTest, EmbeddingsEndWithTheirClient) {
  model().waits = true;
  model().modelFacts.sequences = 2;
  auto answer = post("/v1/embeddings", {{"input", {"a", "b", "c", "d"}}});
  ASSERT_EQ(model().embeddings.size(), 2u);
  answer->leave();
  EXPECT_THAT(model().cancelled, ElementsAre(100u, 101u));
  model().failure = Status(StatusCode::Cancelled, "cancelled");
  auto waiting = model().embeddings;
  for (auto &embed : waiting)
    embed();
  // No other embedding is begun.
  EXPECT_EQ(model().embeddings.size(), 2u);
}

TEST_F(ApiTest, RequestsWithoutALimitHaveTheServers) {
  settings_.maxTokens = 7;
  handler_ = makeApi(host_, settings_);
  for (const StreamCase &each : kStreams) {
    SCOPED_TRACE(each.path);
    const bool hasOwn = each.body.contains("max_tokens");
    post(each.path, each.body);
    EXPECT_EQ(asked().reply.maxTokens, hasOwn ? 9 : 7);
  }
  // A request's own limit counts, also a larger one; -1 is none of its own.
  for (auto [most, expected] : {std::pair(3, 3), {30, 30}, {0, 0}, {-1, 7}}) {
    Json body = kChat;
    body["max_tokens"] = most;
    post("/v1/chat/completions", body);
    EXPECT_EQ(asked().reply.maxTokens, expected);
  }
}

TEST_F(ApiTest, GenerationsAreOfTheGroupOfTheirKey) {
  for (const StreamCase &each : kStreams) {
    SCOPED_TRACE(each.path);
    HttpRequest request{.method = "POST",
                        .path = each.path,
                        .query = {},
                        .headers = {},
                        .body = each.body.dump(),
                        .client = "bob",
                        .group = "@team"};
    handler_(std::move(request), std::make_shared<FakeAnswer>());
    EXPECT_EQ(asked().client, "bob");
    EXPECT_EQ(asked().group, "@team");
  }
}

TEST_F(ApiTest, AClientSeesItsOwnSlotsAlone) {
  EXPECT_EQ(request("GET", "/slots")->json().size(), 1u);
  HttpRequest other{.method = "GET",
                    .path = "/slots",
                    .query = {},
                    .headers = {},
                    .body = {},
                    .client = "bob",
                    .group = "bob"};
  auto answer = std::make_shared<FakeAnswer>();
  handler_(std::move(other), answer);
  EXPECT_EQ(answer->json().size(), 0u);
}

} // namespace
} // namespace moert::testing
