// Requests and answers of OpenAI's interface.
#include "ApiTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;

namespace {

const Json kHi = Json::array({{{"role", "user"}, {"content", "Hi"}}});

Json chatBody(Json more = Json::object()) {
  Json body = {{"model", "tiny"}, {"messages", kHi}};
  body.update(more);
  return body;
}

// Roles of older clients and of models' own templates have their meaning; the
// text of any other role is the user's, under its name.
TEST_F(ApiTest, RolesThatTemplatesDoNotKnow) {
  Json messages = Json::parse(R"([
    {"role": "user", "content": "A"}, {"role": "model", "content": "B"},
    {"role": "king", "content": "C"}, {"role": "model", "content": "D"},
    {"role": "user", "content": "E"}])");
  post("/v1/chat/completions", chatBody({{"messages", messages}}));
  EXPECT_EQ(byteTokenizer().decode(asked().prompt),
            "<user>A<assistant>B<user>[king]\nC<assistant>D<user>E<assistant>");
}

TEST_F(ApiTest, AChatCompletion) {
  auto answer = post("/v1/chat/completions", chatBody({{"seed", 3}}));
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->type, "application/json");
  Json json = answer->json();
  EXPECT_GT(json["timings"]["predicted_per_second"], 0);
  json.erase("timings");
  EXPECT_EQ(json.dump(),
            std::string(R"({"id":"chatcmpl-)") + kId +
                R"(","object":"chat.completion","created":1700000001,)"
                R"("model":"tiny","choices":[{"index":0,"message":)"
                R"({"role":"assistant","content":"Hello","refusal":null},)"
                R"("logprobs":null,"finish_reason":"stop"}],"usage":)"
                R"({"prompt_tokens":19,"completion_tokens":5,)"
                R"("total_tokens":24,"prompt_tokens_details":)"
                R"({"cached_tokens":2},"completion_tokens_details":)"
                R"({"reasoning_tokens":0}}})");
  EXPECT_EQ(asked().promptText, "<user>Hi<assistant>");
  EXPECT_EQ(asked().client, "alice");
  EXPECT_EQ(asked().sampling.seed, 3u);
  EXPECT_NE(asked().reply.speech, nullptr);
}

TEST_F(ApiTest, AChatStream) {
  model().replies = {"<think>\nHm\n</think>Yo"};
  auto answer = post("/v1/chat/completions",
                     chatBody({{"stream", true},
                               {"stream_options", {{"include_usage", true}}}}));
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->type, "text/event-stream");
  EXPECT_EQ(answer->ping, ": ping\n\n");
  EXPECT_TRUE(answer->hasEnded);
  std::string head = std::string(R"({"id":"chatcmpl-)") + kId +
                     R"(","object":"chat.completion.chunk","created":)"
                     R"(1700000001,"model":"tiny","choices":[)";
  std::vector<Json> events = answer->events();
  ASSERT_EQ(events.size(), 8u);
  auto delta = [&](const char *json) {
    return head + R"({"index":0,"delta":)" + json +
           R"(,"logprobs":null,"finish_reason":null}]})";
  };
  EXPECT_EQ(events[0].dump(), delta(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(events[1].dump(), delta(R"({"reasoning_content":"H"})"));
  EXPECT_EQ(events[3].dump(), delta(R"({"content":"Y"})"));
  EXPECT_EQ(events[5]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[5]["choices"][0]["delta"], Json::object());
  EXPECT_TRUE(events[5].contains("timings"));
  EXPECT_EQ(events[6]["choices"], Json::array());
  EXPECT_EQ(events[6]["usage"]["completion_tokens"], 8);
  EXPECT_EQ(events[6]["usage"]["completion_tokens_details"]["reasoning_tokens"],
            2);
  EXPECT_EQ(events[7], "[DONE]");
}

TEST_F(ApiTest, SeveralChoicesHaveSeedsOfTheirOwn) {
  model().replies = {"a", "b"};
  Json json =
      post("/v1/chat/completions", chatBody({{"n", 2}, {"seed", 5}}))->json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(json["choices"][1]["message"]["content"], "b");
  EXPECT_EQ(json["choices"][1]["index"], 1);
  EXPECT_EQ(json["usage"]["prompt_tokens"], 19) << "counted once";
  EXPECT_EQ(json["usage"]["completion_tokens"], 2);
  EXPECT_EQ(model().requests[0].sampling.seed, 5u);
  EXPECT_EQ(model().requests[1].sampling.seed, 6u);
}

TEST_F(ApiTest, SamplingIsPassedOn) {
  post("/v1/chat/completions", chatBody({{"temperature", 0.5},
                                         {"top_p", 0.9},
                                         {"top_k", 7},
                                         {"min_p", 0.1},
                                         {"presence_penalty", 0.25},
                                         {"frequency_penalty", -0.5},
                                         {"repeat_penalty", 1.25},
                                         {"logit_bias", {{"65", 2.5}}},
                                         {"stop", "END"},
                                         {"max_completion_tokens", 9}}));
  const SamplerParams &sampling = asked().sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(sampling.topP, 0.9f);
  EXPECT_EQ(sampling.topK, 7u);
  EXPECT_FLOAT_EQ(sampling.minP, 0.1f);
  EXPECT_FLOAT_EQ(sampling.presencePenalty, 0.25f);
  EXPECT_FLOAT_EQ(sampling.frequencyPenalty, -0.5f);
  EXPECT_FLOAT_EQ(sampling.repetitionPenalty, 1.25f);
  EXPECT_EQ(sampling.logitBias, (std::map<int32_t, float>{{65, 2.5f}}));
  EXPECT_EQ(asked().reply.stops, std::vector<std::string>{"END"});
  EXPECT_EQ(asked().reply.maxTokens, 9);
}

TEST_F(ApiTest, ALimitOrAStopEndsAReply) {
  model().replies = {"one two"};
  EXPECT_EQ(post("/v1/chat/completions", chatBody({{"max_tokens", 3}}))
                ->json()["choices"][0]["finish_reason"],
            "length");
  Json stopped =
      post("/v1/chat/completions", chatBody({{"stop", {"x", " t"}}}))->json();
  EXPECT_EQ(stopped["choices"][0]["message"]["content"], "one");
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
}

TEST_F(ApiTest, LogprobsAreThoseOfTheAnswer) {
  model().replies = {"<think>a</think>\xC3\xA4"};
  Json json = post("/v1/chat/completions",
                   chatBody({{"logprobs", true}, {"top_logprobs", 1}}))
                  ->json();
  const Json &content = json["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(json["choices"][0]["message"]["reasoning_content"], "a");
  // Both bytes of the character are listed; marks have no bytes.
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[1].dump(),
            "{\"token\":\"\uFFFD\",\"logprob\":-0.5,\"bytes\":[164],"
            "\"top_logprobs\":[{\"token\":\"\uFFFD\",\"logprob\":-0.5,"
            "\"bytes\":[164]}]}");
}

const Json kOpenAiTools = Json::parse(R"([{"type": "function", "function": {
  "name": "add", "description": "Adds.", "parameters": {"type": "object",
  "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}])");

TEST_F(ApiTest, ToolCallsAreFound) {
  model().replies = {
      "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n"
      "</tool_call>"};
  Json json =
      post("/v1/chat/completions", chatBody({{"tools", kOpenAiTools}}))->json();
  const Json &choice = json["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "I add.");
  EXPECT_EQ(choice["message"]["tool_calls"].dump(),
            R"([{"id":"call_0123456789abcdef01234567","type":"function",)"
            R"("function":{"name":"add","arguments":"{\"x\": 1}"}}])");
  EXPECT_THAT(asked().promptText, HasSubstr("\"description\": \"Adds.\""));
  EXPECT_NE(asked().grammar, nullptr) << "held to its schema once it begins";
}

TEST_F(ApiTest, ToolCallsAreStreamed) {
  model().bytesPerEvent = 1000;
  model().replies = {"<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}"
                     "</tool_call>"};
  auto answer = post("/v1/chat/completions",
                     chatBody({{"tools", kOpenAiTools}, {"stream", true}}));
  std::vector<Json> events = answer->events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1]["choices"][0]["delta"].dump(),
            R"({"tool_calls":[{"index":0,"id":"call_0123456789abcdef01234567",)"
            R"("type":"function","function":{"name":"add","arguments":""}}]})");
  EXPECT_EQ(events[2]["choices"][0]["delta"].dump(),
            R"({"tool_calls":[{"index":0,"function":)"
            R"({"arguments":"{\"x\": 1}"}}]})");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "tool_calls");
}

// The form that tools had before they were tools.
TEST_F(ApiTest, FunctionsAreCalledInTheFormOfFunctions) {
  model().bytesPerEvent = 1000;
  model().replies = {"<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}"
                     "</tool_call>"};
  const Json functions = Json::array(
      {{{"name", "add"},
        {"description", "Adds."},
        {"parameters",
         {{"type", "object"}, {"properties", {{"x", {{"type", "integer"}}}}}}}},
       {{"name", "ask"}, {"parameters", {{"type", "object"}}}}});
  Json choice =
      post("/v1/chat/completions", chatBody({{"functions", functions}}))
          ->json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "function_call");
  EXPECT_EQ(choice["message"].dump(),
            R"({"role":"assistant","content":null,"refusal":null,)"
            R"("function_call":{"name":"add","arguments":"{\"x\": 1}"}})");
  EXPECT_THAT(asked().promptText, HasSubstr("\"description\": \"Adds.\""));

  auto events = post("/v1/chat/completions",
                     chatBody({{"functions", functions},
                               {"function_call", {{"name", "add"}}},
                               {"stream", true}}))
                    ->events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1]["choices"][0]["delta"].dump(),
            R"({"function_call":{"name":"add","arguments":""}})");
  EXPECT_EQ(events[2]["choices"][0]["delta"].dump(),
            R"({"function_call":{"arguments":"{\"x\": 1}"}})");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "function_call");
  EXPECT_NE(asked().grammar, nullptr) << "the call is forced";

  // The calls and their results are in the next prompt.
  Json messages = Json::array(
      {{{"role", "user"}, {"content", "Hi"}},
       {{"role", "assistant"},
        {"content", nullptr},
        {"function_call", {{"name", "add"}, {"arguments", "{\"x\": 1}"}}}},
       {{"role", "function"}, {"name", "add"}, {"content", "one more"}}});
  model().replies = {"Done"};
  choice = post("/v1/chat/completions", {{"messages", messages},
                                         {"functions", functions},
                                         {"function_call", "none"}})
               ->json()["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "Done");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_THAT(asked().promptText,
              HasSubstr("<assistant>add({\"x\": 1})<tool>one more"));
}

TEST_F(ApiTest, AMalformedCallIsAnError) {
  model().replies = {"<tool_call>{\"name\": \"add\", \"arguments\": {x}}"};
  auto whole =
      post("/v1/chat/completions", chatBody({{"tools", kOpenAiTools}}));
  EXPECT_EQ(whole->status, 422);
  EXPECT_EQ(whole->json()["error"]["code"], "malformed_tool_call");
  EXPECT_THAT(whole->json()["error"]["message"].get<std::string>(),
              HasSubstr("not valid JSON"));
  auto stream = post("/v1/chat/completions",
                     chatBody({{"tools", kOpenAiTools}, {"stream", true}}));
  EXPECT_EQ(stream->status, 200);
  EXPECT_TRUE(stream->hasEnded);
  EXPECT_EQ(stream->events().back()["error"]["code"], "malformed_tool_call");
}

TEST_F(ApiTest, ACallThatIsCutHasWhatThereIs) {
  model().replies = {"Well <tool_call>{\"name\": \"add\", \"arguments\": "
                     "{\"x\": 123456}}</tool_call>"};
  Json more = {{"tools", kOpenAiTools}, {"max_tokens", 55}};
  Json choice =
      post("/v1/chat/completions", chatBody(more))->json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["content"], "Well");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"].dump(),
            R"({"name":"add","arguments":"{\"x\": 1234"})");
  Json stopped = post("/v1/chat/completions",
                      chatBody({{"tools", kOpenAiTools}, {"stop", "345"}}))
                     ->json()["choices"][0];
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["message"]["content"], "Well");
  EXPECT_EQ(stopped["message"]["tool_calls"][0]["function"]["arguments"],
            "{\"x\": 12");
  more["stream"] = true;
  auto events = post("/v1/chat/completions", chatBody(more))->events();
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
  Json message =
      post("/v1/messages",
           {{"model", "tiny"},
            {"max_tokens", 55},
            {"messages", {{{"role", "user"}, {"content", "Hi"}}}},
            {"tools",
             {{{"name", "add"}, {"input_schema", {{"type", "object"}}}}}}})
          ->json();
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_EQ(message["content"].dump(), R"([{"type":"text","text":"Well"}])");
  Json response =
      post("/v1/responses", {{"input", "Hi"},
                             {"max_output_tokens", 55},
                             {"tools",
                              {{{"type", "function"},
                                {"name", "add"},
                                {"parameters", {{"type", "object"}}}}}}})
          ->json();
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["output"][0]["status"], "completed");
  EXPECT_EQ(response["output"][1]["status"], "incomplete");
}

TEST_F(ApiTest, MessagesBecomeThePrompt) {
  Json messages = Json::parse(R"([
    {"role": "developer", "content": [{"type": "text", "text": "Be"},
                                      {"type": "text", "text": "kind."}]},
    {"role": "user", "content": "2+2 </s>"},
    {"role": "assistant", "content": null, "reasoning_content": "Hm",
     "tool_calls": [{"id": "c1", "type": "function",
                     "function": {"name": "add", "arguments": "{\"x\":4}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"}])");
  post("/v1/chat/completions",
       chatBody({{"messages", messages},
                 {"reasoning_effort", "minimal"},
                 {"chat_template_kwargs", {{"extra", "yes"}}}}));
  std::string text = byteTokenizer().decode(asked().prompt);
  EXPECT_EQ(text, "<system>Bekind.<user>2+2 </s><assistant>[Hm]"
                  "add({\"x\": 4})<tool>4effort=lowextra=yes<assistant>");
  for (int32_t token : asked().prompt)
    EXPECT_NE(token, endToken()) << "a user cannot end a turn";
}

TEST_F(ApiTest, FormatsBecomeGrammars) {
  post("/v1/chat/completions", chatBody());
  EXPECT_EQ(asked().grammar, nullptr);
  const Json formats[] = {
      {{"response_format", {{"type", "json_object"}}}},
      {{"response_format",
        {{"type", "json_schema"},
         {"json_schema", {{"name", "n"}, {"schema", {{"type", "object"}}}}}}}},
      {{"grammar", "root ::= \"a\""}},
      {{"guided_regex", "[0-9]+"}},
      {{"guided_choice", {"yes", "no"}}}};
  for (const Json &format : formats) {
    EXPECT_EQ(post("/v1/chat/completions", chatBody(format))->status, 200);
    EXPECT_NE(asked().grammar, nullptr) << format;
  }
  EXPECT_EQ(post("/v1/chat/completions",
                 chatBody({{"response_format", {{"type", "text"}}}}))
                ->status,
            200);
  EXPECT_EQ(asked().grammar, nullptr);
}

TEST_F(ApiTest, AClientThatLeavesCancels) {
  model().waits = true;
  auto answer = post("/v1/chat/completions", chatBody({{"n", 2}}));
  EXPECT_TRUE(model().cancelled.empty());
  answer->leave();
  EXPECT_EQ(model().cancelled, (std::vector<uint64_t>{1, 2}));
  model().play();
  EXPECT_EQ(answer->status, 0) << "nobody reads it";
}

TEST_F(ApiTest, ErrorsBeforeAndAfterTheFirstByte) {
  model().refusal = Status(StatusCode::DoesNotFit, "the queue is full");
  auto refused = post("/v1/chat/completions", chatBody({{"stream", true}}));
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->headers, (HttpHeaders{{"Retry-After", "7"}}));
  EXPECT_EQ(refused->json()["error"]["type"], "overloaded_error");
  model().refusal = {};
  model().failure = Status(StatusCode::Internal, "a step failed");
  EXPECT_EQ(post("/v1/chat/completions", chatBody())->status, 500);
  auto later = post("/v1/chat/completions", chatBody({{"stream", true}}));
  EXPECT_EQ(later->status, 200);
  EXPECT_EQ(later->events().back().dump(),
            R"({"error":{"message":"a step failed","type":"server_error",)"
            R"("param":null,"code":null}})");
  EXPECT_TRUE(later->hasEnded);
  model().failure = Status(StatusCode::Unsupported, "the grammar cannot go on");
  EXPECT_EQ(post("/v1/chat/completions", chatBody())->status, 422);
}

TEST_F(ApiTest, Models) {
  Json list = request("GET", "/v1/models")->json();
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "tiny");
  EXPECT_EQ(list["data"][0]["created"], 1700000000);
  EXPECT_EQ(request("GET", "/v1/models/tiny")->json(), list["data"][0]);
  EXPECT_EQ(request("GET", "/v1/models/other")->status, 404);
  // One model serves any name, and says its own.
  EXPECT_EQ(post("/v1/chat/completions", chatBody({{"model", "gpt-4"}}))
                ->json()["model"],
            "tiny");
  host_.backends.push_back(std::make_shared<FakeBackend>());
  host_.backends[1]->modelFacts.id = "other";
  auto unknown = post("/v1/chat/completions", chatBody({{"model", "gpt-4"}}));
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(unknown->json()["error"]["code"], "model_not_found");
  EXPECT_EQ(post("/v1/chat/completions", chatBody({{"model", "other"}}))
                ->json()["model"],
            "other");
}

TEST_F(ApiTest, TextCompletions) {
  Json json =
      post("/v1/completions", {{"prompt", "Say"}, {"echo", true}})->json();
  EXPECT_EQ(json["id"], std::string("cmpl-") + kId);
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["choices"].dump(),
            R"([{"index":0,"text":"SayHello","logprobs":null,)"
            R"("finish_reason":"stop"}])");
  EXPECT_EQ(byteTokenizer().decode(asked().prompt), "Say");
  EXPECT_EQ(asked().reply.speech, nullptr);
  json = post("/v1/completions", {{"prompt", {"a", "b"}}, {"n", 2}})->json();
  EXPECT_EQ(json["choices"].size(), 4u);
  json = post("/v1/completions",
              {{"prompt", {72, 105}}, {"logprobs", 1}, {"max_tokens", 1}})
             ->json();
  EXPECT_EQ(asked().prompt, (std::vector<int32_t>{72, 105}));
  EXPECT_EQ(json["choices"][0]["logprobs"].dump(),
            R"({"tokens":["H"],"token_logprobs":[-0.5],)"
            R"("top_logprobs":[{"H":-0.5}],"text_offset":[0]})");
  json = post("/v1/completions", {{"prompt", {{72}, {105}}}})->json();
  EXPECT_EQ(json["choices"].size(), 2u);
  post("/v1/completions", {{"prompt", "a"}, {"suffix", "b"}});
  EXPECT_EQ(asked().prompt, (std::vector<int32_t>{260, 'a', 261, 'b', 262}));
}

TEST_F(ApiTest, TextStreams) {
  auto answer = post("/v1/completions",
                     {{"prompt", "Say"}, {"stream", true}, {"echo", true}});
  std::vector<Json> events = answer->events();
  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(events[0]["choices"][0]["text"], "Say");
  EXPECT_EQ(events[1]["choices"][0].dump(),
            R"({"index":0,"text":"H","logprobs":null,"finish_reason":null})");
  EXPECT_EQ(events[6]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[7], "[DONE]");
}

// Programs that measure likelihoods ask in this form.
TEST_F(ApiTest, AnEchoHasTheProbabilitiesOfThePrompt) {
  Json body = {{"prompt", "ab </s>"},
               {"echo", true},
               {"logprobs", 1},
               {"max_tokens", 1}};
  Json choice = post("/v1/completions", body)->json()["choices"][0];
  EXPECT_TRUE(asked().promptLogprobs);
  EXPECT_EQ(choice["text"], "ab </s>H");
  Json logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"].dump(), R"(["a","b"," ","</s>","H"])");
  EXPECT_EQ(logprobs["token_logprobs"].dump(), "[null,-0.25,-0.25,-0.25,-0.5]");
  EXPECT_EQ(logprobs["top_logprobs"].size(), 5u);
  EXPECT_EQ(logprobs["text_offset"].dump(), "[0,1,2,3,7]");
  body["stream"] = true;
  auto events = post("/v1/completions", body)->events();
  EXPECT_EQ(events[0]["choices"][0]["text"], "ab </s>");
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["tokens"].size(), 4u);
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["text_offset"].dump(), "[7]");
}

TEST_F(ApiTest, ToolsOfATemplateWithoutAForm) {
  host_.backends[0] = std::make_shared<FakeBackend>(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  model().replies = {"<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n"
                     "</tool_call>"};
  Json body = {
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}},
      {"tools", {{{"type", "function"}, {"function", {{"name", "add"}}}}}}};
  Json choice = post("/v1/chat/completions", body)->json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "add");
  EXPECT_THAT(asked().promptText, ::testing::StartsWith("<system># Tools\n"));
  EXPECT_NE(asked().grammar, nullptr);
  // A template that refuses system messages has them in the user's.
  host_.backends[0] = std::make_shared<FakeBackend>(
      "{% for m in messages %}{% if m.role == 'system' %}"
      "{{ raise_exception('no system') }}{% endif %}<{{ m.role }}>"
      "{{ m.content }}{% endfor %}");
  EXPECT_EQ(post("/v1/chat/completions", body)->status, 200);
  EXPECT_THAT(asked().promptText, ::testing::StartsWith("<user># Tools\n"));
}

// Harnesses look for the chosen token among the likely ones.
TEST_F(ApiTest, TheChosenTokenIsAmongTheLikelyOnes) {
  Json json =
      post("/v1/completions", {{"prompt", "a"}, {"logprobs", 0}})->json();
  Json logprobs = json["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"][0], "H");
  EXPECT_EQ(logprobs["top_logprobs"][0].dump(), R"({"H":-0.5})");
}

} // namespace
