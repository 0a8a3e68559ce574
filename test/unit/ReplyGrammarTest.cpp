// Grammars that hold calls of tools to their schemas.
#include "runtime/chat/ReplyGrammar.h"

#include "runtime/chat/FreeText.h"
#include "runtime/chat/ReplyKey.h"
#include "runtime/chat/ToolCalls.h"
#include "runtime/constrain/Matcher.h"
#include "runtime/text/Tokenizer.h"
#include "test/unit/PassedDeadline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace moert;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

namespace {

/// Every byte is a token; marks of some families are control tokens.
const Tokenizer &markTokenizer() {
  static const Tokenizer all = [] {
    TokenizerSpec spec;
    spec.model = "llama";
    spec.pre = noSpacePrefix;
    for (int byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", byte);
      spec.tokens.push_back(text);
      spec.types.push_back(int32_t(TokenType::Byte));
    }
    for (const char *name :
         {"</s>", "[TOOL_CALLS]", "[ARGS]", "<|tool_call_begin|>",
          "<|tool_call_end|>", "<|tool_call_argument_begin|>",
          "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
          "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"}) {
      spec.tokens.push_back(name);
      spec.types.push_back(int32_t(TokenType::Control));
    }
    spec.scores.assign(spec.tokens.size(), 0);
    spec.eos = 256;
    return *Tokenizer::create(spec);
  }();
  return all;
}

const std::vector<Tool> &grammarTools() {
  static const std::vector<Tool> all = {
      {"add", "", Json::parse(R"({"type": "object", "properties": {
         "x": {"type": "integer"}, "unit": {"type": "string",
         "enum": ["m", "km"]}, "note": {"type": "string"}},
         "required": ["x"], "additionalProperties": false})")},
      {"stop", "", Json::object()}};
  return all;
}

struct Wanted {
  bool mustCall = false;
  bool isParallel = true;
};

StatusOr<std::shared_ptr<const Automaton>>
grammarOf(const ToolFormat &format, const std::vector<Tool> &tools,
          const Wanted &wanted) {
  const std::vector<ToolFormat> forms = {withControls(format, markTokenizer())};
  ReplyWish wish;
  wish.tools = &tools;
  wish.forms = &forms;
  wish.mustCall = wanted.mustCall;
  wish.isParallel = wanted.isParallel;
  return replyGrammar(wish);
}

std::shared_ptr<const Automaton> grammar(const char *format, bool isRequired,
                                         bool isParallel = true) {
  auto automaton = grammarOf(*toolFormatNamed(format), grammarTools(),
                             {isRequired, isParallel});
  EXPECT_TRUE(automaton.isOk()) << automaton.status().message();
  return automaton ? *automaton : nullptr;
}

/// Whether the whole text is allowed; names of control tokens are the tokens.
bool accepts(const std::shared_ptr<const Automaton> &automaton,
             std::string_view text) {
  static const auto trie = std::make_shared<const TokenTrie>(markTokenizer());
  Matcher matcher(automaton, trie);
  auto tokens =
      markTokenizer().encode(text, {.addBos = false, .addEos = false});
  for (int32_t token : *tokens)
    if (!matcher.accept(token))
      return false;
  return matcher.canEnd();
}

/// Calls in every form that has a grammar.
struct Form {
  const char *format, *call, *wrongType, *unknownName;
};
const Form kForms[] = {
    {"hermes",
     "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": "
     "1}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": \"1\"}}\n"
     "</tool_call>",
     "<tool_call>\n{\"name\": \"sub\", \"arguments\": {\"x\": 1}}\n"
     "</tool_call>"},
    {"llama-3.1", "{\"name\": \"add\", \"parameters\": {\"x\": 1}}",
     "{\"name\": \"add\", \"parameters\": {\"x\": null}}",
     "{\"name\": \"a\", \"parameters\": {\"x\": 1}}"},
    {"mistral-list",
     "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"x\": 1}}]",
     "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {}}]",
     "[TOOL_CALLS][{\"name\": \"\", \"arguments\": {\"x\": 1}}]"},
    {"mistral-args", "[TOOL_CALLS]add[ARGS]{\"x\": 1}",
     "[TOOL_CALLS]add[ARGS]{\"x\": 1.5}", "[TOOL_CALLS]sub[ARGS]{\"x\": 1}"},
    {"kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
     "<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
     "<|tool_call_argument_begin|>{\"y\": 1}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.add"
     "<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|>"
     "<|tool_calls_section_end|>"},
    {"deepseek-v3",
     "<\uFF5Ctool\u2581calls\u2581begin\uFF5C><\uFF5Ctool\u2581call\u2581begin"
     "\uFF5C>function<\uFF5Ctool\u2581sep\uFF5C>add\n```json\n{\"x\": 1}\n```"
     "<\uFF5Ctool\u2581call\u2581end\uFF5C><\uFF5Ctool\u2581calls\u2581end"
     "\uFF5C>",
     "add", "{}"},
    {"deepseek-v3.1",
     "<\uFF5Ctool\u2581calls\u2581begin\uFF5C><\uFF5Ctool\u2581call\u2581begin"
     "\uFF5C>add<\uFF5Ctool\u2581sep\uFF5C>{\"x\": 1}<\uFF5Ctool\u2581call"
     "\u2581end\uFF5C><\uFF5Ctool\u2581calls\u2581end\uFF5C>",
     "add", "{}"},
    {"qwen3-coder",
     "<tool_call>\n<function=add>\n<parameter=x>\n1\n</parameter>\n"
     "<parameter=unit>\nkm\n</parameter>\n</function>\n</tool_call>",
     "<tool_call>\n<function=add>\n<parameter=x>\none\n</parameter>\n"
     "</function>\n</tool_call>",
     "<tool_call>\n<function=add>\n</function>\n</tool_call>"},
    {"glm-4.5",
     "<tool_call>add\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n"
     "<arg_key>note</arg_key>\n<arg_value>a < b </arg></arg_value>\n"
     "</tool_call>",
     "<tool_call>add\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n"
     "<arg_key>unit</arg_key>\n<arg_value>cm</arg_value>\n</tool_call>",
     "<tool_call>sub\n</tool_call>"},
    {"minimax-m2",
     "<minimax:tool_call>\n<invoke name=\"add\">\n<parameter name=\"x\">1"
     "</parameter>\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"add\">\n<parameter name=\"x\">a"
     "</parameter>\n</invoke>\n</minimax:tool_call>",
     "<minimax:tool_call>\n</minimax:tool_call>"},
    {"deepseek-v3.2",
     "<\uFF5CDSML\uFF5Cfunction_calls>\n<\uFF5CDSML\uFF5Cinvoke name=\"add\">\n"
     "<\uFF5CDSML\uFF5Cparameter name=\"x\" string=\"false\">1"
     "</\uFF5CDSML\uFF5Cparameter>\n</\uFF5CDSML\uFF5Cinvoke>\n"
     "</\uFF5CDSML\uFF5Cfunction_calls>",
     "<\uFF5CDSML\uFF5Cfunction_calls>\n<\uFF5CDSML\uFF5Cinvoke name=\"add\">\n"
     "<\uFF5CDSML\uFF5Cparameter name=\"x\" string=\"true\">1"
     "</\uFF5CDSML\uFF5Cparameter>\n</\uFF5CDSML\uFF5Cinvoke>\n"
     "</\uFF5CDSML\uFF5Cfunction_calls>",
     "x"}};

TEST(ReplyGrammar, RequiredCallsFollowTheirSchemas) {
  for (const Form &form : kForms) {
    auto required = grammar(form.format, /*isRequired=*/true);
    EXPECT_TRUE(accepts(required, form.call)) << form.format;
    EXPECT_FALSE(accepts(required, form.wrongType)) << form.format;
    EXPECT_FALSE(accepts(required, form.unknownName)) << form.format;
    EXPECT_FALSE(accepts(required, "")) << form.format;
    EXPECT_FALSE(accepts(required, "Hello")) << form.format;
  }
}

TEST(ReplyGrammar, WhatItAllowsIsParsed) {
  for (const Form &form : kForms) {
    const std::vector<ToolFormat> formats = {*toolFormatNamed(form.format)};
    ToolCallParser parser(formats, grammarTools());
    std::string arguments;
    bool hasEnded = false;
    auto take = [&](const std::vector<ToolEvent> &events) {
      for (const ToolEvent &event : events) {
        EXPECT_NE(event.kind, ToolEvent::Kind::Error) << event.text;
        EXPECT_NE(event.kind, ToolEvent::Kind::Text) << event.text;
        if (event.kind == ToolEvent::Kind::Arguments)
          arguments += event.text;
        hasEnded |= event.kind == ToolEvent::Kind::End;
      }
    };
    take(parser.push(form.call));
    take(parser.finish());
    EXPECT_TRUE(hasEnded) << form.format;
    EXPECT_EQ(Json::parse(arguments)["x"], 1) << form.format;
  }
}

TEST(ReplyGrammar, OtherwiseTextIsFreeUntilACallBegins) {
  for (const Form &form : kForms) {
    auto free = grammar(form.format, /*isRequired=*/false);
    if (!free)
      continue;
    EXPECT_TRUE(accepts(free, "")) << form.format;
    EXPECT_TRUE(accepts(free, "a < b <tool <\uFF5C ]")) << form.format;
    EXPECT_TRUE(accepts(free, form.call)) << form.format;
    EXPECT_TRUE(accepts(free, std::string("I call.\n") + form.call))
        << form.format;
    std::string call = form.call;
    EXPECT_FALSE(accepts(free, "I call.\n" + call.substr(0, call.size() - 3)))
        << form.format;
  }
  auto hermes = grammar("hermes", false);
  EXPECT_FALSE(accepts(hermes, kForms[0].wrongType));
  EXPECT_TRUE(accepts(hermes, "<<tool_cal <tool_call"));
  EXPECT_EQ(grammar("llama-3.1", false), nullptr);
}

// Models leave out blanks that their templates write.
TEST(ReplyGrammar, BlanksBesideMarksAreFree) {
  for (auto [format, call] : {
           std::pair("hermes", "<tool_call>{\"name\": \"add\", "
                               "\"arguments\": {\"x\": 1}}</tool_call>"),
           std::pair("qwen3-coder", "<tool_call><function=add><parameter=x>\n1"
                                    "\n</parameter></function></tool_call>"),
           std::pair("glm-4.5", "<tool_call>add<arg_key>x</arg_key><arg_value>1"
                                "</arg_value></tool_call>"),
       })
    EXPECT_TRUE(accepts(grammar(format, true), call)) << call;
}

// DeepSeek's mark of calls has text before its control token.
TEST(ReplyGrammar, TextBeforeAControlTokenIsNoMark) {
  const std::string mark = "<" + controlBytes("[ARGS]") + "calls>";
  Grammar grammar;
  const RuleId root = grammar.declare("root");
  grammar.define(root,
                 textWithout(grammar, "text", {mark}, {.hasControls = true}));
  auto compiled = Automaton::compile(grammar);
  ASSERT_TRUE(compiled.isOk());
  auto automaton = std::make_shared<const Automaton>(*std::move(compiled));
  for (const char *text : {"", "a < b", "<b>4</b>", "<<", "[ARGS]",
                           "<b[ARGS]calls>", "<[TOOL_CALLS][ARGS]"})
    EXPECT_TRUE(accepts(automaton, text)) << text;
  for (const char *text : {"<[ARGS]", "a <<[ARGS]b", "<[ARGS]calls>"})
    EXPECT_FALSE(accepts(automaton, text)) << text;
}

TEST(ReplyGrammar, SeveralCalls) {
  const std::string one = kForms[0].call;
  EXPECT_TRUE(accepts(grammar("hermes", true), one + "\n" + one));
  EXPECT_FALSE(
      accepts(grammar("hermes", true, /*isParallel=*/false), one + "\n" + one));
  EXPECT_TRUE(accepts(grammar("hermes", true),
                      "<tool_call>\n{\"name\": \"stop\", \"arguments\": "
                      "{\"anything\": [1]}}\n</tool_call>"));
}

TEST(ReplyGrammar, WhatCannotBeHeldIsAnError) {
  std::vector<Tool> bad = {
      {"f", "", Json::parse(R"({"type": "object", "properties": {
                                "a": {"$ref": "other.json"}}})")}};
  const ToolFormat &hermes = *toolFormatNamed("hermes");
  auto required = grammarOf(hermes, bad, {.mustCall = true});
  EXPECT_EQ(required.status().code(), StatusCode::Usage);
  EXPECT_THAT(required.status().message(), HasSubstr("\"f\""));
  EXPECT_THAT(required.status().message(), HasSubstr("#/properties/a"));
  // A call that need not be made is then held to any object.
  auto free = grammarOf(hermes, bad, {});
  ASSERT_TRUE(free.isOk()) << free.status().message();
  EXPECT_TRUE(accepts(*free, "<tool_call>\n{\"name\": \"f\", \"arguments\": "
                             "{\"b\": 1}}\n</tool_call>"));
  bad[0].isStrict = true;
  EXPECT_FALSE(grammarOf(hermes, bad, {}).isOk());
  bad[0].parameters = Json::parse(
      R"({"type": "object", "properties": {"a": {"type": "string",
          "pattern": "("}}})");
  auto tagged = grammarOf(*toolFormatNamed("glm-4.5"), bad, {.mustCall = true});
  EXPECT_THAT(tagged.status().message(), HasSubstr("pattern"));
}

// Text between marks is held to its schema, and parameters come in any order.
/// A tool that is not strict takes any object where its schema cannot be held;
/// a deadline that has passed is an error all the same.
TEST(ReplyGrammar, CompilingEndsWithItsDeadline) {
  for (const char *name : {"hermes", "qwen3-coder", "lfm2", "gemma4"}) {
    const std::vector<ToolFormat> forms = {
        withControls(*toolFormatNamed(name), markTokenizer())};
    ReplyWish wish;
    wish.tools = &grammarTools();
    wish.forms = &forms;
    wish.isParallel = false;
    wish.deadline = moetest::passedDeadline();
    auto late = replyGrammar(wish);
    ASSERT_FALSE(late) << name;
    EXPECT_THAT(late.status().message(), HasSubstr("takes longer than"));
    // The failure is not kept.
    wish.deadline = {};
    EXPECT_TRUE(replyGrammar(wish)) << name;
  }
}

/// Wishes that differ anywhere have different keys, whatever their texts are.
TEST(ReplyGrammar, KeysTellWishesApart) {
  std::set<std::string> keys;
  size_t count = 0;
  auto add = [&](auto change) {
    Speech speech;
    speech.answerEnds = {"a", "b"};
    std::vector<ToolFormat> forms = {{.name = "one"}};
    std::vector<Tool> tools = grammarTools();
    ReplyWish wish;
    wish.speech = &speech;
    wish.forms = &forms;
    wish.tools = &tools;
    change(wish, speech, forms.front(), tools.front());
    keys.insert(replyKey(wish));
    ++count;
  };
  add([](auto &, auto &, auto &, auto &) {});
  add([](auto &, Speech &speech, auto &, auto &) {
    speech.answerEnds = {"ab"};
  });
  add([](auto &, Speech &speech, auto &, auto &) {
    speech.answerEnds = {"a"};
    speech.answerBegin = "b";
  });
  add([](auto &, Speech &speech, auto &, auto &) {
    speech.channels.emplace();
  });
  add([](ReplyWish &wish, Speech &speech, auto &, auto &) {
    speech.begun = ">>";
    wish.prompt = "a>>";
  });
  add([](ReplyWish &wish, auto &, auto &, auto &) { wish.mustCall = true; });
  add([](ReplyWish &wish, auto &, auto &, auto &) { wish.isParallel = false; });
  add([](auto &, auto &, ToolFormat &form, auto &) { form.isBare = true; });
  add([](auto &, auto &, ToolFormat &form, auto &) {
    form.typeAttributes = {{"string", " s"}};
  });
  add([](auto &, auto &, ToolFormat &form, auto &) { form.textOpen = "<"; });
  add([](auto &, auto &, auto &, Tool &tool) { tool.isStrict = true; });
  add([](auto &, auto &, auto &, Tool &tool) { tool.parameters["a"] = 1; });
  EXPECT_EQ(keys.size(), count);
}

TEST(ReplyGrammar, ParametersBetweenMarks) {
  const std::vector<Tool> tools = {
      {"f", "", Json::parse(R"({"type": "object", "required": ["b"],
          "properties": {"a": {"type": "string", "minLength": 2},
          "b": {"type": "string", "pattern": "^[a-z/.]+$"},
          "c": {"enum": ["red", "blue"], "type": "string"}}})")}};
  auto automaton =
      *grammarOf(*toolFormatNamed("qwen3-coder"), tools, {.mustCall = true});
  auto call = [](std::initializer_list<std::pair<const char *, const char *>>
                     parameters) {
    std::string text = "<tool_call>\n<function=f>\n";
    for (auto [name, value] : parameters)
      text += fmt::format("<parameter={}>\n{}\n</parameter>\n", name, value);
    return text + "</function>\n</tool_call>";
  };
  EXPECT_TRUE(accepts(automaton, call({{"a", "xy"}, {"b", "src/x.c"}})));
  EXPECT_TRUE(accepts(automaton,
                      call({{"c", "red"}, {"b", "x"}, {"a", "\"q\"\n<x>"}})));
  EXPECT_FALSE(accepts(automaton, call({{"b", "x"}, {"a", "x"}})));
  EXPECT_FALSE(accepts(automaton, call({{"b", "X"}})));
  EXPECT_FALSE(accepts(automaton, call({{"a", "xy"}})));
  EXPECT_FALSE(accepts(automaton, call({{"b", "x"}, {"b", "y"}})));
  EXPECT_FALSE(accepts(automaton, call({{"b", "x"}, {"c", "green"}})));
}

// The form is that of Gemma 4: names without quotes, strings between marks.
TEST(ReplyGrammar, BareArgumentsAreHeldToTheirSchema) {
  const std::vector<Tool> tools = {
      {"f", "", Json::parse(R"({"type": "object", "required": ["n"],
          "properties": {"n": {"type": "integer"},
          "s": {"type": "string", "minLength": 2},
          "l": {"type": "array", "uniqueItems": true, "maxItems": 2},
          "o": {"type": "object", "additionalProperties": {"type": "null"}},
          "e": {"enum": ["a:b", 1]}}})")}};
  auto automaton =
      *grammarOf(*toolFormatNamed("gemma4"), tools, {.mustCall = true});
  auto call = [](std::string text) {
    // Q stands for the mark of strings.
    for (size_t at; (at = text.find('Q')) != text.npos;)
      text.replace(at, 1, "<|\"|>");
    return "<|tool_call>call:f{" + text + "}<tool_call|>";
  };
  for (const char *text : {"n:3", "s:Qa\"}bQ,n:-1", "n: 3, l:[QaQ,QbQ]",
                           "n:3,o:{k:null,x-y:None}", "n:3,e:Qa:bQ", "n:3,e:1"})
    EXPECT_TRUE(accepts(automaton, call(text))) << text;
  for (const char *text :
       {"", "n:QaQ", "n:3,s:QaQ", "n:3,s:\"ab\"", "n:3,l:[QaQ,QaQ]",
        "n:3,l:[1,2,3]", "n:3,o:{k:1}", "n:3,e:QaQ", "n:3,x:1", "n:3,n:4"})
    EXPECT_FALSE(accepts(automaton, call(text))) << text;
}

} // namespace
