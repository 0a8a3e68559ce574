// What limits or changes an answer is honoured or refused, by every interface.
#include "ApiTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;

namespace {

const Json kSchema = Json::parse(
    R"({"type": "object", "properties": {"a": {"type": "integer"}}})");

Json hello(Json more = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(more);
  return body;
}

TEST_F(ApiTest, AMessageFollowsItsSchema) {
  const Json format = {{"type", "json_schema"}, {"schema", kSchema}};
  for (const Json &more : {Json{{"output_config", {{"format", format}}}},
                           Json{{"output_format", format}}}) {
    Json body = hello(more);
    body["max_tokens"] = 10;
    auto answer = post("/v1/messages", body);
    EXPECT_EQ(answer->status, 200) << answer->body;
    EXPECT_NE(asked().grammar, nullptr) << more;
  }
  Json both = hello({{"max_tokens", 10},
                     {"output_config", {{"format", format}}},
                     {"output_format", format}});
  EXPECT_EQ(post("/v1/messages", both)->status, 200) << "the same twice";
  both["output_format"]["schema"] = true;
  EXPECT_EQ(post("/v1/messages", both)->status, 400) << "two formats";
  Json wrong = hello(
      {{"max_tokens", 10}, {"output_config", {{"format", {{"type", "xml"}}}}}});
  EXPECT_THAT(post("/v1/messages", wrong)->body,
              HasSubstr("output_config.format.type must be"));
}

TEST_F(ApiTest, SchemasAndGrammarsByEveryName) {
  const std::pair<const char *, Json> fields[] = {
      {"json_schema", kSchema},
      {"guided_json", kSchema},
      {"grammar", "root ::= \"a\""},
      {"guided_grammar", "root ::= \"a\""},
      {"guided_regex", "a+"},
      {"guided_choice", {"a", "b"}},
      {"structured_outputs", {{"json", kSchema}}},
      {"structured_outputs", {{"regex", "a+"}}},
      {"structured_outputs", {{"choice", {"a"}}}},
      {"structured_outputs", {{"json_object", true}}}};
  for (const auto &[name, value] : fields)
    for (const char *path :
         {"/v1/chat/completions", "/v1/completions", "/completion"}) {
      Json body = hello({{"prompt", "a"}, {name, value}});
      auto answer = post(path, body);
      ASSERT_EQ(answer->status, 200) << path << name << answer->body;
      EXPECT_NE(asked().grammar, nullptr) << path << " " << name;
    }
}

TEST_F(ApiTest, TwoConstraintsAreRefused) {
  auto answer = post("/v1/chat/completions",
                     hello({{"response_format", {{"type", "json_object"}}},
                            {"guided_json", kSchema}}));
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(answer->json()["error"]["param"], "guided_json");
  EXPECT_EQ(post("/v1/chat/completions",
                 hello({{"json_schema", kSchema}, {"grammar", "root ::= []"}}))
                ->status,
            400);
}

TEST_F(ApiTest, FieldsThatWouldChangeTheAnswerAreRefused) {
  const std::pair<const char *, Json> fields[] = {
      {"post_sampling_probs", true},
      {"grammar_lazy", true},
      {"structured_outputs", {{"structural_tag", "{}"}}}};
  for (const auto &[name, value] : fields)
    for (const char *path :
         {"/v1/chat/completions", "/v1/completions", "/completion"}) {
      auto answer = post(path, hello({{"prompt", "a"}, {name, value}}));
      EXPECT_EQ(answer->status, 400) << path << name;
      EXPECT_THAT(answer->body, HasSubstr(name));
    }
  EXPECT_TRUE(model().requests.empty());
  EXPECT_EQ(
      post("/completion", {{"prompt", "a"}, {"grammar_lazy", false}})->status,
      200);
}

TEST_F(ApiTest, ACompletionHasAsManyChoicesAsItIsAskedFor) {
  for (const char *name : {"n", "n_cmpl"}) {
    Json json = post("/completion", {{"prompt", "a"}, {name, 2}})->json();
    ASSERT_EQ(json.size(), 2u) << json;
    EXPECT_EQ(json[1]["index"], 1);
    EXPECT_EQ(json[1]["content"], "Hello");
  }
  EXPECT_EQ(post("/completion", {{"prompt", "a"}, {"n", 0}})->status, 400);
}

TEST_F(ApiTest, LimitsOfTokensByEveryName) {
  for (const char *path : {"/v1/chat/completions", "/v1/completions"}) {
    for (const char *name : {"max_tokens", "n_predict"}) {
      post(path, hello({{"prompt", "a"}, {name, -1}}));
      ASSERT_FALSE(model().requests.empty()) << path << name;
      EXPECT_EQ(asked().reply.maxTokens, -1) << path << name;
      post(path, hello({{"prompt", "a"}, {name, 3}}));
      EXPECT_EQ(asked().reply.maxTokens, 3) << path << name;
      EXPECT_EQ(post(path, hello({{"prompt", "a"}, {name, -2}}))->status, 400);
    }
  }
}

const Json kPrefilled = Json::parse(R"([{"role": "user", "content": "Hi"},
  {"role": "assistant", "content": "Hello there, my "}])");

// The assistant's last message is the beginning of the answer.
TEST_F(ApiTest, AnUnfinishedMessageIsGoneOnWith) {
  const std::string expected = "<user>Hi<assistant>Hello there, my ";
  for (const char *path :
       {"/v1/chat/completions", "/v1/messages", "/api/chat"}) {
    auto answer = post(
        path, {{"model", "tiny"}, {"messages", kPrefilled}, {"max_tokens", 5}});
    EXPECT_EQ(answer->status, 200) << path << answer->body;
    EXPECT_EQ(asked().promptText, expected) << path;
    EXPECT_EQ(byteTokenizer().decode(asked().prompt), expected) << path;
  }
  EXPECT_EQ(
      post("/apply-template", {{"messages", kPrefilled}})->json()["prompt"],
      expected);
}

TEST_F(ApiTest, WhetherAMessageIsGoneOnWithCanBeSaid) {
  auto prompt = [&](Json more) {
    more["messages"] = kPrefilled;
    return post("/apply-template", more)->json()["prompt"];
  };
  const std::string open = "<user>Hi<assistant>Hello there, my ";
  EXPECT_EQ(prompt({{"continue_final_message", true}}), open);
  EXPECT_EQ(prompt({{"continue_final_message", true},
                    {"add_generation_prompt", false}}),
            open);
  EXPECT_EQ(prompt({{"continue_final_message", false}}), open + "<assistant>");
  EXPECT_EQ(prompt({{"add_generation_prompt", true}}), open + "<assistant>");
  EXPECT_EQ(post("/v1/chat/completions", {{"messages", kPrefilled},
                                          {"continue_final_message", true},
                                          {"add_generation_prompt", true}})
                ->status,
            400);
  EXPECT_EQ(
      post("/v1/chat/completions", hello({{"continue_final_message", true}}))
          ->status,
      400);
  Json calls = kPrefilled;
  calls[1]["tool_calls"] =
      Json::parse(R"([{"function": {"name": "f", "arguments": "{}"}}])");
  post("/v1/chat/completions", {{"messages", calls}});
  EXPECT_TRUE(asked().promptText.ends_with("f({})<assistant>"));
  host_.backends[0] = std::make_shared<FakeBackend>(
      "{% if add_generation_prompt %}open{% else %}closed{% endif %}");
  EXPECT_EQ(prompt({{"add_generation_prompt", false}}), "closed");
  EXPECT_THAT(post("/v1/chat/completions", {{"messages", kPrefilled}})->body,
              HasSubstr("does not write the last message"));
}

} // namespace
