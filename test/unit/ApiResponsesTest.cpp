// Requests and answers of OpenAI's newer interface.
#include "ApiTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

const Json kResponseTools = Json::parse(R"([{"type": "function", "name": "add",
  "parameters": {"type": "object"}}])");

TEST_F(ApiTest, AResponse) {
  model().replies = {"<think>Hm</think>Hello"};
  Json json = post("/v1/responses", {{"model", "tiny"},
                                     {"input", "Hi"},
                                     {"instructions", "Be kind."},
                                     {"temperature", 0.5}})
                  ->json();
  EXPECT_EQ(json["id"], std::string("resp_") + kId);
  EXPECT_EQ(json["object"], "response");
  EXPECT_EQ(json["status"], "completed");
  EXPECT_EQ(json["instructions"], "Be kind.");
  EXPECT_EQ(json["temperature"], 0.5);
  EXPECT_EQ(json["output"].dump(),
            std::string(R"([{"type":"reasoning","id":"rs_)") + kId +
                R"(_0","summary":[],"content":[{"type":"reasoning_text",)"
                R"("text":"Hm"}]},{"type":"message","id":"msg_)" +
                kId +
                R"(_1","status":"completed","role":"assistant","content":)"
                R"([{"type":"output_text","text":"Hello","annotations":[],)"
                R"("logprobs":[]}]}])");
  EXPECT_EQ(json["usage"].dump(),
            R"({"input_tokens":35,"input_tokens_details":{"cached_tokens":2,)"
            R"("cache_write_tokens":0},)"
            R"("output_tokens":9,"output_tokens_details":)"
            R"({"reasoning_tokens":2},"total_tokens":44})");
  EXPECT_EQ(asked().promptText, "<system>Be kind.<user>Hi<assistant>");
}

TEST_F(ApiTest, AResponseStream) {
  model().bytesPerEvent = 1000;
  model().replies = {"<think>Hm</think>Hello<tool_call>{\"name\": \"add\", "
                     "\"arguments\": {\"x\": 1}}</tool_call>"};
  auto answer =
      post("/v1/responses",
           {{"input", "Hi"}, {"stream", true}, {"tools", kResponseTools}});
  EXPECT_THAT(
      answer->eventNames(),
      ElementsAre("response.created", "response.in_progress",
                  "response.output_item.added", "response.content_part.added",
                  "response.reasoning_text.delta",
                  "response.reasoning_text.done", "response.content_part.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.done", "response.content_part.done",
                  "response.output_item.done", "response.output_item.added",
                  "response.function_call_arguments.delta",
                  "response.function_call_arguments.done",
                  "response.output_item.done", "response.completed"));
  std::vector<Json> events = answer->events();
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    EXPECT_EQ(events[i]["type"], answer->eventNames()[i]);
  }
  EXPECT_EQ(events[10].dump(),
            std::string(R"({"type":"response.output_text.delta",)"
                        R"("sequence_number":10,"item_id":"msg_)") +
                kId +
                R"(_1","output_index":1,"content_index":0,"delta":"Hello",)"
                R"("logprobs":[]})");
  EXPECT_EQ(events[16]["arguments"], R"({"x": 1})");
  const Json &response = events[18]["response"];
  EXPECT_EQ(response["output"].size(), 3u);
  EXPECT_EQ(response["output"][2].dump(),
            std::string(R"({"type":"function_call","id":"fc_)") + kId +
                R"(_2","call_id":"call_0123456789abcdef01234567","name":"add",)"
                R"("arguments":"{\"x\": 1}","status":"completed"})");
}

TEST_F(ApiTest, ResponsesGoOn) {
  settings_.random = [next = std::make_shared<uint64_t>(0)] { return ++*next; };
  handler_ = makeApi(host_, settings_);
  Json first =
      post("/v1/responses", {{"input", "Hi"}, {"instructions", "Once."}})
          ->json();
  Json second = post("/v1/responses",
                     {{"input", "More"}, {"previous_response_id", first["id"]}})
                    ->json();
  EXPECT_EQ(asked().promptText, "<user>Hi<assistant>Hello<user>More<assistant>")
      << "instructions are of one answer";
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  post("/v1/responses",
       {{"input", "Last"}, {"previous_response_id", second["id"]}});
  EXPECT_THAT(asked().promptText, HasSubstr("More<assistant>Hello<user>Last"));
  Json forgotten =
      post("/v1/responses", {{"input", "x"}, {"store", false}})->json();
  auto unknown =
      post("/v1/responses",
           {{"input", "x"}, {"previous_response_id", forgotten["id"]}});
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(unknown->json()["error"]["param"], "previous_response_id");
}

TEST_F(ApiTest, ResponseItemsBecomeThePrompt) {
  Json input = Json::parse(R"([
    {"role": "user", "content": [{"type": "input_text", "text": "2+2"}]},
    {"type": "reasoning", "id": "r", "summary": [],
     "content": [{"type": "reasoning_text", "text": "Hm"}]},
    {"type": "function_call", "call_id": "c1", "name": "add",
     "arguments": "{\"x\": 4}"},
    {"type": "function_call_output", "call_id": "c1", "output": "4"}])");
  auto answer = post("/v1/responses", {{"input", input}});
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(asked().promptText,
            "<user>2+2<assistant>[Hm]add({\"x\": 4})<tool>4<assistant>");
}

TEST_F(ApiTest, ResponsesThatAreCut) {
  Json json = post("/v1/responses", {{"input", "Hi"}, {"max_output_tokens", 2}})
                  ->json();
  EXPECT_EQ(json["status"], "incomplete");
  EXPECT_EQ(json["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(ApiTest, ResponseErrors) {
  struct {
    Json body;
    const char *param;
  } cases[] = {
      {Json::object(), "input"},
      {{{"input", 5}}, "input"},
      {{{"input", Json::array()}}, "input"},
      {{{"input", {{{"type", "item_reference"}}}}}, "input[0]"},
      {{{"input", "a"}, {"background", true}}, "background"},
      {{{"input", "a"}, {"max_output_tokens", 0}}, "max_output_tokens"},
      {{{"input", "a"}, {"tools", {{{"name", "f"}}}}}, "tools[0].type"},
      {{{"input", "a"},
        {"text",
         {{"format", {{"type", "json_schema"}, {"schema", {{"not", 1}}}}}}}},
       "text.format.schema"}};
  for (const auto &test : cases) {
    auto answer = post("/v1/responses", test.body);
    EXPECT_EQ(answer->status, 400) << test.body;
    EXPECT_EQ(answer->json()["error"]["param"], test.param) << answer->body;
  }
  model().failure = Status(StatusCode::Internal, "broken");
  auto broken = post("/v1/responses", {{"input", "a"}, {"stream", true}});
  EXPECT_EQ(broken->eventNames().back(), "response.failed");
  EXPECT_TRUE(broken->hasEnded);
}

TEST_F(ApiTest, AKeptResponse) {
  post("/v1/responses", {{"input", "Hi"}, {"store", true}});
  std::string path = std::string("/v1/responses/resp_") + kId;
  Json response = request("GET", path)->json();
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hello");
  Json items = request("GET", path + "/input_items")->json();
  EXPECT_EQ(items["data"][0]["content"].dump(),
            R"([{"type":"input_text","text":"Hi"}])");
  EXPECT_EQ(request("DELETE", path)->json()["deleted"], true);
  EXPECT_EQ(request("GET", path)->status, 404);
  EXPECT_EQ(request("DELETE", path)->status, 404);
}

TEST_F(ApiTest, OldResponsesMakeRoom) {
  settings_.keptResponses = 2;
  settings_.random = [next = uint64_t{0}]() mutable { return ++next; };
  handler_ = makeApi(host_, settings_);
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i)
    paths.push_back(
        "/v1/responses/" +
        std::string(post("/v1/responses", {{"input", "Hi"}})->json()["id"]));
  EXPECT_EQ(request("GET", paths[0])->status, 404);
  EXPECT_EQ(request("GET", paths[1])->status, 200);
  EXPECT_EQ(request("GET", paths[2])->status, 200);
}

TEST_F(ApiTest, ConversationsAreKept) {
  settings_.random = nullptr;
  handler_ = makeApi(host_, settings_);
  Json conversation =
      post("/v1/conversations", {{"metadata", {{"a", "b"}}},
                                 {"items",
                                  {{{"type", "message"},
                                    {"role", "user"},
                                    {"content", "I am Ann."}}}}})
          ->json();
  EXPECT_EQ(conversation["object"], "conversation");
  EXPECT_EQ(conversation["metadata"]["a"], "b");
  const std::string id = conversation["id"], path = "/v1/conversations/" + id;
  EXPECT_EQ(request("GET", path)->json(), conversation);
  for (const char *text : {"Who am I?", "Sure?"}) {
    Json response = post("/v1/responses", {{"input", text},
                                           {"conversation", id},
                                           {"instructions", "Be kind."}})
                        ->json();
    EXPECT_EQ(response["conversation"]["id"], id);
  }
  EXPECT_EQ(asked().promptText,
            "<system>Be kind.<user>I am Ann.<user>Who am I?<assistant>Hello"
            "<user>Sure?<assistant>");
  Json items = request("GET", path + "/items")->json()["data"];
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0]["role"], "assistant") << "the newest first";
  const std::string item = items[0]["id"];
  EXPECT_EQ(request("GET", path + "/items/" + item)->json(), items[0]);
  EXPECT_EQ(request("DELETE", path + "/items/" + item)->status, 200);
  EXPECT_EQ(request("GET", path + "/items/" + item)->status, 404);
  Json more = post(path + "/items",
                   {{"items", {{{"role", "user"}, {"content", "More."}}}}})
                  ->json();
  EXPECT_EQ(more["data"][0]["content"][0]["text"], "More.");
  client_ = "bob";
  EXPECT_EQ(request("GET", path)->status, 404) << "another client";
  EXPECT_EQ(
      post("/v1/responses", {{"input", "a"}, {"conversation", id}})->status,
      404);
  client_ = "alice";
  EXPECT_EQ(request("DELETE", path)->json()["deleted"], true);
  EXPECT_EQ(request("GET", path + "/items")->status, 404);
}

} // namespace
