// Calls of tools in replies, by the form of each family of templates.
#include "runtime/chat/ToolCalls.h"

#include "runtime/chat/GenericTools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace moert;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

namespace {

const std::vector<Tool> &tools() {
  static const std::vector<Tool> all = {
      {"get_weather", "", Json::parse(R"({"type": "object", "properties": {
         "city": {"type": "string"},
         "days": {"type": ["integer", "null"]},
         "now": {"type": "boolean"},
         "at": {"anyOf": [{"type": "object"}, {"type": "string"}]}},
         "required": ["city"]})")},
      {"add", "", Json::parse(R"({"type": "object", "properties": {
         "xs": {"type": "array", "items": {"type": "number"}}}})")}};
  return all;
}

/// Neighbours of the same kind as one.
std::vector<ToolEvent> merged(std::vector<ToolEvent> events) {
  std::vector<ToolEvent> result;
  for (ToolEvent &event : events) {
    bool grows = event.kind == ToolEvent::Kind::Text ||
                 event.kind == ToolEvent::Kind::Arguments;
    if (grows && !result.empty() && result.back().kind == event.kind)
      result.back().text += event.text;
    else
      result.push_back(std::move(event));
  }
  return result;
}

std::vector<ToolEvent> parse(const ToolFormat &format,
                             const std::vector<std::string> &pieces) {
  const std::vector<ToolFormat> formats = {format};
  ToolCallParser parser(formats, tools());
  std::vector<ToolEvent> events;
  for (const std::string &piece : pieces)
    for (ToolEvent &event : parser.push(piece))
      events.push_back(std::move(event));
  for (ToolEvent &event : parser.finish())
    events.push_back(std::move(event));
  return merged(std::move(events));
}

/// A short form: text as it is, calls as name(arguments), errors as !message.
std::string shown(const std::vector<ToolEvent> &events) {
  std::string text;
  for (const ToolEvent &event : events)
    switch (event.kind) {
    case ToolEvent::Kind::Text:
      text += "'" + event.text + "'";
      break;
    case ToolEvent::Kind::Begin:
      text += event.text + (event.id.empty() ? "" : "#" + event.id) + "(";
      break;
    case ToolEvent::Kind::Arguments:
      EXPECT_TRUE(Json::accept(event.text) || text.find('!') != text.npos ||
                  events.back().kind == ToolEvent::Kind::Error)
          << event.text;
      text += event.text;
      break;
    case ToolEvent::Kind::End:
      text += ")";
      break;
    case ToolEvent::Kind::Error:
      text += "!" + event.text;
      break;
    }
  return text;
}

std::string parsed(const char *format, const std::string &text) {
  return shown(parse(*toolFormatNamed(format), {text}));
}

struct Case {
  const char *format, *text, *expected;
};
const Case kCases[] = {
    {"hermes", "Hello {\"name\"}", "'Hello {\"name\"}'"},
    {"hermes", "a < b <tool", "'a < b <tool'"},
    {"hermes",
     "<tool_call>{\"name\": \"add\", \"arguments\": {}, \"arguments\": "
     "{\"x\": 1}}</tool_call>",
     "add({}!the model wrote a call of \"add\" that has arguments twice"},
    {"hermes", "<tool_call>{\"name\": \"<x\"}</tool_call>", "<x({})"},
    {"hermes",
     "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
     "{\"city\": \"Z\xC3\xBCrich\"}}\n</tool_call>",
     "'Let me see.'get_weather({\"city\": \"Z\xC3\xBCrich\"})"},
    {"hermes",
     "<tool_call>{\"arguments\": {\"a\": [{}]}, \"name\": "
     "\"add\"}</tool_call>\n"
     "<tool_call>\n{\"name\": \"add\"}\n</tool_call>\n done \n",
     "add({\"a\": [{}]})add({})'done \n'"},
    {"hermes",
     "<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"x\\\": "
     "1}\"}</tool_call>",
     "add({\"x\":1})"},
    {"hermes",
     "<tool_call>{\"name\": \"add\", \"arguments\": {\"t\": "
     "\"a\nb\"}}</tool_call>",
     "add({\"t\": \"a\\nb\"})"},
    {"qwen3-coder",
     "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew "
     "\"York\"\n\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter="
     "now>\nTrue\n</parameter>\n</function>\n</tool_call>",
     "'I look.'get_weather({\"city\": \"New \\\"York\\\"\\n\", \"days\": 3, "
     "\"now\": true})"},
    {"qwen3-coder",
     "<tool_call>\n<function=add>\n</function>\n</tool_call>\n<tool_call>\n"
     "<function=add>\n<parameter=xs>\n[1, 2.5]\n</parameter>\n</function>\n"
     "</tool_call>",
     "add({})add({\"xs\": [1, 2.5]})"},
    {"qwen3-coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\n5\n</parameter>\n"
     "<parameter=days>\nsoon\n</parameter>\n</function>\n</tool_call>",
     "get_weather({\"city\": \"5\", \"days\": \"soon\"})"},
    {"qwen3-coder",
     "<tool_call>\n<function=get_weather>\n<parameter=days>\n"
     "-12345678901234567890123\n</parameter>\n</function>\n</tool_call>",
     "get_weather({\"days\": -12345678901234567890123})"},
    {"glm-4.5",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern"
     "</arg_value>\n<arg_key>at</arg_key>\n<arg_value>{\"x\": 1}</arg_value>\n"
     "</tool_call>",
     "get_weather({\"city\": \"Bern\", \"at\": {\"x\": 1}})"},
    {"glm-4.5",
     "ok<tool_call>add<arg_key>xs</arg_key><arg_value>[]</arg_value></"
     "tool_call>"
     "<tool_call>add</tool_call>",
     "'ok'add({\"xs\": []})add({})"},
    {"minimax-m2",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name="
     "\"city\">A</parameter>\n</invoke>\n<invoke name=\"add\">\n</invoke>\n"
     "</minimax:tool_call>",
     "get_weather({\"city\": \"A\"})add({})"},
    {"deepseek-v3.2",
     "<\uFF5CDSML\uFF5Cfunction_calls>\n<\uFF5CDSML\uFF5Cinvoke name=\"add\">\n"
     "<\uFF5CDSML\uFF5Cparameter name=\"xs\" string=\"false\">[1]"
     "</\uFF5CDSML\uFF5Cparameter>\n<\uFF5CDSML\uFF5Cparameter name=\"s\" "
     "string=\"true\">1</\uFF5CDSML\uFF5Cparameter>\n</"
     "\uFF5CDSML\uFF5Cinvoke>\n"
     "</\uFF5CDSML\uFF5Cfunction_calls>",
     "add({\"xs\": [1], \"s\": \"1\"})"},
    {"deepseek-v3",
     "<\uFF5Ctool\u2581calls\u2581begin\uFF5C><\uFF5Ctool\u2581call\u2581begin"
     "\uFF5C>function<\uFF5Ctool\u2581sep\uFF5C>add\n```json\n{\"xs\": []}\n```"
     "<\uFF5Ctool\u2581call\u2581end\uFF5C>\n<\uFF5Ctool\u2581call\u2581begin"
     "\uFF5C>function<\uFF5Ctool\u2581sep\uFF5C>add\n```json\n{}\n```"
     "<\uFF5Ctool\u2581call\u2581end\uFF5C><"
     "\uFF5Ctool\u2581calls\u2581end\uFF5C>",
     "add({\"xs\": []})add({})"},
    {"deepseek-v3.1",
     "Hm.<\uFF5Ctool\u2581calls\u2581begin\uFF5C><"
     "\uFF5Ctool\u2581call\u2581begin"
     "\uFF5C>add<\uFF5Ctool\u2581sep\uFF5C>{\"xs\": [1]}<\uFF5Ctool\u2581call"
     "\u2581end\uFF5C><\uFF5Ctool\u2581calls\u2581end\uFF5C>",
     "'Hm.'add({\"xs\": [1]})"},
    {"kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
     "<|tool_call_argument_begin|>{\"xs\": [0]}<|tool_call_end|>"
     "<|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>",
     "add#functions.add:0({\"xs\": [0]})add#functions.add:1({})"},
    {"gpt-oss", "<|channel|>commentary to=functions.add<|message|>{\"xs\":[1]}",
     "add({\"xs\":[1]})"},
    {"mistral-args",
     "[TOOL_CALLS]add[ARGS]{\"xs\": "
     "[]}[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e"
     "[ARGS]{\"city\": \"B\"}",
     "add({\"xs\": []})get_weather#a1b2c3d4e({\"city\": \"B\"})"},
    {"mistral-list",
     "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {}}, {\"name\": "
     "\"add\", "
     "\"arguments\": {\"xs\": [1]}, \"id\": \"abc\"}]",
     "add({})add({\"xs\": [1]})"},
    {"llama-3.1", "{\"name\": \"add\", \"parameters\": {\"xs\": [1]}}",
     "add({\"xs\": [1]})"},
    {"llama-3.1", "<|python_tag|>{\"name\": \"add\", \"parameters\": {}}",
     "add({})"},
    // An object that is no call is the reply.
    {"llama-3.1", "{\"name\": \"Ada\", \"age\": 36}",
     "'{\"name\": \"Ada\", \"age\": 36}'"},
    {"llama-3.1", " {1: 2} and {", "' {1: 2} and {'"},
    {"llama-3.1", "{\"a\": ", "'{\"a\": '"},
    {"llama-3.1", "So: {\"name\": \"add\"}", "'So: {\"name\": \"add\"}'"},
    // Malformed calls give an error.
    {"hermes", "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 01}}",
     "add({\"x\": 0!the model wrote a call of \"add\" that is not valid JSON"},
    // After a mark that is no control token, what is no call is text.
    {"hermes", "<tool_call>\nadd(1)", "'<tool_call>\nadd(1)'"},
    {"hermes", "<tool_call>{\"arguments\": {}}</tool_call>",
     "'<tool_call>{\"arguments\": {}}</tool_call>'"},
    {"hermes",
     "Write `<tool_call>` first.\n<tool_call>{\"name\": \"add\"}</tool_call>",
     "'Write `<tool_call>` first.'add({})"},
    {"qwen3-coder", "<function=add>\n</function>\n</tool_call>\nDone.",
     "add({})'Done.'"},
    {"qwen3-coder", "Use <function=other>.", "'Use <function=other>.'"},
    {"hermes", "<tool_call>{\"name\": \"add\", \"arguments\": [1]}</tool_call>",
     "add(!the model wrote a call of \"add\" that has arguments that are no "
     "JSON "
     "object"},
    {"hermes", "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\"",
     "add({\"x\"!the model wrote a call of \"add\" that is not complete: the "
     "reply ended inside it"},
    {"hermes", "<tool_call>{\"name\": \"add\"}} more",
     "add({}!the model wrote a call of \"add\" that has other text where "
     "\"</tool_call>\" should be"},
    {"qwen3-coder", "<tool_call>\n<function=add>\nxs=1",
     "add({!the model wrote a call of \"add\" that has other text where "
     "\"<parameter=\" or \"</function>\" should be"},
    // The next call was cut within its mark; a text was not.
    {"hermes",
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool",
     "f({})"},
    {"hermes",
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call> 1 <",
     "f({})'1 <'"},
    {"kimi-k2", "<|tool_calls_section_begin|>sorry",
     "'<|tool_calls_section_begin|>sorry'"},
    {"deepseek-v3.1", "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>",
     "'<\uFF5Ctool\u2581calls\u2581begin\uFF5C>'"},
    {"gemma4",
     "<|tool_call>call:add{\"x\":1,\"t\":\"a, <|\",y:<|\"|>\"b\"<|\"|>}"
     "<tool_call|>",
     "add({\"x\": 1, \"t\": \"a, <|\", \"y\": \"\\\"b\\\"\"})"},
    {"lfm2",
     "So: <|tool_call_start|>[add(x=1, t='it's (a) \\'b\\'', l=[None, "
     "(True,)]), "
     "f()]<|tool_call_end|> now",
     "'So:'add({\"x\": 1, \"t\": \"it's (a) 'b'\", \"l\": [null, [true]]})"
     "f({})'now'"},
    {"lfm2", "<|tool_call_start|>[sorry]<|tool_call_end|>",
     "'<|tool_call_start|>[sorry]<|tool_call_end|>'"},
    {"lfm2", "<|tool_call_start|>[add('a')]<|tool_call_end|>",
     "add(!the model wrote a call of \"add\" that has arguments that cannot be "
     "read"},
};

TEST(ToolCalls, EveryFamilyIsRead) {
  for (const Case &test : kCases)
    EXPECT_EQ(parsed(test.format, test.text), test.expected) << test.text;
}

TEST(ToolCalls, CutsMakeNoDifference) {
  for (const Case &test : kCases) {
    std::string text = test.text;
    const ToolFormat &format = *toolFormatNamed(test.format);
    for (size_t cut = 1; cut < text.size(); ++cut)
      EXPECT_EQ(shown(parse(format, {text.substr(0, cut), text.substr(cut)})),
                test.expected)
          << text << " cut at " << cut;
    std::vector<std::string> bytes;
    for (char c : text)
      bytes.emplace_back(1, c);
    EXPECT_EQ(shown(parse(format, bytes)), test.expected) << text;
  }
}

TEST(ToolCalls, ArgumentsComeAsTheyAreWritten) {
  const std::vector<ToolFormat> formats = {*toolFormatNamed("hermes")};
  ToolCallParser parser(formats, tools());
  EXPECT_TRUE(parser.push("<tool_call>{\"name\": \"ad").empty());
  EXPECT_EQ(parser.push("d\", "),
            (std::vector<ToolEvent>{{ToolEvent::Kind::Begin, "add"}}));
  EXPECT_EQ(parser.push("\"arguments\": {\"x"),
            (std::vector<ToolEvent>{{ToolEvent::Kind::Arguments, "{\"x"}}));
  EXPECT_EQ(parser.push("\": 1"),
            (std::vector<ToolEvent>{{ToolEvent::Kind::Arguments, "\": 1"}}));
  // A long string between marks does not wait for its end.
  const std::vector<ToolFormat> coder = {*toolFormatNamed("qwen3-coder")};
  ToolCallParser tagged(coder, tools());
  tagged.push("<tool_call>\n<function=get_weather>\n<parameter=city>\n");
  EXPECT_EQ(tagged.push("line\n</par"),
            (std::vector<ToolEvent>{{ToolEvent::Kind::Arguments, "line"}}));
}

TEST(JsonScanner, AgreesWithTheParser) {
  const char *valid[] = {"{}",         "[]",          "[1,-0.5e+3,0]",
                         "{\"a\":{}}", "\"\\u12aF\"", "[true,null]",
                         " [ ] ",      "[\"a\\\\\"]"};
  const char *invalid[] = {"{,}",   "[1,]",  "[01]",    "{\"a\"}",   "[1.]",
                           "[-]",   "[tru]", "\"\\x\"", "[}",        "{1:2}",
                           "[1 2]", "[1e]",  "\"\n\"",  "{\"a\":1,}"};
  auto accepts = [](std::string_view text) {
    JsonScanner scanner;
    for (char c : text)
      if (!scanner.push(c))
        return false;
    return scanner.isComplete();
  };
  for (const char *text : valid)
    EXPECT_TRUE(accepts(text)) << text;
  for (const char *text : invalid)
    EXPECT_FALSE(accepts(text)) << text;
  EXPECT_TRUE(accepts(std::string(100, '[') + std::string(100, ']')));
  EXPECT_FALSE(accepts(std::string(101, '[') + std::string(101, ']')));
}

std::vector<Tool> genericTestTools() {
  return {{.name = "add", .description = "Adds \"two\"."}};
}

TEST(GenericTools, AreDescribedInTheSystemMessage) {
  auto messages = moert::Messages::parse(R"([
      {"role": "system", "content": "Be kind."},
      {"role": "user", "content": "1+1?"},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "a", "function": {"name": "add", "arguments": {"x": 1}}},
        {"id": "b", "function": {"name": "add", "arguments": "{\"x\": 2}"}}]},
      {"role": "tool", "content": "2", "tool_call_id": "a"},
      {"role": "tool", "content": "3", "tool_call_id": "b"},
      {"role": "user", "content": "So?"}])",
                                         "test");
  ASSERT_TRUE(messages.isOk()) << messages.status().message();
  moert::Messages with =
      moert::withGenericTools(*messages, genericTestTools(), false);
  ASSERT_EQ(with.list().size(), 4u);
  std::string system = with.list()[0]["content"];
  EXPECT_THAT(system, testing::StartsWith("Be kind.\n\n# Tools\n"));
  EXPECT_THAT(system, testing::HasSubstr(R"({"name":"add","description":"Adds )"
                                         R"(\"two\".","parameters":{}})"));
  EXPECT_EQ(with.list()[2]["content"],
            "<tool_call>\n{\"name\": \"add\", \"arguments\": "
            "{\"x\":1}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", "
            "\"arguments\": {\"x\": 2}}\n</tool_call>");
  EXPECT_FALSE(with.list()[2].contains("tool_calls"));
  EXPECT_EQ(with.list()[3]["role"], "user");
  EXPECT_EQ(with.list()[3]["content"],
            "<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n"
            "</tool_response>\nSo?");
  // The calls are those that the form's parser finds again.
  std::vector<Tool> tools = genericTestTools();
  const std::vector<moert::ToolFormat> formats = {moert::genericToolFormat()};
  moert::ToolCallParser parser(formats, tools);
  size_t calls = 0;
  for (const auto &event : parser.push(std::string(with.list()[2]["content"])))
    calls += event.kind == moert::ToolEvent::Kind::Begin;
  EXPECT_EQ(calls, 2u);
}

} // namespace
