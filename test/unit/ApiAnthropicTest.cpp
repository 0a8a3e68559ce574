// Requests and answers of Anthropic's interface.
#include "ApiTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

Json messageBody(Json more = Json::object()) {
  Json body = {{"model", "tiny"},
               {"max_tokens", 100},
               {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(more);
  return body;
}

const Json kAnthropicTools =
    Json::parse(R"([{"name": "add", "description": "Adds.",
  "input_schema": {"type": "object",
                   "properties": {"x": {"type": "integer"}}}}])");

TEST_F(ApiTest, AMessage) {
  model().replies = {"<think>Hm</think>Hello"};
  auto answer = post("/v1/messages", messageBody({{"system", "Be kind."}}));
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(
      answer->body,
      R"({"id":"msg_0123456789abcdef0123456789abcdef","type":"message",)"
      R"("role":"assistant","model":"tiny","content":[{"type":"thinking",)"
      R"("thinking":"Hm","signature":""},{"type":"text","text":"Hello"}],)"
      R"("stop_reason":"end_turn","stop_sequence":null,"usage":)"
      R"({"input_tokens":33,"cache_creation_input_tokens":0,)"
      R"("cache_read_input_tokens":2,"output_tokens":9}})");
  EXPECT_EQ(asked().promptText, "<system>Be kind.<user>Hi<assistant>");
  EXPECT_EQ(asked().reply.maxTokens, 100);
}

// The header changes from request to request, and no prompt would begin like
// another.
TEST_F(ApiTest, ABillingHeaderDoesNotStandInFrontOfThePrompt) {
  const std::string begin =
      "x-anthropic-billing-header: cc_version=2.1.37.3a3; "
      "cc_entrypoint=cli; cch=";
  for (const char *end : {"00000;", "9f3c1;", "1;\n", "a;  ", "a\n"}) {
    auto answer = post(
        "/v1/messages",
        messageBody({{"system",
                      {{{"type", "text"}, {"text", begin + end}},
                       {{"type", "text"}, {"text", "You are kind; a=b."}}}}}));
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(asked().promptText,
              "<system>You are kind; a=b.<user>Hi<assistant>");
  }
  // In other places the header is text.
  post("/v1/messages", messageBody({{"system", "Say " + begin + "1;"}}));
  EXPECT_EQ(asked().promptText,
            "<system>Say " + begin + "1;<user>Hi<assistant>");
}

TEST_F(ApiTest, AMessageStream) {
  model().bytesPerEvent = 1000;
  model().replies = {"<think>Hm</think>Hello<tool_call>{\"name\": \"add\", "
                     "\"arguments\": {\"x\": 1}}</tool_call>"};
  auto answer =
      post("/v1/messages",
           messageBody({{"stream", true}, {"tools", kAnthropicTools}}));
  EXPECT_EQ(answer->type, "text/event-stream");
  EXPECT_EQ(answer->ping, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  EXPECT_THAT(answer->eventNames(),
              ElementsAre("message_start", "ping", "content_block_start",
                          "content_block_delta", "content_block_stop",
                          "content_block_start", "content_block_delta",
                          "content_block_stop", "content_block_start",
                          "content_block_delta", "content_block_stop",
                          "message_delta", "message_stop"));
  std::vector<Json> events = answer->events();
  EXPECT_EQ(events[0]["message"]["content"], Json::array());
  EXPECT_GT(events[0]["message"]["usage"]["input_tokens"], 0);
  EXPECT_EQ(events[2].dump(),
            R"({"type":"content_block_start","index":0,"content_block":)"
            R"({"type":"thinking","thinking":"","signature":""}})");
  EXPECT_EQ(events[3].dump(),
            R"({"type":"content_block_delta","index":0,"delta":)"
            R"({"type":"thinking_delta","thinking":"Hm"}})");
  EXPECT_EQ(events[6].dump(),
            R"({"type":"content_block_delta","index":1,"delta":)"
            R"({"type":"text_delta","text":"Hello"}})");
  EXPECT_EQ(events[8].dump(),
            R"({"type":"content_block_start","index":2,"content_block":)"
            R"({"type":"tool_use","id":"toolu_0123456789abcdef01234567",)"
            R"("name":"add","input":{}}})");
  EXPECT_EQ(events[9].dump(),
            R"({"type":"content_block_delta","index":2,"delta":)"
            R"({"type":"input_json_delta","partial_json":"{\"x\": 1}"}})");
  EXPECT_EQ(events[11]["delta"]["stop_reason"], "tool_use");
  EXPECT_GT(events[11]["usage"]["output_tokens"], 0);
}

TEST_F(ApiTest, MessageStopReasons) {
  model().replies = {"one two"};
  Json json =
      post("/v1/messages", messageBody({{"stop_sequences", {" t"}}}))->json();
  EXPECT_EQ(json["stop_reason"], "stop_sequence");
  EXPECT_EQ(json["stop_sequence"], " t");
  json = post("/v1/messages", messageBody({{"max_tokens", 2}}))->json();
  EXPECT_EQ(json["stop_reason"], "max_tokens");
  model().replies = {"<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}"
                     "</tool_call>"};
  json =
      post("/v1/messages", messageBody({{"tools", kAnthropicTools}}))->json();
  EXPECT_EQ(json["stop_reason"], "tool_use");
  EXPECT_EQ(json["content"].dump(),
            R"([{"type":"tool_use","id":"toolu_0123456789abcdef01234567",)"
            R"("name":"add","input":{"x":1}}])");
}

TEST_F(ApiTest, MessageBlocksBecomeThePrompt) {
  Json messages = Json::parse(R"([
    {"role": "user", "content": [{"type": "text", "text": "2+2",
                                  "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": [
       {"type": "thinking", "thinking": "Hm", "signature": ""},
       {"type": "text", "text": "I add."},
       {"type": "tool_use", "id": "t1", "name": "add", "input": {"x": 4}}]},
    {"role": "user", "content": [
       {"type": "tool_result", "tool_use_id": "t1",
        "content": [{"type": "text", "text": "4"}]},
       {"type": "tool_result", "tool_use_id": "t2", "content": "no",
        "is_error": true},
       {"type": "text", "text": "So?"}]}])");
  auto answer = post("/v1/messages", messageBody({{"messages", messages}}));
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(asked().promptText,
            "<user>2+2<assistant>I add.[Hm]add({\"x\": 4})<tool>4"
            "<tool>Error: no<user>So?<assistant>");
}

TEST_F(ApiTest, MessageToolChoices) {
  post("/v1/messages", messageBody({{"tools", kAnthropicTools},
                                    {"tool_choice", {{"type", "none"}}}}));
  EXPECT_EQ(asked().grammar, nullptr);
  EXPECT_EQ(asked().promptText, "<user>Hi<assistant>") << "none are offered";
  for (const Json &choice :
       {Json{{"type", "any"}}, Json{{"type", "tool"}, {"name", "add"}}}) {
    post("/v1/messages",
         messageBody({{"tools", kAnthropicTools}, {"tool_choice", choice}}));
    EXPECT_NE(asked().grammar, nullptr) << choice;
  }
}

TEST_F(ApiTest, MessageTokensAreCounted) {
  Json body = messageBody();
  body.erase("max_tokens");
  auto answer = post("/v1/messages/count_tokens", body);
  EXPECT_EQ(answer->body, R"({"input_tokens":19})");
  EXPECT_TRUE(model().requests.empty());
}

TEST_F(ApiTest, MessageErrors) {
  struct {
    Json more;
    const char *words;
  } cases[] = {
      {{{"max_tokens", nullptr}}, "max_tokens is missing"},
      {{{"max_tokens", 0}}, "max_tokens must be a whole number from 1"},
      {{{"messages", Json::array()}}, "messages must have one message"},
      {{{"messages", {{{"role", "robot"}, {"content", "x"}}}}},
       "messages[0].role must be one of"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "image"}}}}}}}},
       "messages[0].content[0].type is an image"},
      {{{"tools", {{{"name", "w"}}}}}, "tools[0].input_schema is missing"},
      {{{"tool_choice", {{"type", "tool"}, {"name", "x"}}}},
       "tool_choice.name names none"},
      {{{"thinking", {{"type", 1}}}}, "thinking.type must be a string"},
      {{{"stop_sequences", 5}}, "stop_sequences must be"},
      {{{"system", 5}}, "system must be"},
      {{{"stream", "yes"}}, "stream must be true or false"}};
  for (const auto &test : cases) {
    auto answer = post("/v1/messages", messageBody(test.more));
    EXPECT_EQ(answer->status, 400) << test.more;
    Json json = answer->json();
    EXPECT_EQ(json["type"], "error");
    EXPECT_EQ(json["error"]["type"], "invalid_request_error");
    EXPECT_THAT(json["error"]["message"].get<std::string>(),
                HasSubstr(test.words));
  }
  EXPECT_EQ(request("GET", "/v1/messages")->json()["type"], "error");
  model().refusal = Status(StatusCode::DoesNotFit, "full");
  auto busy = post("/v1/messages", messageBody());
  EXPECT_EQ(busy->status, 503);
  EXPECT_EQ(busy->json()["error"]["type"], "overloaded_error");
  model().refusal = {};
  model().failure = Status(StatusCode::Internal, "broken");
  auto broken = post("/v1/messages", messageBody({{"stream", true}}));
  EXPECT_EQ(broken->eventNames().back(), "error");
  EXPECT_EQ(broken->events().back().dump(),
            R"({"type":"error","error":{"type":"api_error",)"
            R"("message":"broken"}})");
}

} // namespace
