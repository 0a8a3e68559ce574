// Errors of requests name the fault and its place, in every interface.
#include "ApiTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;

namespace {

std::string messageOf(const FakeAnswer &answer) {
  Json error = answer.json()["error"];
  return error.is_string() ? error.get<std::string>()
                           : error["message"].get<std::string>();
}

TEST_F(ApiTest, UnknownPathsAndMethods) {
  auto missing = request("GET", "/v1/nothing");
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(missing->body,
            R"({"error":{"message":"there is nothing at /v1/nothing",)"
            R"("type":"invalid_request_error","param":null,)"
            R"("code":"not_found"}})");
  auto wrong = request("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong->status, 405);
  EXPECT_EQ(wrong->headers, (HttpHeaders{{"Allow", "POST"}}));
  EXPECT_THAT(messageOf(*wrong),
              HasSubstr("/v1/chat/completions takes POST, not GET"));
  EXPECT_EQ(request("HEAD", "/v1/models")->status, 200);
  // Some clients end paths with a slash.
  EXPECT_EQ(request("GET", "/v1/models/")->status, 200);
}

TEST_F(ApiTest, BrokenJsonNamesTheLine) {
  auto answer = request("POST", "/v1/chat/completions", "{\n  \"a\": }");
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(messageOf(*answer), HasSubstr("body:2:8: is not valid JSON"));
  for (const char *body : {"", "[1]", "nul", "{\"a\":1e999}", "\xFF"}) {
    auto bad = request("POST", "/v1/chat/completions", body);
    EXPECT_EQ(bad->status, 400) << body;
    EXPECT_FALSE(messageOf(*bad).empty());
  }
  std::string deep = "{\"messages\": " + std::string(5000, '[');
  EXPECT_THAT(messageOf(*request("POST", "/v1/chat/completions", deep)),
              HasSubstr("nested more than 100 deep"));
}

struct Fault {
  const char *path, *body, *param, *words;
};
const Fault kFaults[] = {
    {"/v1/chat/completions", R"({})", "messages", "is missing"},
    {"/v1/chat/completions", R"({"messages": []})", "messages", "one message"},
    {"/v1/chat/completions", R"({"messages": [{"content": "a"}]})",
     "messages[0].role", "is missing"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}, {"role": 5}]})",
     "messages[1].role", "a string"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content",
     "a string or a list of parts, but is 5"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": [{"type": "text",
        "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]}]})",
     "messages[0].content[1].type", "is an image, but this model reads text"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "assistant", "tool_calls": [{"function":
        {"arguments": "{}"}}]}]})",
     "messages[0].tool_calls[0].function.name", "is missing"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "temperature": -1})",
     "temperature", "a number from 0 to 100, but is -1"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1.5})",
     "max_tokens", "a whole number from -1"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "n": 1e300})", "n",
     "a whole number from 1 to 128"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}],
        "seed": 123456789012345678901234567890})",
     "seed", "a whole number"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "stop": ["a", ""]})",
     "stop", "empty text"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}],
        "logit_bias": {"x": 1}})",
     "logit_bias.x", "a token's number"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}],
        "logit_bias": {"99999": 1}})",
     "logit_bias", "names token 99999"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})",
     "top_logprobs", "needs logprobs"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}],
        "tool_choice": "required"})",
     "tool_choice", "there are none"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "tools": [
        {"type": "function", "function": {"name": "f"}}], "tool_choice":
        {"type": "function", "function": {"name": "g"}}})",
     "tool_choice.function.name", "names none of the tools"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "tools": [
        {"type": "function", "function": {"name": "f", "strict": true,
         "parameters": {"type": "object", "not": {}}}}]})",
     "tools", "\"f\""},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "response_format":
        {"type": "json_schema", "json_schema": {"schema": {"type": "object",
         "properties": {"a": {"$ref": "b.json"}}}}}})",
     "response_format.json_schema.schema", "#/properties/a"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "response_format":
        {"type": "json_object"}, "grammar": "root ::= \"a\""})",
     "grammar", "cannot be combined with response_format"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}],
        "grammar": "root = 1"})",
     "grammar", "cannot be used"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "functions": [{}]})",
     "functions[0].name", "is missing"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}], "functions": [
        {"name": "f"}], "function_call": {"name": "g"}})",
     "function_call.name", "names none of the tools"},
    {"/v1/chat/completions",
     R"({"messages": [{"role": "user", "content": "a"}],
        "chat_template_kwargs": {"messages": []}})",
     "chat_template_kwargs.messages", "a field of its own"},
    {"/v1/completions", R"({})", "prompt", "is missing"},
    {"/v1/completions", R"({"prompt": []})", "prompt", "not empty"},
    {"/v1/completions", R"({"prompt": [1, "a"]})", "prompt[1]",
     "a whole number"},
    {"/v1/completions", R"({"prompt": [99999]})", "prompt", "has token 99999"},
    {"/v1/completions", R"({"prompt": "a", "best_of": 3})", "best_of",
     "unless it equals n"},
};

TEST_F(ApiTest, FaultsNameTheirField) {
  for (const Fault &fault : kFaults) {
    auto answer = request("POST", fault.path, fault.body);
    EXPECT_EQ(answer->status, 400) << fault.body;
    Json error = answer->json()["error"];
    EXPECT_EQ(error["param"], fault.param) << fault.body << answer->body;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(fault.words));
    EXPECT_EQ(error["type"], "invalid_request_error");
  }
  EXPECT_TRUE(model().requests.empty());
}

TEST_F(ApiTest, NeutralAndUnknownFieldsAreIgnored) {
  auto answer = request("POST", "/v1/chat/completions",
                        R"({"messages": [{"role": "user", "content": "a"}],
    "mirostat": 2, "typical_p": 0.7, "user": "x", "store": true, "metadata": {},
    "functions": [], "tools": null, "stop": null, "stream_options": null,
    "temperature": null, "something": {"new": 1}, "parallel_tool_calls": true})");
  EXPECT_EQ(answer->status, 200) << answer->body;
}

/// Values of every type; a field that takes a type must be given others.
struct Typed {
  const char *name, *takes;
};

/// Each field with each type that it does not take is a 400 that names it.
void expectTypesAreChecked(ApiTest &, const HttpHandler &handler,
                           const char *path, const Json &valid,
                           const std::vector<Typed> &fields) {
  const std::pair<char, Json> values[] = {
      {'b', true},   {'n', 0.5},    {'i', 1},
      {'s', "text"}, {'l', {1, 2}}, {'o', {{"key", {{"x", 1}}}}}};
  for (const Typed &field : fields)
    for (const auto &[type, value] : values) {
      if (std::string_view(field.takes).find(type) != std::string_view::npos)
        continue;
      Json body = valid;
      body[Json::json_pointer("/" + std::string(field.name))] = value;
      auto answer = std::make_shared<FakeAnswer>();
      HttpRequest request;
      request.method = "POST";
      request.path = path;
      request.body = body.dump();
      handler(std::move(request), answer);
      EXPECT_EQ(answer->status, 400) << path << " " << body;
      std::string name = field.name;
      std::replace(name.begin(), name.end(), '/', '.');
      EXPECT_THAT(messageOf(*answer), HasSubstr(name)) << body;
    }
}

TEST_F(ApiTest, TypesOfEveryField) {
  const std::vector<Typed> sampling = {{"temperature", "ni"},
                                       {"top_p", "ni"},
                                       {"min_p", "ni"},
                                       {"presence_penalty", "ni"},
                                       {"frequency_penalty", "ni"},
                                       {"repetition_penalty", "ni"},
                                       {"repeat_penalty", "ni"},
                                       {"top_k", "i"},
                                       {"repeat_last_n", "i"},
                                       {"seed", "i"},
                                       {"logit_bias", ""},
                                       {"stop", "s"},
                                       {"stream", "b"},
                                       {"mirostat", "ni"}};
  std::vector<Typed> chat = sampling;
  for (const Typed &field : std::vector<Typed>{{"model", "s"},
                                               {"messages", ""},
                                               {"max_tokens", "i"},
                                               {"max_completion_tokens", "i"},
                                               {"n", "i"},
                                               {"logprobs", "b"},
                                               {"top_logprobs", ""},
                                               {"tools", ""},
                                               {"tool_choice", ""},
                                               {"parallel_tool_calls", "b"},
                                               {"response_format", ""},
                                               {"reasoning_effort", "s"},
                                               {"grammar", ""},
                                               {"guided_regex", "s"},
                                               {"regex", "s"},
                                               {"guided_choice", ""},
                                               {"stream_options", "o"},
                                               {"chat_template_kwargs", "o"},
                                               {"ignore_eos", "b"}})
    chat.push_back(field);
  Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  expectTypesAreChecked(*this, handler_, "/v1/chat/completions",
                        {{"messages", messages}}, chat);
  std::vector<Typed> text = sampling;
  for (const Typed &field : std::vector<Typed>{{"model", "s"},
                                               {"prompt", "sl"},
                                               {"max_tokens", "i"},
                                               {"n", "i"},
                                               {"echo", "b"},
                                               {"suffix", "s"},
                                               {"logprobs", "i"},
                                               {"best_of", "i"},
                                               {"stream_options", "o"}})
    text.push_back(field);
  expectTypesAreChecked(*this, handler_, "/v1/completions", {{"prompt", "a"}},
                        text);
}

TEST_F(ApiTest, APromptThatDoesNotFit) {
  model().modelFacts.contextTokens = 10;
  auto answer = request("POST", "/v1/completions",
                        R"({"prompt": "more than ten tokens"})");
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(answer->json()["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(messageOf(*answer), HasSubstr("20 tokens"));
  EXPECT_EQ(answer->json()["error"]["n_prompt_tokens"], 20);
  EXPECT_EQ(answer->json()["error"]["n_ctx"], 10);
}

TEST_F(ApiTest, AModelWithoutATemplate) {
  host_.backends[0] = std::make_shared<FakeBackend>("");
  auto answer = request("POST", "/v1/chat/completions",
                        R"({"messages": [{"role": "user", "content": "a"}]})");
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(messageOf(*answer), HasSubstr("no chat template"));
  host_.backends[0] =
      std::make_shared<FakeBackend>("{{ raise_exception('No!') }}");
  answer = request("POST", "/v1/chat/completions",
                   R"({"messages": [{"role": "user", "content": "a"}]})");
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(messageOf(*answer), HasSubstr("No!"));
}

// Clients branch on the types of their interface.
TEST_F(ApiTest, RefusalsHaveTheFormOfTheirInterface) {
  EXPECT_EQ(refusalBody("/v1/chat/completions", 401, "no key"),
            R"({"error":{"message":"no key","type":"authentication_error",)"
            R"("param":null,"code":"invalid_api_key"}})");
  EXPECT_EQ(refusalBody("/v1/messages", 401, "no key"),
            R"({"type":"error","error":{"type":"authentication_error",)"
            R"("message":"no key"}})");
  EXPECT_EQ(refusalBody("/api/chat", 401, "no key"), R"({"error":"no key"})");
  EXPECT_EQ(refusalBody("", 431, "long"),
            R"({"error":{"message":"long","type":"server_error",)"
            R"("param":null,"code":null}})");
}

} // namespace
