// OpenAI's assistants, threads and runs: what goes over the wire, and what a
// restart leaves.
#include "ApiTestSupport.h"
#include "test/support/TempDir.h"

#include <filesystem>
#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

const Json kAddTool = Json::parse(R"([{"type": "function", "function":
  {"name": "add", "parameters": {"type": "object"}}}])");
const char *const kCallReply =
    "Let me see.<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": "
    "1}}</tool_call>";

class AssistantsTest : public ApiTest {
protected:
  AssistantsTest() {
    settings_.random = [next = uint64_t{0}]() mutable { return ++next << 40; };
    settings_.now = [this] { return now_; };
    open();
  }

  /// Starts a server on the database, which another one may have written.
  void open(StoreLimits limits = {}) {
    handler_ = nullptr;
    settings_.store = nullptr;
    auto store = ObjectStore::open(path_, limits);
    ASSERT_TRUE(store.isOk()) << store.status().message();
    settings_.store = *std::move(store);
    handler_ = makeApi(host_, settings_);
  }

  std::string assistant(Json more = Json::object()) {
    Json body = {{"model", "tiny"}, {"instructions", "Be kind."}};
    body.update(more);
    return made(post("/v1/assistants", body));
  }
  std::string thread(const std::string &text = "Hi") {
    return made(post("/v1/threads",
                     {{"messages", {{{"role", "user"}, {"content", text}}}}}));
  }
  static std::string made(const std::shared_ptr<FakeAnswer> &answer) {
    EXPECT_EQ(answer->status, 200) << answer->body;
    return answer->json()["id"];
  }
  std::shared_ptr<FakeAnswer> run(const std::string &thread,
                                  const std::string &assistant,
                                  Json more = Json::object()) {
    Json body = {{"assistant_id", assistant}};
    body.update(more);
    return post(runs(thread), body);
  }
  static std::string runs(const std::string &thread) {
    return "/v1/threads/" + thread + "/runs";
  }
  Json get(const std::string &path) { return request("GET", path)->json(); }
  std::shared_ptr<FakeAnswer> list(const std::string &path,
                                   std::map<std::string, std::string> query) {
    auto answer = std::make_shared<FakeAnswer>();
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.query = std::move(query);
    request.client = "alice";
    handler_(std::move(request), answer);
    return answer;
  }
  std::vector<std::string> idsOf(const Json &list) {
    std::vector<std::string> ids;
    for (const Json &item : list["data"])
      ids.push_back(item["id"]);
    return ids;
  }
  /// Answers the calls of a run.
  std::shared_ptr<FakeAnswer> submit(const std::string &thread, const Json &run,
                                     const std::string &output,
                                     bool streams = false) {
    Json outputs = Json::array();
    for (const Json &call :
         run["required_action"]["submit_tool_outputs"]["tool_calls"])
      outputs.push_back({{"tool_call_id", call["id"]}, {"output", output}});
    return post(runs(thread) + "/" + std::string(run["id"]) +
                    "/submit_tool_outputs",
                {{"tool_outputs", outputs}, {"stream", streams}});
  }

  int64_t now_ = 1700000001;
  moetest::TempDir folder_;
  std::string path_ = folder_.file("store.db");
};

TEST_F(AssistantsTest, AnAssistantIsMadeChangedAndDeleted) {
  auto answer = post("/v1/assistants", {{"model", "tiny"},
                                        {"name", "Ann"},
                                        {"tools", kAddTool},
                                        {"metadata", {{"a", "b"}}}});
  Json json = answer->json();
  EXPECT_THAT(std::string(json["id"]), ::testing::StartsWith("asst_"));
  EXPECT_EQ(json["object"], "assistant");
  EXPECT_EQ(json["created_at"], now_);
  EXPECT_EQ(json["tools"], kAddTool);
  EXPECT_EQ(json["instructions"], nullptr);
  std::string path = "/v1/assistants/" + std::string(json["id"]);
  EXPECT_EQ(get(path), json);
  json = post(path, {{"instructions", "Be brief."}})->json();
  EXPECT_EQ(json["instructions"], "Be brief.");
  EXPECT_EQ(json["name"], "Ann");
  EXPECT_EQ(get(path), json);
  EXPECT_EQ(request("DELETE", path)->json()["object"], "assistant.deleted");
  EXPECT_EQ(request("GET", path)->status, 404);
}

TEST_F(AssistantsTest, WrongAssistantsAreNamed) {
  auto failure = [&](const Json &body) {
    auto answer = post("/v1/assistants", body);
    EXPECT_EQ(answer->status, 400);
    return std::string(answer->json()["error"]["message"]);
  };
  EXPECT_THAT(failure({{"name", "x"}}), HasSubstr("model"));
  EXPECT_THAT(failure({{"model", "tiny"}, {"temperature", "hot"}}),
              HasSubstr("temperature must be"));
  EXPECT_THAT(
      failure({{"model", "tiny"}, {"tools", {{{"type", "code_interpreter"}}}}}),
      HasSubstr("tools[0].type"));
  EXPECT_THAT(failure({{"model", "tiny"},
                       {"metadata", {{"k", std::string(600, 'x')}}}}),
              HasSubstr("metadata.k is too long"));
}

TEST_F(AssistantsTest, ListsGoBothWays) {
  std::vector<std::string> made;
  for (int i = 0; i < 4; ++i)
    made.push_back(assistant());
  Json all = get("/v1/assistants");
  EXPECT_EQ(all["object"], "list");
  EXPECT_THAT(idsOf(all), ElementsAre(made[3], made[2], made[1], made[0]));
  EXPECT_EQ(all["first_id"], made[3]);
  EXPECT_EQ(all["last_id"], made[0]);
  EXPECT_EQ(all["has_more"], false);
  Json page = list("/v1/assistants",
                   {{"limit", "2"}, {"order", "asc"}, {"after", made[0]}})
                  ->json();
  EXPECT_THAT(idsOf(page), ElementsAre(made[1], made[2]));
  EXPECT_EQ(page["has_more"], true);
  page = list("/v1/assistants", {{"before", made[2]}})->json();
  EXPECT_THAT(idsOf(page), ElementsAre(made[3]));
  for (const auto &[name, value] : {std::pair("limit", "0"),
                                    {"limit", "101"},
                                    {"limit", "x"},
                                    {"order", "up"},
                                    {"after", "asst_0"}})
    EXPECT_EQ(list("/v1/assistants", {{name, value}})->status, 400) << value;
}

TEST_F(AssistantsTest, AnotherKeySeesNothing) {
  std::string id = assistant();
  auto answer = std::make_shared<FakeAnswer>();
  HttpRequest request;
  request.method = "GET";
  request.path = "/v1/assistants/" + id;
  request.client = "bob";
  handler_(request, answer);
  EXPECT_EQ(answer->status, 404);
}

TEST_F(AssistantsTest, MessagesOfAThread) {
  std::string id = thread();
  std::string path = "/v1/threads/" + id + "/messages";
  Json message =
      post(path, {{"role", "user"},
                  {"content", {{{"type", "text"}, {"text", "More"}}}}})
          ->json();
  EXPECT_EQ(message["object"], "thread.message");
  EXPECT_EQ(message["thread_id"], id);
  EXPECT_EQ(message["content"].dump(),
            R"([{"type":"text","text":{"value":"More","annotations":[]}}])");
  Json all = get(path);
  ASSERT_EQ(all["data"].size(), 2u);
  EXPECT_EQ(all["data"][0], message);
  path += "/" + std::string(message["id"]);
  EXPECT_EQ(post(path, {{"metadata", {{"k", "v"}}}})->json()["metadata"]["k"],
            "v");
  EXPECT_EQ(get(path)["metadata"]["k"], "v");
  EXPECT_EQ(request("DELETE", path)->json()["object"],
            "thread.message.deleted");
  EXPECT_EQ(request("GET", path)->status, 404);
  EXPECT_EQ(post("/v1/threads/" + id, {{"metadata", {{"a", "b"}}}})
                ->json()["metadata"]["a"],
            "b");
  EXPECT_EQ(request("DELETE", "/v1/threads/" + id)->json()["object"],
            "thread.deleted");
  EXPECT_EQ(request("GET", "/v1/threads/" + id + "/messages")->status, 404);
  EXPECT_EQ(post("/v1/threads", Json::object())->status, 200);
  EXPECT_EQ(request("POST", "/v1/threads")->status, 200) << "without a body";
}

TEST_F(AssistantsTest, ARunAnswersInItsThread) {
  std::string to = thread();
  auto answer = run(to, assistant(), {{"additional_instructions", "Hurry."}});
  Json json = answer->json();
  EXPECT_EQ(json["object"], "thread.run");
  EXPECT_EQ(json["status"], "queued");
  json = get(runs(to) + "/" + std::string(json["id"]));
  EXPECT_EQ(json["status"], "completed");
  EXPECT_EQ(json["completed_at"], now_);
  EXPECT_EQ(json["usage"]["completion_tokens"], 5);
  EXPECT_EQ(asked().promptText, "<system>Be kind.\nHurry.<user>Hi<assistant>");
  Json messages = list("/v1/threads/" + to + "/messages",
                       {{"run_id", std::string(json["id"])}})
                      ->json();
  ASSERT_EQ(messages["data"].size(), 1u);
  EXPECT_EQ(messages["data"][0]["role"], "assistant");
  EXPECT_EQ(messages["data"][0]["content"][0]["text"]["value"], "Hello");
  Json steps = get(runs(to) + "/" + std::string(json["id"]) + "/steps");
  ASSERT_EQ(steps["data"].size(), 1u);
  EXPECT_EQ(steps["data"][0]["step_details"]["message_creation"]["message_id"],
            messages["data"][0]["id"]);
  EXPECT_EQ(get(runs(to) + "/" + std::string(json["id"]) + "/steps/" +
                std::string(steps["data"][0]["id"])),
            steps["data"][0]);
  // The next run knows the answer.
  post("/v1/threads/" + to + "/messages",
       {{"role", "user"}, {"content", "And?"}});
  run(to, assistant());
  EXPECT_EQ(asked().promptText,
            "<system>Be kind.<user>Hi<assistant>Hello<user>And?<assistant>");
}

TEST_F(AssistantsTest, ARunStreams) {
  model().bytesPerEvent = 1000;
  auto answer =
      post("/v1/threads/runs",
           {{"assistant_id", assistant()},
            {"thread", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}},
            {"stream", true}});
  EXPECT_THAT(
      answer->eventNames(),
      ElementsAre("thread.created", "thread.run.created", "thread.run.queued",
                  "thread.run.in_progress", "thread.run.step.created",
                  "thread.run.step.in_progress", "thread.message.created",
                  "thread.message.in_progress", "thread.message.delta",
                  "thread.message.completed", "thread.run.step.completed",
                  "thread.run.completed", "done"));
  std::vector<Json> events = answer->events();
  EXPECT_EQ(events[8]["delta"].dump(),
            R"({"content":[{"index":0,"type":"text","text":{"value":"Hello",)"
            R"("annotations":[]}}]})");
  EXPECT_EQ(events[1]["status"], "queued");
  EXPECT_EQ(events[11]["status"], "completed");
  EXPECT_EQ(events[12], "[DONE]");
  EXPECT_TRUE(answer->hasEnded);
}

TEST_F(AssistantsTest, ARunWaitsForItsTools) {
  model().bytesPerEvent = 1000;
  model().replies = {kCallReply, "Two"};
  std::string to = thread(), by = assistant({{"tools", kAddTool}});
  auto first = run(to, by, {{"stream", true}});
  EXPECT_THAT(first->eventNames(),
              ::testing::IsSupersetOf({"thread.message.completed",
                                       "thread.run.step.delta",
                                       "thread.run.requires_action"}));
  std::string id = first->events()[0]["id"];
  Json waiting = get(runs(to) + "/" + id);
  EXPECT_EQ(waiting["status"], "requires_action");
  Json call =
      waiting["required_action"]["submit_tool_outputs"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "add");
  EXPECT_EQ(call["function"]["arguments"], R"({"x": 1})");
  EXPECT_EQ(post("/v1/threads/" + to + "/messages",
                 {{"role", "user"}, {"content", "x"}})
                ->status,
            400)
      << "while a run is active";
  EXPECT_EQ(run(to, by)->status, 400);
  EXPECT_THAT(post(runs(to) + "/" + id + "/submit_tool_outputs",
                   {{"tool_outputs", Json::array()}})
                  ->body,
              HasSubstr("lacks the answer to the call"));
  auto second = submit(to, waiting, "2", /*streams=*/true);
  EXPECT_THAT(
      second->eventNames(),
      ElementsAre("thread.run.step.completed", "thread.run.queued",
                  "thread.run.in_progress", "thread.run.step.created",
                  "thread.run.step.in_progress", "thread.message.created",
                  "thread.message.in_progress", "thread.message.delta",
                  "thread.message.completed", "thread.run.step.completed",
                  "thread.run.completed", "done"));
  EXPECT_THAT(asked().promptText,
              ::testing::EndsWith("<user>Hi<assistant>Let me see.add({\"x\": "
                                  "1})<tool>2<assistant>"));
  Json steps = get(runs(to) + "/" + id + "/steps");
  ASSERT_EQ(steps["data"].size(), 3u);
  EXPECT_EQ(
      steps["data"][1]["step_details"]["tool_calls"][0]["function"]["output"],
      "2");
  EXPECT_EQ(submit(to, waiting, "2")->status, 400) << "a second time";
}

TEST_F(AssistantsTest, ARunIsCancelledInTheMiddle) {
  model().waits = true;
  std::string to = thread();
  auto stream = run(to, assistant(), {{"stream", true}});
  std::string id = stream->events()[0]["id"];
  EXPECT_EQ(get(runs(to) + "/" + id)["status"], "in_progress");
  Json json = post(runs(to) + "/" + id + "/cancel", Json::object())->json();
  EXPECT_EQ(json["status"], "cancelled");
  EXPECT_EQ(model().cancelled.size(), 1u);
  EXPECT_EQ(stream->eventNames().back(), "done");
  EXPECT_TRUE(stream->hasEnded);
  model().play(); // Later events change nothing.
  EXPECT_EQ(get(runs(to) + "/" + id)["status"], "cancelled");
  EXPECT_EQ(post(runs(to) + "/" + id + "/cancel", Json::object())->status, 400);
  EXPECT_EQ(run(to, assistant())->status, 200) << "the thread is free again";
}

TEST_F(AssistantsTest, ADeletedThreadEndsItsRun) {
  model().waits = true;
  std::string to = thread();
  run(to, assistant());
  EXPECT_EQ(request("DELETE", "/v1/threads/" + to)->status, 200);
  EXPECT_EQ(model().cancelled.size(), 1u);
  model().play();
}

TEST_F(AssistantsTest, ARunGoesOnWithoutItsListener) {
  model().waits = true;
  std::string to = thread();
  auto stream = run(to, assistant(), {{"stream", true}});
  stream->leave();
  model().play();
  EXPECT_EQ(get(runs(to))["data"][0]["status"], "completed");
}

TEST_F(AssistantsTest, FailuresAreInTheRun) {
  model().refusal = Status(StatusCode::DoesNotFit, "the queue is full");
  std::string to = thread();
  Json json = run(to, assistant())->json();
  json = get(runs(to) + "/" + std::string(json["id"]));
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["last_error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(json["last_error"]["message"], "the queue is full");
  model().refusal = Status();
  model().failure = Status(StatusCode::Internal, "broken");
  auto stream = run(to, assistant(), {{"stream", true}});
  EXPECT_THAT(stream->eventNames(),
              ::testing::IsSupersetOf({"thread.run.failed", "done"}));
  EXPECT_TRUE(stream->hasEnded);
  EXPECT_EQ(run(to, "asst_0")->status, 404);
  EXPECT_EQ(run("thread_0", assistant())->status, 404);
}

TEST_F(AssistantsTest, AShortAnswerIsIncomplete) {
  std::string to = thread();
  Json json = run(to, assistant(), {{"max_completion_tokens", 2}})->json();
  json = get(runs(to) + "/" + std::string(json["id"]));
  EXPECT_EQ(json["status"], "incomplete");
  EXPECT_EQ(json["incomplete_details"]["reason"], "max_completion_tokens");
  Json message = get("/v1/threads/" + to + "/messages")["data"][0];
  EXPECT_EQ(message["status"], "incomplete");
  EXPECT_EQ(message["content"][0]["text"]["value"], "He");
}

TEST_F(AssistantsTest, LongThreadsLoseTheirOldestMessages) {
  model().modelFacts.contextTokens = 100;
  std::string to = thread(std::string(60, 'a'));
  for (char c : {'b', 'c', 'd'})
    post("/v1/threads/" + to + "/messages",
         {{"role", "user"}, {"content", std::string(20, c)}});
  run(to, assistant());
  EXPECT_EQ(asked().promptText, "<system>Be kind.<user>" +
                                    std::string(20, 'c') + "<user>" +
                                    std::string(20, 'd') + "<assistant>");
  run(to, assistant(),
      {{"truncation_strategy",
        {{"type", "last_messages"}, {"last_messages", 1}}}});
  EXPECT_EQ(asked().promptText, "<system>Be kind.<assistant>Hello<assistant>");
}

TEST_F(AssistantsTest, ToolsAreNotWaitedForWithoutEnd) {
  model().replies = {kCallReply};
  std::string to = thread(), by = assistant({{"tools", kAddTool}});
  run(to, by);
  now_ += 601;
  Json json = get(runs(to))["data"][0];
  EXPECT_EQ(json["status"], "expired");
  EXPECT_EQ(get(runs(to) + "/" + std::string(json["id"]) +
                "/steps")["data"][0]["status"],
            "expired");
  EXPECT_EQ(run(to, by)->status, 200);
}

TEST_F(AssistantsTest, ARestartEndsRunsInProgress) {
  std::string waits = thread(), works = thread();
  std::string by = assistant({{"tools", kAddTool}});
  model().replies = {kCallReply};
  run(waits, by);
  model().waits = true;
  run(works, by);
  // The state that a kill would leave at this moment.
  std::string killed = path_;
  path_ = folder_.file("left.db");
  for (const char *suffix : {"", "-wal"})
    std::filesystem::copy(killed + suffix, path_ + suffix);
  model().play();
  model().waits = false;
  model().replies = {"Hello"};
  open();
  Json json = get(runs(works))["data"][0];
  EXPECT_EQ(json["status"], "failed");
  EXPECT_THAT(std::string(json["last_error"]["message"]),
              HasSubstr("the server ended"));
  json = get(runs(waits))["data"][0];
  EXPECT_EQ(json["status"], "requires_action");
  EXPECT_EQ(submit(waits, json, "2")->status, 200);
  EXPECT_EQ(get(runs(waits))["data"][0]["status"], "completed");
}

TEST_F(AssistantsTest, StorageIsBounded) {
  open({.bytesPerOwner = 2000});
  auto answer =
      post("/v1/threads",
           {{"messages",
             {{{"role", "user"}, {"content", std::string(3000, 'x')}}}}});
  EXPECT_EQ(answer->status, 403);
  EXPECT_EQ(answer->json()["error"]["code"], "storage_full");
}

} // namespace
