// What a model of each family says in a turn comes back by every interface,
// whole and as a stream.
#include "ApiTestSupport.h"
#include "test/unit/FamilyTemplates.h"
#include "test/unit/RoundTrip.h"

using moetest::Heard;
using moetest::RoundTrip;
using moetest::SaidCall;
using moetest::Turn;

namespace moert::testing {
namespace {

/// Arguments that came as JSON text.
Json parsed(const std::string &text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}
std::string textOf(const Json &object, const char *name) {
  auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

class ApiSpeechTest : public ApiTest {
public:
  /// The tools of a turn, each by `make(name, parameters)`.
  template <class Make> static Json toolsOf(const Turn &turn, Make make) {
    Json list = Json::array();
    std::set<std::string> seen;
    for (const SaidCall &call : turn.calls)
      if (seen.insert(call.name).second)
        list.push_back(make(call.name, moetest::parametersOf(call.arguments)));
    return list;
  }
  static Json openAiTool(const std::string &name, const Json &parameters) {
    return {{"type", "function"},
            {"function", {{"name", name}, {"parameters", parameters}}}};
  }

  Turn byChat(const Turn &said, bool streams) {
    Json body = {{"messages", {{{"role", "user"}, {"content", "Please."}}}},
                 {"stream", streams}};
    if (!said.calls.empty())
      body["tools"] = toolsOf(said, openAiTool);
    auto answer = post("/v1/chat/completions", body);
    EXPECT_EQ(answer->status, 200) << answer->body;
    Turn heard;
    std::vector<std::string> arguments;
    auto add = [&](const Json &part) {
      heard.content += textOf(part, "content");
      heard.reasoning += textOf(part, "reasoning_content");
      if (!part.contains("tool_calls"))
        return;
      for (const Json &call : part["tool_calls"]) {
        if (call["function"].contains("name")) {
          heard.calls.push_back({call["function"]["name"], {}});
          arguments.emplace_back();
        }
        arguments.back() += textOf(call["function"], "arguments");
      }
    };
    if (streams) {
      for (const Json &event : answer->events())
        if (event.is_object() && !event["choices"].empty())
          add(event["choices"][0]["delta"]);
    } else {
      add(answer->json()["choices"][0]["message"]);
    }
    for (size_t i = 0; i < arguments.size(); ++i)
      heard.calls[i].arguments = parsed(arguments[i]);
    return heard;
  }

  Turn byResponses(const Turn &said, bool streams) {
    Json body = {{"input", "Please."}, {"stream", streams}};
    if (!said.calls.empty())
      body["tools"] = toolsOf(
          said, [](const std::string &name, const Json &parameters) -> Json {
            return {{"type", "function"},
                    {"name", name},
                    {"parameters", parameters},
                    {"strict", false}};
          });
    auto answer = post("/v1/responses", body);
    EXPECT_EQ(answer->status, 200) << answer->body;
    Turn heard, streamed;
    Json output;
    if (streams) {
      for (const Json &event : answer->events()) {
        if (event["type"] == "response.output_text.delta")
          streamed.content += textOf(event, "delta");
        if (event["type"] == "response.reasoning_text.delta")
          streamed.reasoning += textOf(event, "delta");
        if (event["type"] == "response.completed")
          output = event["response"]["output"];
      }
    } else {
      output = answer->json()["output"];
    }
    for (const Json &item : output) {
      if (item["type"] == "message")
        heard.content += textOf(item["content"][0], "text");
      if (item["type"] == "reasoning")
        heard.reasoning += textOf(item["content"][0], "text");
      if (item["type"] == "function_call")
        heard.calls.push_back(
            {item["name"], parsed(textOf(item, "arguments"))});
    }
    if (streams) {
      EXPECT_EQ(streamed.content, heard.content);
      EXPECT_EQ(streamed.reasoning, heard.reasoning);
    }
    return heard;
  }

  Turn byMessages(const Turn &said, bool streams) {
    Json body = {{"model", "tiny"},
                 {"max_tokens", 1000},
                 {"messages", {{{"role", "user"}, {"content", "Please."}}}},
                 {"stream", streams}};
    if (!said.calls.empty())
      body["tools"] = toolsOf(
          said, [](const std::string &name, const Json &parameters) -> Json {
            return {{"name", name}, {"input_schema", parameters}};
          });
    auto answer = post("/v1/messages", body);
    EXPECT_EQ(answer->status, 200) << answer->body;
    Turn heard;
    std::vector<std::string> arguments;
    auto add = [&](const Json &part) {
      heard.content += textOf(part, "text");
      heard.reasoning += textOf(part, "thinking");
      if (textOf(part, "type") == "tool_use") {
        heard.calls.push_back({part["name"], part["input"]});
        arguments.emplace_back();
      }
      if (textOf(part, "type") == "input_json_delta")
        arguments.back() += textOf(part, "partial_json");
    };
    if (streams) {
      for (const Json &event : answer->events())
        for (const char *name : {"content_block", "delta"})
          if (event.contains(name))
            add(event[name]);
      for (size_t i = 0; i < arguments.size(); ++i)
        heard.calls[i].arguments =
            arguments[i].empty() ? Json::object() : parsed(arguments[i]);
    } else {
      const Json whole = answer->json();
      for (const Json &block : whole["content"])
        add(block);
    }
    return heard;
  }

  Turn byOllama(const Turn &said, bool streams) {
    Json body = {{"model", "tiny"},
                 {"messages", {{{"role", "user"}, {"content", "Please."}}}},
                 {"stream", streams}};
    if (!said.calls.empty())
      body["tools"] = toolsOf(said, openAiTool);
    auto answer = post("/api/chat", body);
    EXPECT_EQ(answer->status, 200) << answer->body;
    Turn heard;
    auto add = [&](const Json &message) {
      heard.content += textOf(message, "content");
      heard.reasoning += textOf(message, "thinking");
      if (message.contains("tool_calls"))
        for (const Json &call : message["tool_calls"])
          heard.calls.push_back(
              {call["function"]["name"], call["function"]["arguments"]});
    };
    if (streams) {
      for (const Json &line : answer->events())
        if (line.contains("message"))
          add(line["message"]);
    } else {
      add(answer->json()["message"]);
    }
    return heard;
  }
};

TEST_F(ApiSpeechTest, EveryInterfaceHearsWhatAFamilySays) {
  for (const moetest::FamilyTemplate &family : moetest::familyTemplates()) {
    RoundTrip trip(family.source, family.controls, family.eos);
    for (const Turn &turn :
         moetest::turns(family.reasons, family.takesSeveralCalls,
                        family.takesTextBesideCall)) {
      ASSERT_TRUE(trip.render(turn)) << family.name;
      auto backend =
          std::make_shared<FakeBackend>(family.source, trip.tokenizer());
      backend->bytesPerEvent = 3;
      const size_t end = trip.said().rfind(family.eos);
      backend->replies = {trip.said().substr(0, end)};
      host_.backends = {backend};
      for (bool streams : {false, true})
        for (auto [interface, by] : std::initializer_list<std::pair<
                 const char *, Turn (ApiSpeechTest::*)(const Turn &, bool)>>{
                 {"chat", &ApiSpeechTest::byChat},
                 {"responses", &ApiSpeechTest::byResponses},
                 {"messages", &ApiSpeechTest::byMessages},
                 {"ollama", &ApiSpeechTest::byOllama}})
          moetest::expectEqual(turn, {(this->*by)(turn, streams), ""},
                               family.name + " by " + interface +
                                   (streams ? ", a stream: " : ": ") +
                                   trip.said());
      if (HasFailure())
        return;
    }
  }
}

// The template writes calls without content beside them, and tells the model
// nothing of tools, as that of DeepSeek R1.
TEST_F(ApiSpeechTest, OwnCallsAreHeardWhereToolsAreToldInWords) {
  const char *source =
      "{%- for m in messages %}{%- if m.role == 'assistant' %}[A]{%- if "
      "m.content is none %}{%- for c in m.tool_calls %}[CALL]{{ "
      "c.function.name ~ '[SEP]' ~ (c.function.arguments | tojson) "
      "}}[END]{%- endfor %}{%- else %}{{ m.content }}{%- endif %}</s>"
      "{%- elif m.role == 'user' or m.role == 'system' %}[U]{{ m.content }}"
      "{%- else %}[R]{{ m.content }}{%- endif %}{%- endfor %}"
      "{%- if add_generation_prompt %}[A]{%- endif %}";
  const Tokenizer tokenizer = moetest::tokenizerWith(
      {"[A]", "[U]", "[R]", "[CALL]", "[SEP]", "[END]"}, "</s>");
  const Turn turn = {"", "", {{"add", {{"x", 1}}}}};
  for (const char *reply :
       {"[CALL]add[SEP]{\"x\": 1}[END]",
        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n"
        "</tool_call>"}) {
    auto backend = std::make_shared<FakeBackend>(source, tokenizer);
    backend->replies = {reply};
    host_.backends = {backend};
    moetest::expectEqual(turn, {byChat(turn, false), ""}, reply);
    EXPECT_NE(asked().promptText.find("# Tools"), std::string::npos);
  }
}

} // namespace
} // namespace moert::testing
