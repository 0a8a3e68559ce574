// Requests and answers of Ollama's interface.
#include "ApiTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;

namespace {

Json ollamaBody(Json more = Json::object()) {
  Json body = {{"model", "tiny:latest"},
               {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(more);
  return body;
}

const char *const kEnd =
    R"("done":true,"done_reason":"stop","total_duration":750000000,)"
    R"("load_duration":0,"prompt_eval_count":19,)"
    R"("prompt_eval_duration":437500000,"eval_count":5,)"
    R"("eval_duration":312500000})";

TEST_F(ApiTest, AnOllamaChat) {
  auto answer = post("/api/chat", ollamaBody({{"stream", false}}));
  EXPECT_EQ(
      answer->body,
      std::string(R"({"model":"tiny","created_at":"2023-11-14T22:13:21Z",)"
                  R"("message":{"role":"assistant","content":"Hello"},)") +
          kEnd);
}

TEST_F(ApiTest, AnOllamaStream) {
  model().bytesPerEvent = 3;
  auto answer = post("/api/chat", ollamaBody());
  EXPECT_EQ(answer->type, "application/x-ndjson");
  EXPECT_EQ(answer->ping, "") << "lines of JSON have no comments";
  std::vector<Json> lines = answer->events();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].dump(),
            R"({"model":"tiny","created_at":"2023-11-14T22:13:21Z","message":)"
            R"({"role":"assistant","content":"Hel"},"done":false})");
  EXPECT_EQ(lines[1]["message"]["content"], "lo");
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["eval_count"], 5);
}

TEST_F(ApiTest, OllamaToolsAndThinking) {
  model().replies = {"<think>Hm</think><tool_call>{\"name\": \"add\", "
                     "\"arguments\": {\"x\": 1}}</tool_call>"};
  Json tools = Json::parse(R"([{"type": "function", "function": {
    "name": "add", "parameters": {"type": "object"}}}])");
  Json json =
      post("/api/chat", ollamaBody({{"tools", tools}, {"stream", false}}))
          ->json();
  EXPECT_EQ(json["message"].dump(),
            R"({"role":"assistant","content":"","thinking":"Hm",)"
            R"("tool_calls":[{"id":"call_0123456789abcdef01234567",)"
            R"("function":{"name":"add",)"
            R"("arguments":{"x":1}}}]})");
  model().bytesPerEvent = 1000;
  auto lines = post("/api/chat", ollamaBody({{"tools", tools}}))->events();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["message"]["thinking"], "Hm");
  EXPECT_EQ(lines[1]["message"]["tool_calls"][0]["function"]["arguments"]["x"],
            1);
  // Clients send calls back with an object as arguments.
  Json messages = Json::parse(R"([{"role": "assistant", "content": "",
    "tool_calls": [{"function": {"name": "add", "arguments": {"x": 1}}}]},
    {"role": "tool", "tool_name": "add", "content": "1"}])");
  post("/api/chat", ollamaBody({{"messages", messages}}));
  EXPECT_EQ(asked().promptText, "<assistant>add({\"x\": 1})<tool>1<assistant>");
}

TEST_F(ApiTest, OllamaOptions) {
  post("/api/chat", ollamaBody({{"options",
                                 {{"temperature", 0},
                                  {"num_predict", 3},
                                  {"num_ctx", 8192},
                                  {"seed", 9},
                                  {"stop", {"x"}},
                                  {"repeat_last_n", -1}}},
                                {"format", "json"},
                                {"keep_alive", "5m"},
                                {"think", false}}));
  EXPECT_EQ(asked().sampling.temperature, 0);
  EXPECT_EQ(asked().sampling.seed, 9u);
  EXPECT_EQ(asked().reply.maxTokens, 3);
  EXPECT_EQ(asked().reply.stops, std::vector<std::string>{"x"});
  EXPECT_NE(asked().grammar, nullptr);
  post("/api/chat", ollamaBody({{"format", {{"type", "object"}}}}));
  EXPECT_NE(asked().grammar, nullptr);
  post("/api/chat", ollamaBody({{"format", ""}}));
  EXPECT_EQ(asked().grammar, nullptr);
}

TEST_F(ApiTest, OllamaGenerates) {
  auto answer = post("/api/generate", {{"model", "tiny"},
                                       {"prompt", "Hi"},
                                       {"system", "Be kind."},
                                       {"stream", false}});
  EXPECT_EQ(answer->json()["response"], "Hello");
  EXPECT_EQ(asked().promptText, "<system>Be kind.<user>Hi<assistant>");
  post("/api/generate", {{"model", "tiny"}, {"prompt", "Hi"}, {"raw", true}});
  EXPECT_EQ(asked().promptText, "Hi");
  post("/api/generate", {{"model", "tiny"}, {"prompt", "a"}, {"suffix", "b"}});
  EXPECT_EQ(asked().prompt, (std::vector<int32_t>{260, 'a', 261, 'b', 262}));
  size_t count = model().requests.size();
  Json loaded = post("/api/generate", {{"model", "tiny"}})->json();
  EXPECT_EQ(loaded["done_reason"], "load");
  EXPECT_EQ(post("/api/chat", {{"model", "tiny"}})->json()["done_reason"],
            "load");
  EXPECT_EQ(model().requests.size(), count);
}

TEST_F(ApiTest, OllamaModels) {
  Json tags = request("GET", "/api/tags")->json();
  EXPECT_EQ(tags["models"][0].dump(),
            R"({"name":"tiny","model":"tiny",)"
            R"("modified_at":"2023-11-14T22:13:20Z","size":1048576,)"
            R"("digest":"abc123","details":{"parent_model":"",)"
            R"("format":"gguf","family":"qwen3moe","families":["qwen3moe"],)"
            R"("parameter_size":"2.0B","quantization_level":"Q4_K_M"}})");
  Json show = post("/api/show", {{"model", "tiny"}})->json();
  EXPECT_EQ(show["model_info"]["qwen3moe.context_length"], 4096);
  EXPECT_EQ(show["capabilities"][1], "tools");
  EXPECT_EQ(request("GET", "/api/ps")->json()["models"][0]["name"], "tiny");
  EXPECT_EQ(request("GET", "/api/version")->body, R"({"version":"0.12.6"})");
}

TEST_F(ApiTest, WhatOllamasClientsAskBeforeTheyChat) {
  Json show = post("/api/show", {{"model", "tiny"}})->json();
  EXPECT_EQ(show["capabilities"], (Json{"completion", "tools", "thinking"}));
  EXPECT_EQ(show["details"]["quantization_level"], "Q4_K_M");
  EXPECT_EQ(show["model_info"]["qwen3moe.context_length"], 4096);
  for (const Json &keep : {Json(0), Json("0"), Json("0s")})
    for (const char *path : {"/api/generate", "/api/chat"})
      EXPECT_EQ(post(path, {{"model", "tiny"}, {"keep_alive", keep}})
                    ->json()["done_reason"],
                "unload");
  for (const Json &keep : {Json(-1), Json("5m"), Json("10m0s"), Json(nullptr)})
    EXPECT_EQ(post("/api/generate", {{"model", "tiny"}, {"keep_alive", keep}})
                  ->json()["done_reason"],
              "load");
  // Only served models exist; another one would have to be downloaded.
  for (const char *name : {"tiny", "tiny:latest"})
    EXPECT_EQ(post("/api/pull", {{"model", name}})->events().back()["status"],
              "success");
  for (bool streams : {true, false}) {
    auto other = post("/api/pull", {{"model", "llama3"}, {"stream", streams}});
    EXPECT_EQ(other->status, 404);
    EXPECT_THAT(other->json()["error"].get<std::string>(),
                HasSubstr("fetches no models, and serves tiny: get a GGUF of "
                          "\"llama3\""));
  }
  EXPECT_EQ(post("/api/embed", {{"model", "tiny"}, {"input", ""}})
                ->json()["embeddings"],
            Json::array());
  Json cut = post("/api/embed",
                  {{"model", "tiny"}, {"input", "abc"}, {"dimensions", 1}})
                 ->json();
  EXPECT_EQ(cut["embeddings"].dump(), "[[1.0]]");
}

TEST_F(ApiTest, AContextThatOllamasClientCountsOnEndsTheReply) {
  Json options = {{"options", {{"num_ctx", 22}}}, {"stream", false}};
  Json json = post("/api/chat", ollamaBody(options))->json();
  EXPECT_EQ(json["prompt_eval_count"], 19);
  EXPECT_EQ(json["eval_count"], 3);
  EXPECT_EQ(json["done_reason"], "length");
  options["options"]["num_ctx"] = 4;
  EXPECT_EQ(post("/api/chat", ollamaBody(options))->json()["eval_count"], 5)
      << "a prompt is never cut";
}

TEST_F(ApiTest, OllamasTimesAddUp) {
  Json json = post("/api/chat", ollamaBody({{"stream", false}}))->json();
  EXPECT_EQ(json["total_duration"].get<int64_t>(),
            json["load_duration"].get<int64_t>() +
                json["prompt_eval_duration"].get<int64_t>() +
                json["eval_duration"].get<int64_t>());
}

TEST_F(ApiTest, OllamaErrors) {
  struct {
    const char *path;
    Json body;
    const char *words;
  } cases[] = {
      {"/api/chat", {{"messages", Json::array()}}, "model is missing"},
      {"/api/chat", ollamaBody({{"options", {{"temperature", "hot"}}}}),
       "options.temperature must be a number"},
      {"/api/chat", ollamaBody({{"format", "xml"}}), "format must be \"json\""},
      {"/api/chat", ollamaBody({{"format", 5}}), "format must be"},
      {"/api/chat", ollamaBody({{"stream", 1}}), "stream must be"},
      {"/api/chat", ollamaBody({{"think", 1}}), "think must be"},
      {"/api/chat", ollamaBody({{"keep_alive", true}}), "keep_alive must be"},
      {"/api/chat",
       ollamaBody(
           {{"messages",
             {{{"role", "user"}, {"content", ""}, {"images", {"aGk="}}}}}}),
       "messages[0].images[0] is an image"},
      {"/api/generate",
       {{"model", "tiny"}, {"prompt", "a"}, {"images", {"aGk="}}},
       "images is not supported"},
      {"/api/generate",
       {{"model", "tiny"}, {"prompt", "a"}, {"context", {"x"}}},
       "context[0] must be"},
      {"/api/generate",
       {{"model", "tiny"}, {"prompt", "a"}, {"context", {99999}}},
       "has token 99999"},
      {"/api/chat", ollamaBody({{"top_logprobs", 2}}), "needs logprobs"},
      {"/api/generate", {{"model", "tiny"}, {"prompt", 1}}, "prompt must be"},
      {"/api/show", Json::object(), "model is missing"},
      {"/api/embed", {{"model", "tiny"}}, "input is missing"}};
  for (const auto &test : cases) {
    auto answer = post(test.path, test.body);
    EXPECT_EQ(answer->status, 400) << test.body;
    EXPECT_THAT(answer->json()["error"].get<std::string>(),
                HasSubstr(test.words));
  }
  EXPECT_EQ(request("GET", "/api/nothing")->body,
            R"({"error":"there is nothing at /api/nothing"})");
  model().failure = Status(StatusCode::Internal, "broken");
  auto broken = post("/api/chat", ollamaBody());
  EXPECT_EQ(broken->events().back().dump(), R"({"error":"broken"})");
}

TEST_F(ApiTest, OllamaLogprobs) {
  model().bytesPerEvent = 3;
  Json options = {{"logprobs", true}, {"top_logprobs", 1}};
  auto lines = post("/api/chat", ollamaBody(options))->events();
  ASSERT_EQ(lines[0]["logprobs"].size(), 3u);
  EXPECT_EQ(lines[0]["logprobs"][0].dump(),
            R"({"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":)"
            R"([{"token":"H","logprob":-0.5,"bytes":[72]}]})");
  EXPECT_EQ(lines[1]["logprobs"].size(), 2u);
  options.update({{"model", "tiny"}, {"prompt", "a"}, {"stream", false}});
  EXPECT_EQ(post("/api/generate", options)->json()["logprobs"].size(), 5u);
}

// The context of an answer comes before the next prompt.
TEST_F(ApiTest, OllamaContext) {
  Json body = {{"model", "tiny"}, {"prompt", "Hi"}, {"stream", false}};
  Json context = post("/api/generate", body)->json()["context"];
  const std::string first = "<user>Hi<assistant>Hello";
  EXPECT_EQ(byteTokenizer().decode(context.get<std::vector<int32_t>>()), first);
  body["context"] = context;
  body["stream"] = true;
  Json last = post("/api/generate", body)->events().back();
  EXPECT_EQ(byteTokenizer().decode(asked().prompt),
            first + "<user>Hi<assistant>");
  EXPECT_EQ(last["context"].size(), context.size() + 24);
  EXPECT_FALSE(
      post("/api/chat", ollamaBody())->events().back().contains("context"));
}

TEST_F(ApiTest, OllamaModelsAreKeptForAsLongAsTheClientSays) {
  auto expires = [&] {
    return request("GET", "/api/ps")->json()["models"][0]["expires_at"];
  };
  const char *const forEver = "2315-09-05T22:13:21Z";
  EXPECT_EQ(expires(), forEver) << "no time that has passed";
  struct {
    Json keep;
    const char *expires; ///< Expected expiry; the time is 22:13:21.
  } cases[] = {{"5m", "2023-11-14T22:18:21Z"},
               {"1h30m", "2023-11-14T23:43:21Z"},
               {"1500ms", "2023-11-14T22:13:23Z"},
               {"0.5h", "2023-11-14T22:43:21Z"},
               {"\u00B5s", nullptr},
               {"1000\u00B5s", "2023-11-14T22:13:22Z"},
               {60, "2023-11-14T22:14:21Z"},
               {"60", "2023-11-14T22:14:21Z"},
               {2.5, "2023-11-14T22:13:24Z"},
               {0, "2023-11-14T22:13:21Z"},
               {"0s", "2023-11-14T22:13:21Z"},
               {-1, forEver},
               {"-1m", forEver},
               {"1e999", nullptr},
               {"99999999999h", forEver},
               {"m", nullptr},
               {"5 m", nullptr},
               {"5m5", nullptr},
               {"", nullptr},
               {true, nullptr},
               {Json::array(), nullptr},
               {nullptr, forEver}};
  for (const auto &test : cases)
    for (const char *path : {"/api/generate", "/api/chat"}) {
      host_.kept.clear();
      const Json body = {{"model", "tiny"},
                         {"prompt", "Hi"},
                         {"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                         {"keep_alive", test.keep},
                         {"stream", false}};
      const int status = post(path, body)->status;
      EXPECT_EQ(status, test.expires ? 200 : 400) << test.keep;
      EXPECT_EQ(expires(), test.expires ? test.expires : forEver) << test.keep;
    }
}

// A model is not loaded to be unloaded, and one that is not there is an error.
TEST_F(ApiTest, OllamaClientsUnload) {
  host_.backends.push_back(std::make_shared<FakeBackend>());
  host_.backends[1]->modelFacts.id = "other";
  const Json empty = {{"model", "other:latest"}, {"keep_alive", 0}};
  for (const char *path : {"/api/generate", "/api/chat"}) {
    host_.kept.clear();
    Json answer = post(path, empty)->json();
    EXPECT_EQ(answer["done_reason"], "unload");
    EXPECT_EQ(answer["model"], "other");
    EXPECT_EQ(host_.kept["other"], std::chrono::milliseconds(0));
  }
  EXPECT_EQ(post("/api/chat", {{"model", "none"}, {"keep_alive", 0}})->status,
            404);
}

} // namespace
