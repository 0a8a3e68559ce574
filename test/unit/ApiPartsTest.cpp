// Messages have parts of all types that clients send, in all interfaces.
#include "ApiTestSupport.h"
#include "runtime/constrain/Matcher.h"
#include "runtime/constrain/TokenTrie.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <random>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

constexpr const char *kNote = "[image omitted: this model reads text only]";

/// Random parts with words of their own, which have to be in the prompt in
/// their order.
class RandomParts {
public:
  explicit RandomParts(uint64_t seed) : random_(seed) {}

  std::vector<std::string> words;

  size_t pick(size_t count) { return random_() % count; }

  std::string word() {
    words.push_back(fmt::format("w{}ord", words.size()));
    return words.back();
  }

  static Json image() {
    return {{"type", "image"},
            {"source",
             {{"type", "base64"},
              {"media_type", "image/png"},
              {"data", std::string(400, 'A')}}}};
  }

  /// Makes a block of Anthropic's interface. `mayBeImage` is false for the
  /// newest message.
  Json block(bool mayBeImage) {
    switch (pick(mayBeImage ? 8 : 7)) {
    case 0:
      return {
          {"type", "document"},
          {"source",
           {{"type", "text"}, {"media_type", "text/plain"}, {"data", word()}}}};
    case 1: {
      Json title = word();
      return {{"type", "document"},
              {"title", std::move(title)},
              {"source",
               {{"type", "content"},
                {"content", {{{"type", "text"}, {"text", word()}}}}}}};
    }
    case 2: {
      Json title = word(), source = word();
      return {{"type", "search_result"},
              {"title", std::move(title)},
              {"source", std::move(source)},
              {"content", {{{"type", "text"}, {"text", word()}}}}};
    }
    case 3:
      return {{"type", "tool_reference"}, {"tool_name", word()}};
    case 4:
      // A type that does not exist yet.
      return {{"type", "web_fetch_result"},
              {"content", {{"page", {{"text", word()}}}}},
              {"data", std::string(400, 'A')}};
    case 7:
      return image();
    default:
      return {{"type", "text"},
              {"text", word()},
              {"cache_control", {{"type", "ephemeral"}}}};
    }
  }

  Json blocks(bool mayBeImage) {
    Json list = Json::array();
    for (size_t i = 0, count = 1 + pick(4); i < count; ++i)
      list.push_back(block(mayBeImage));
    return list;
  }

private:
  std::mt19937_64 random_;
};

void expectWords(const std::vector<std::string> &words,
                 const std::string &prompt) {
  size_t at = 0;
  for (const std::string &word : words) {
    const size_t found = prompt.find(word, at);
    ASSERT_NE(found, prompt.npos)
        << word << " after " << at << " in " << prompt;
    ASSERT_EQ(prompt.find(word, found + 1), prompt.npos) << word << " twice";
    at = found;
  }
  EXPECT_THAT(prompt, Not(HasSubstr("AAAA"))) << "encoded data is no text";
}

TEST_F(ApiTest, AllBlocksOfMessagesAreInThePrompt) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomParts parts(seed);
    Json body = {{"model", "tiny"}, {"max_tokens", 4}};
    body["system"] = parts.pick(2) ? Json(parts.word()) : parts.blocks(true);
    Json &list = body["messages"] = Json::array();
    for (size_t turn = 0, count = parts.pick(4); turn < count; ++turn) {
      list.push_back({{"role", "user"}, {"content", parts.blocks(true)}});
      if (parts.pick(3) == 0)
        list.push_back({{"role", "system"}, {"content", parts.word()}});
      const std::string id = fmt::format("toolu_{}", turn);
      Json said = Json::array();
      said.push_back({{"type", "redacted_thinking"}, {"data", "AAAA"}});
      said.push_back({{"type", "text"}, {"text", parts.word()}});
      said.push_back({{"type", "tool_use"},
                      {"id", id},
                      {"name", "look"},
                      {"input", {{"at", parts.word()}}}});
      list.push_back({{"role", "assistant"}, {"content", std::move(said)}});
      Json answer = {{"type", "tool_result"}, {"tool_use_id", id}};
      answer["content"] =
          parts.pick(2) ? Json(parts.word()) : parts.blocks(true);
      Json content = Json::array({answer});
      if (parts.pick(2))
        content.push_back(parts.block(true));
      list.push_back({{"role", "user"}, {"content", std::move(content)}});
    }
    list.push_back({{"role", "user"}, {"content", parts.blocks(false)}});
    auto answer = post("/v1/messages", body);
    ASSERT_EQ(answer->status, 200) << answer->body << body;
    expectWords(parts.words, asked().promptText);
    if (HasFatalFailure())
      FAIL() << "seed " << seed << body;
  }
}

TEST_F(ApiTest, AllItemsOfResponsesAreInThePrompt) {
  const char *outputs[] = {"function_call", "custom_tool_call",
                           "local_shell_call", "mcp_call", "computer_call"};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomParts parts(seed);
    Json input = Json::array();
    for (size_t i = 0, count = 1 + parts.pick(6); i < count; ++i) {
      const std::string id = fmt::format("call_{}", i);
      switch (parts.pick(5)) {
      case 0:
        input.push_back(
            {{"type", "message"},
             {"role", "developer"},
             {"content", {{{"type", "input_text"}, {"text", parts.word()}}}}});
        break;
      case 1:
        input.push_back(
            {{"type", "web_search_call"},
             {"id", "ws"},
             {"status", "completed"},
             {"action", {{"type", "search"}, {"query", parts.word()}}}});
        break;
      case 2: {
        const std::string type = outputs[parts.pick(std::size(outputs))];
        Json call = {{"type", type}, {"call_id", id}, {"name", "look"}};
        if (type == "custom_tool_call")
          call["input"] = parts.word();
        else if (type == "function_call" || type == "mcp_call")
          call["arguments"] = "{\"a\": \"" + parts.word() + "\"}";
        else
          call["action"] = {{"command", {parts.word()}}};
        input.push_back(std::move(call));
        Json output = {{"type", type + "_output"}, {"call_id", id}};
        if (parts.pick(2))
          output["output"] = parts.word();
        else
          output["output"] = {
              {{"type", "input_text"}, {"text", parts.word()}},
              {{"type", "input_image"}, {"image_url", std::string(400, 'A')}}};
        input.push_back(std::move(output));
        break;
      }
      case 3:
        input.push_back({{"type", "message"},
                         {"role", "assistant"},
                         {"content",
                          {{{"type", "output_text"}, {"text", parts.word()}},
                           {{"type", "refusal"}, {"refusal", parts.word()}}}}});
        break;
      default:
        input.push_back({{"role", "user"}, {"content", parts.word()}});
      }
    }
    input.push_back({{"role", "user"}, {"content", parts.word()}});
    Json body = {{"input", input}, {"instructions", "Be kind."}};
    auto answer = post("/v1/responses", body);
    ASSERT_EQ(answer->status, 200) << answer->body << body;
    expectWords(parts.words, asked().promptText);
    if (HasFatalFailure())
      FAIL() << "seed " << seed << body;
    EXPECT_THAT(asked().promptText, HasSubstr("<system>Be kind."));
  }
}

TEST_F(ApiTest, ImagesAreAnErrorOnlyWhereTheyWaitForAnAnswer) {
  Json image = {{"type", "image_url"}, {"image_url", {{"url", "data:x"}}}};
  Json shown = {{"role", "user"},
                {"content", {{{"type", "text"}, {"text", "See"}}, image}}};
  Json messages = Json::array({shown});
  auto ask = [&] {
    return post("/v1/chat/completions", {{"messages", messages}});
  };
  auto refused = ask();
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(refused->json()["error"]["param"], "messages[0].content[1].type");
  messages.push_back({{"role", "assistant"}, {"content", "I cannot."}});
  messages.push_back({{"role", "user"}, {"content", "Go on."}});
  EXPECT_EQ(ask()->status, 200) << "a later turn";
  EXPECT_THAT(asked().promptText,
              HasSubstr(std::string("<user>See\n") + kNote + "<assistant>"));
  messages = Json::array(
      {Json{{"role", "user"}, {"content", "Hi"}},
       Json{{"role", "assistant"},
            {"content", ""},
            {"function_call", {{"name", "shot"}, {"arguments", "{}"}}}},
       Json{{"role", "function"}, {"name", "shot"}, {"content", "done"}},
       shown});
  EXPECT_EQ(ask()->status, 200) << "what a tool shows";
  EXPECT_THAT(asked().promptText, HasSubstr("shot({})<tool>done<user>See"));
}

TEST_F(ApiTest, NamesOfReasoningAreOne) {
  for (const char *name : {"reasoning", "reasoning_content", "thinking"}) {
    post("/v1/chat/completions",
         {{"messages",
           {{{"role", "user"}, {"content", "a"}},
            {{"role", "assistant"}, {"content", "b"}, {name, "Hm"}},
            {{"role", "user"}, {"content", "c"}}}}});
    EXPECT_THAT(asked().promptText, HasSubstr("<assistant>b[Hm]")) << name;
  }
}

TEST_F(ApiTest, BrokenArgumentsAreKept) {
  for (const auto &[arguments, written] :
       {std::pair{"", "f({})"}, {"{\"a\": ", "f(\"{\\\"a\\\": \")"}}) {
    post("/v1/chat/completions",
         {{"messages",
           {{{"role", "user"}, {"content", "a"}},
            {{"role", "assistant"},
             {"content", nullptr},
             {"tool_calls",
              {{{"id", "1"},
                {"type", "function"},
                {"function", {{"name", "f"}, {"arguments", arguments}}}}}}},
            {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "c"}}}}});
    EXPECT_THAT(asked().promptText, HasSubstr(written));
  }
}

TEST_F(ApiTest, WhatATemplateRaisesNamesTheMessage) {
  host_.backends[0] = std::make_shared<FakeBackend>(
      "{% for m in messages %}{% if m.content == 'bad' %}"
      "{{ raise_exception('no bad words') }}{% endif %}{{ m.content }}"
      "{% endfor %}");
  auto message = [](const char *role, const char *text) {
    return Json{{"role", role}, {"content", text}};
  };
  auto answer =
      post("/v1/messages", {{"model", "tiny"},
                            {"max_tokens", 4},
                            {"system", "s"},
                            {"messages",
                             {message("user", "a"), message("assistant", "bad"),
                              message("user", "c")}}});
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->body, HasSubstr("messages[1]: the chat template"));
}

/// Tools in the form of Codex.
const Json kCodexTools = Json::parse(R"([
  {"type": "function", "name": "exec", "parameters": {"type": "object",
   "properties": {"cmd": {"type": "string"}}}},
  {"type": "custom", "name": "apply_patch", "description": "Patches.",
   "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}},
  {"type": "namespace", "name": "mcp__a__", "description": "Of a.",
   "tools": [{"type": "function", "name": "exec", "parameters":
              {"type": "object"}},
             {"type": "function", "name": "status", "parameters":
              {"type": "object"}}]},
  {"type": "web_search", "external_web_access": false},
  {"type": "local_shell"},
  {"type": "tool_search", "execution": "client", "description": "Finds tools.",
   "parameters": {"type": "object"}}])");

TEST_F(ApiTest, CustomToolsAndNamespacesAreFunctionsOfTheModel) {
  std::vector<std::string> log;
  settings_.log = [&](const std::string &line) { log.push_back(line); };
  handler_ = makeApi(host_, settings_);
  model().replies = {
      "<tool_call>{\"name\": \"apply_patch\", \"arguments\": {\"input\": "
      "\"*** Begin\\n\"}}</tool_call><tool_call>{\"name\": \"status\", "
      "\"arguments\": {}}</tool_call>"};
  Json body = {{"input", "Hi"}, {"tools", kCodexTools}};
  Json output = post("/v1/responses", body)->json()["output"];
  for (const char *text : {"Patches.", "start: X", "mcp__a__: Of a.",
                           "\"mcp__a__exec\"", "\"status\""})
    EXPECT_THAT(asked().promptText, HasSubstr(text));
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0]["type"], "custom_tool_call");
  EXPECT_EQ(output[0]["name"], "apply_patch");
  EXPECT_EQ(output[0]["input"], "*** Begin\n");
  EXPECT_EQ(output[1]["type"], "function_call");
  EXPECT_EQ(output[1]["name"], "status");
  EXPECT_EQ(output[1]["namespace"], "mcp__a__");
  ASSERT_EQ(log.size(), 3u);
  EXPECT_EQ(log[0], "/v1/responses: tools[].type web_search is skipped: this "
                    "server has no such tool");
  EXPECT_THAT(log[1], HasSubstr("tools[].type local_shell is skipped"));

  body["stream"] = true;
  auto stream = post("/v1/responses", body);
  EXPECT_EQ(log.size(), 3u) << "it is said once";
  // The result does not depend on the place of the part or its neighbours.
  Json others = body;
  others["tools"].insert(others["tools"].begin(), body["tools"][4]);
  others["tools"].push_back({{"type", "mcp"}, {"server_label", "a"}});
  others["novel"] = 1;
  post("/v1/responses", others);
  ASSERT_EQ(log.size(), 5u);
  EXPECT_THAT(log[3], HasSubstr("tools[].type mcp is skipped"));
  EXPECT_EQ(log[4], "/v1/responses: novel has no effect");
  auto names = stream->eventNames();
  auto events = stream->events();
  auto at = std::ranges::find(names, "response.custom_tool_call_input.delta");
  ASSERT_NE(at, names.end());
  size_t index = size_t(at - names.begin());
  EXPECT_EQ(events[index]["delta"], "*** Begin\n");
  EXPECT_EQ(events[index + 1]["type"], "response.custom_tool_call_input.done");
  EXPECT_EQ(events[index + 1]["input"], "*** Begin\n");
  EXPECT_EQ(events[index + 2]["item"]["type"], "custom_tool_call");
  EXPECT_EQ(events.back()["response"]["output"].size(), 2u);

  // The calls come back under the names that the client knows.
  Json input = output;
  input.insert(input.begin(), Json{{"role", "user"}, {"content", "Hi"}});
  for (const char *type : {"custom_tool_call_output", "function_call_output"})
    input.push_back({{"type", type},
                     {"call_id", output[input.size() - 3]["call_id"]},
                     {"output", type}});
  body["input"] = input;
  EXPECT_EQ(post("/v1/responses", body)->status, 200);
  EXPECT_THAT(asked().promptText,
              HasSubstr("apply_patch({\"input\": \"*** Begin\\n\"})status({})"
                        "<tool>custom_tool_call_output"));
}

TEST_F(ApiTest, AllowedToolsAreThoseThatMayBeCalled) {
  Json tools = Json::array();
  for (const char *name : {"a", "b"})
    tools.push_back(
        {{"type", "function"},
         {"function", {{"name", name}, {"parameters", {{"type", "object"}}}}}});
  auto answer =
      post("/v1/chat/completions",
           {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
            {"tools", tools},
            {"tool_choice",
             {{"type", "allowed_tools"},
              {"allowed_tools",
               {{"mode", "required"},
                {"tools",
                 {{{"type", "function"}, {"function", {{"name", "b"}}}}}}}}}}});
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_THAT(asked().promptText, HasSubstr("\"name\": \"a\""));
  EXPECT_TRUE(asked().grammar);
}

TEST_F(ApiTest, WhatHasNoEffectIsInTheLog) {
  std::vector<std::string> log;
  settings_.log = [&](const std::string &line) { log.push_back(line); };
  handler_ = makeApi(host_, settings_);
  auto answer = post("/v1/chat/completions",
                     {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                      {"reasoning_effort", "extreme"},
                      {"mirostat", 2},
                      {"prompt_cache_key", "secret"},
                      {"from_2027", true}});
  EXPECT_EQ(answer->status, 200) << answer->body;
  const std::string all = fmt::format("{}", fmt::join(log, "\n"));
  EXPECT_EQ(log.size(), 4u);
  for (const char *text :
       {"/v1/chat/completions: reasoning_effort extreme is skipped",
        "/v1/chat/completions: mirostat is skipped",
        "/v1/chat/completions: prompt_cache_key has no effect",
        "/v1/chat/completions: from_2027 has no effect"})
    EXPECT_THAT(all, HasSubstr(text));
  EXPECT_THAT(all, Not(HasSubstr("secret")));
}

TEST_F(ApiTest, ModelsForAnthropicsClients) {
  Json json = request("GET", "/v1/models")->json();
  EXPECT_EQ(json["has_more"], false);
  EXPECT_EQ(json["first_id"], "tiny");
  EXPECT_EQ(json["last_id"], "tiny");
  Json model = json["data"][0];
  EXPECT_EQ(model["type"], "model");
  EXPECT_EQ(model["display_name"], "tiny");
  EXPECT_EQ(model["created_at"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(request("GET", "/v1/models/tiny")->json(), model);
}

TEST_F(ApiTest, AFormatBesideToolsHoldsAnswersThatCallNone) {
  Json schema = {{"type", "object"},
                 {"properties", {{"a", {{"type", "integer"}}}}},
                 {"required", {"a"}}};
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
               {"response_format",
                {{"type", "json_schema"},
                 {"json_schema", {{"name", "n"}, {"schema", schema}}}}},
               {"tools",
                {{{"type", "function"},
                  {"function", {{"name", "f"}, {"parameters", schema}}}}}}};
  for (const char *choice : {"auto", "required"}) {
    body["tool_choice"] = choice;
    ASSERT_EQ(post("/v1/chat/completions", body)->status, 200);
    auto accepts = [&](std::string_view text) {
      auto tokens = byteTokenizer().encode(text, {.addBos = false});
      Matcher matcher(asked().grammar,
                      std::make_shared<const TokenTrie>(byteTokenizer()));
      return std::ranges::all_of(
          *tokens, [&](int32_t token) { return matcher.accept(token).isOk(); });
    };
    EXPECT_TRUE(accepts("<tool_call>\n{\"name\": \"f\", \"arguments\": "
                        "{\"a\": 1}}\n</tool_call>"))
        << choice;
    EXPECT_EQ(accepts("{\"a\": 1}"), choice[0] == 'a') << choice;
    EXPECT_FALSE(accepts("Hello")) << choice;
  }
}

TEST_F(ApiTest, LogprobsOfAResponse) {
  Json body = {{"input", "Hi"}, {"top_logprobs", 2}};
  Json part = post("/v1/responses", body)->json()["output"][0]["content"][0];
  ASSERT_EQ(part["logprobs"].size(), 5u);
  EXPECT_EQ(part["logprobs"][0]["token"], "H");
  EXPECT_EQ(part["logprobs"][0]["top_logprobs"].size(), 2u);
  body["stream"] = true;
  Json last = post("/v1/responses", body)->events().back();
  EXPECT_EQ(last["response"]["output"][0]["content"][0], part);
}

TEST_F(ApiTest, APromptThatIsTooLongInAnthropicsWords) {
  model().modelFacts.contextTokens = 10;
  auto answer =
      post("/v1/messages",
           {{"model", "tiny"},
            {"max_tokens", 4},
            {"messages", {{{"role", "user"}, {"content", "Hello"}}}}});
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(answer->json()["error"]["type"], "invalid_request_error");
  EXPECT_THAT(answer->json()["error"]["message"].get<std::string>(),
              HasSubstr("prompt is too long: 22 tokens > 10 maximum"));
}

} // namespace
