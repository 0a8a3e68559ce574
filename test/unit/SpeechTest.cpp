// How models speak, learned from their templates: what a template writes of a
// conversation is what its model says, and comes back from the parser equal and
// through the mask.
#include "runtime/chat/ChatFormat.h"
#include "runtime/chat/ReplyGrammar.h"
#include "runtime/chat/ReplyStream.h"
#include "runtime/chat/ToolCalls.h"
#include "runtime/constrain/Matcher.h"
#include "runtime/text/StreamDecoder.h"
#include "test/unit/FamilyTemplates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace moert;
using namespace moetest;
using Json = nlohmann::ordered_json;

namespace {

/// A vocabulary of all bytes, control tokens, and texts of several bytes.
Tokenizer tokenizerWith(const std::vector<std::string> &controls,
                        const std::string &eos,
                        const std::vector<std::string> &merged = {}) {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.pre = noSpacePrefix;
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    spec.tokens.push_back(text);
    spec.types.push_back(int32_t(TokenType::Byte));
  }
  auto add = [&](const std::string &text, TokenType type) {
    if (std::ranges::find(spec.tokens, text) != spec.tokens.end())
      return;
    spec.tokens.push_back(text);
    spec.types.push_back(int32_t(type));
  };
  add(eos, TokenType::Control);
  for (const std::string &name : controls)
    add(name, TokenType::Control);
  for (const std::string &text : merged)
    add(text, TokenType::Normal);
  spec.scores.assign(spec.tokens.size(), -1000);
  spec.eos = 256;
  return *Tokenizer::create(spec);
}

Json parametersOf(const Json &arguments) {
  Json properties = Json::object();
  for (const auto &[key, value] : arguments.items())
    properties[key] = {
        {"type", value.is_number_integer() ? "integer" : value.type_name()}};
  return {{"type", "object"},
          {"properties", properties},
          {"additionalProperties", false}};
}

struct SaidCall {
  std::string name;
  Json arguments;
};

/// What a model says in one turn.
struct Turn {
  std::string reasoning, content;
  std::vector<SaidCall> calls;
};

/// What comes back of a turn.
struct Heard {
  Turn turn;
  std::string error;
};

class RoundTrip {
public:
  RoundTrip(const std::string &source, const std::vector<std::string> &controls,
            const std::string &eos)
      : tokenizer_(tokenizerWith(controls, eos)),
        format_(*ChatFormat::fromTemplate(source, tokenizer_)) {}

  const Speech &speech() const { return *format_.speech(); }

  /// Renders the turn; false if the template writes it in no way that goes on
  /// from its prompt.
  bool render(const Turn &turn) {
    tools_.clear();
    Json tools = Json::array(), calls = Json::array();
    for (size_t i = 0; i < turn.calls.size(); ++i) {
      const SaidCall &call = turn.calls[i];
      if (std::ranges::find(tools_, call.name, &Tool::name) == tools_.end())
        tools_.push_back({.name = call.name,
                          .description = "d",
                          .parameters = parametersOf(call.arguments)});
      calls.push_back(
          {{"id", format_.speech()->calls.front().name == "kimi-k2"
                      ? "functions." + call.name + ":" + std::to_string(i)
                      : "abcdefgh" + std::to_string(i)},
           {"type", "function"},
           {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    for (const Tool &tool : tools_)
      tools.push_back({{"type", "function"},
                       {"function",
                        {{"name", tool.name},
                         {"description", tool.description},
                         {"parameters", tool.parameters}}}});
    Messages messages;
    messages.add("user", "Please.");
    if (!tools_.empty())
      messages.variables()["tools"] = tools;
    messages.variables()["add_generation_prompt"] = true;
    auto prompt = format_.render(messages);
    EXPECT_TRUE(prompt.isOk()) << prompt.status().message();
    prompt_ = *prompt;
    Json message = {{"role", "assistant"}, {"content", turn.content}};
    if (!turn.reasoning.empty())
      message["reasoning_content"] = turn.reasoning;
    if (!calls.empty())
      message["tool_calls"] = calls;
    for (bool hasParts : {false, true}) {
      if (hasParts)
        message["content"] =
            Json::array({{{"type", "thinking"}, {"thinking", turn.reasoning}},
                         {{"type", "text"}, {"text", turn.content}}});
      messages.list().push_back(message);
      messages.variables()["add_generation_prompt"] = false;
      auto all = format_.render(messages);
      messages.dropLast();
      if (!all || !all->starts_with(prompt_) ||
          all->find(turn.reasoning) == all->npos)
        continue;
      said_ = all->substr(prompt_.size());
      return true;
    }
    return false;
  }

  /// The tokens of what was rendered, up to the one that ends the turn; with a
  /// vocabulary that has longer tokens, some of them.
  void tokenize(const Tokenizer &tokenizer, std::mt19937 &random) {
    tokens_.clear();
    auto bytes = tokenizer.encode(
        said_, {.addBos = false, .addEos = false, .startsText = false});
    std::string text;
    auto flush = [&] {
      for (size_t at = 0; at < text.size();) {
        std::vector<int32_t> fits;
        for (int32_t id = 256; id < tokenizer.vocabularySize(); ++id)
          if (!tokenizer.isControl(id) &&
              std::string_view(text).substr(at).starts_with(
                  tokenizer.tokenBytes(id)))
            fits.push_back(id);
        if (fits.empty() || random() % 4 == 0) {
          tokens_.push_back(int32_t(uint8_t(text[at++])));
          continue;
        }
        tokens_.push_back(fits[random() % fits.size()]);
        at += tokenizer.tokenBytes(tokens_.back()).size();
      }
      text.clear();
    };
    for (int32_t token : *bytes) {
      if (tokenizer.isControl(token)) {
        flush();
        if (tokenizer.isEndOfGeneration(token))
          return;
        tokens_.push_back(token);
      } else {
        text += tokenizer.tokenBytes(token);
      }
    }
    flush();
  }

  Heard hear(const Tokenizer &tokenizer) {
    Heard heard;
    ReplyOptions options;
    options.speech = format_.speech();
    options.findsCalls = !tools_.empty();
    ReplyStream stream = *ReplyStream::create(tokenizer, prompt_, options);
    ToolCallParser parser(format_.speech()->calls, tools_);
    std::vector<std::string> arguments;
    auto takeEvents = [&](const std::vector<ToolEvent> &events) {
      for (const ToolEvent &event : events)
        switch (event.kind) {
        case ToolEvent::Kind::Text:
          heard.turn.content += event.text;
          break;
        case ToolEvent::Kind::Begin:
          heard.turn.calls.push_back({event.text, {}});
          arguments.emplace_back();
          break;
        case ToolEvent::Kind::Arguments:
          arguments.back() += event.text;
          break;
        case ToolEvent::Kind::End:
          break;
        case ToolEvent::Kind::Error:
          heard.error = event.text;
          break;
        }
    };
    auto take = [&](const std::vector<ReplyEvent> &events) {
      for (const ReplyEvent &event : events) {
        if (event.kind == ReplyEvent::Kind::Reasoning)
          heard.turn.reasoning += event.text;
        else if (options.findsCalls)
          takeEvents(parser.push(event.text));
        else
          heard.turn.content += event.text;
      }
    };
    for (int32_t token : tokens_)
      take(stream.push(token));
    take(stream.finish(StopReason::EndOfText));
    if (options.findsCalls)
      takeEvents(parser.finish());
    for (size_t i = 0; i < arguments.size(); ++i)
      heard.turn.calls[i].arguments = Json::parse(arguments[i], nullptr, false);
    return heard;
  }

  /// The first token that the mask does not let through, as text; "" if it
  /// lets all through and the reply may end then.
  std::string masked(const Tokenizer &tokenizer, bool mustCall) {
    ReplyWish wish;
    wish.speech = format_.speech().get();
    wish.prompt = prompt_;
    wish.tools = &tools_;
    wish.forms = &format_.speech()->calls;
    wish.mustCall = mustCall;
    auto grammar = replyGrammar(wish);
    if (!grammar)
      return grammar.status().message();
    if (!*grammar)
      return "";
    Matcher matcher(*grammar, std::make_shared<const TokenTrie>(tokenizer));
    std::string before;
    for (int32_t token : tokens_) {
      const std::string text(tokenizer.tokenBytes(token));
      if (!matcher.accept(token))
        return "\"" + text + "\" after " + before;
      before += text;
    }
    return matcher.canEnd() ? "" : "the end after " + before;
  }

  const Tokenizer &tokenizer() const { return tokenizer_; }
  const std::string &said() const { return said_; }

private:
  Tokenizer tokenizer_;
  ChatFormat format_;
  std::string prompt_, said_;
  std::vector<Tool> tools_;
  std::vector<int32_t> tokens_;
};

void expectEqual(const Turn &wanted, const Heard &heard,
                 const std::string &where) {
  EXPECT_EQ(heard.error, "") << where;
  EXPECT_EQ(withoutBlanks(heard.turn.content), withoutBlanks(wanted.content))
      << where;
  EXPECT_EQ(withoutBlanks(heard.turn.reasoning),
            withoutBlanks(wanted.reasoning))
      << where;
  ASSERT_EQ(heard.turn.calls.size(), wanted.calls.size()) << where;
  for (size_t i = 0; i < wanted.calls.size(); ++i) {
    EXPECT_EQ(heard.turn.calls[i].name, wanted.calls[i].name) << where;
    EXPECT_EQ(nlohmann::json(heard.turn.calls[i].arguments),
              nlohmann::json(wanted.calls[i].arguments))
        << where;
  }
}

std::vector<Turn> turns(const FamilyTemplate &family) {
  const std::string thought = family.reasons ? "hm, <b> & so on" : "";
  const SaidCall every = {"get_all",
                          {{"city", "Z\u00FCrich \"x\""},
                           {"days", 3},
                           {"ratio", -2.5},
                           {"now", true},
                           {"none", nullptr},
                           {"list", Json::array({"a", 1, Json::array({"b"})})},
                           {"object", {{"k", "v"}, {"n", {{"m", "w"}}}}}}};
  const SaidCall text = {"write", {{"text", "a <think> b </think>\nc"}}};
  std::vector<Turn> all = {
      {thought, "", {every}},
      {thought, "", {text}},
      {thought, "", {{"stop", Json::object()}}},
      {thought, "An answer about <tag> and </tag>.", {}},
  };
  if (family.takesSeveralCalls)
    all.push_back({thought, "", {every, {"stop", Json::object()}, text}});
  if (family.takesTextBesideCall)
    all.push_back({thought, "I shall look.", {text}});
  return all;
}

TEST(Speech, EachFamilyIsHeardAsItSpeaks) {
  std::mt19937 random(5);
  for (const FamilyTemplate &family : familyTemplates()) {
    RoundTrip trip(family.source, family.controls, family.eos);
    EXPECT_EQ(trip.speech().reasons(), family.reasons) << family.name;
    EXPECT_EQ(trip.speech().tellsTools, family.tellsTools) << family.name;
    ASSERT_FALSE(trip.speech().calls.empty()) << family.name;
    for (const Turn &turn : turns(family)) {
      ASSERT_TRUE(trip.render(turn)) << family.name;
      const std::string where = family.name + ": " + trip.said();
      trip.tokenize(trip.tokenizer(), random);
      expectEqual(turn, trip.hear(trip.tokenizer()), where);
      if (turn.calls.empty())
        continue;
      EXPECT_EQ(trip.masked(trip.tokenizer(), false), "") << where;
      if (turn.content.empty()) {
        EXPECT_EQ(trip.masked(trip.tokenizer(), true), "") << where;
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Invented templates
//===----------------------------------------------------------------------===//

/// Templates whose marks and structure a seed chooses.
class Inventor {
public:
  explicit Inventor(uint32_t seed) : random_(seed) {}

  FamilyTemplate make() {
    FamilyTemplate made;
    made.name = "invented";
    made.eos = "<|end_of_it|>";
    controls_.clear();
    const std::string user = mark(true), assistant = mark(true);
    std::string body;
    made.reasons = below(4) != 0;
    if (made.reasons) {
      auto [open, close] = pair();
      body = "{%- if m.reasoning_content %}{{ '" + open + blank() +
             "' ~ m.reasoning_content ~ '" + blank() + close + blank() +
             "' }}{%- endif %}";
    }
    body += "{{ m.content or '' }}" + calls();
    made.source =
        "{%- if tools %}{{ 'T' ~ (tools | tojson) }}{%- endif %}{%- for m in "
        "messages %}{%- if m.role == 'assistant' %}{{ '" +
        assistant + "' }}" + body + "{{ '" + made.eos + "' }}{%- else %}{{ '" +
        user + "' ~ m.content ~ '" + made.eos +
        "' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '" +
        assistant + "' }}{%- endif %}";
    made.controls = controls_;
    return made;
  }

private:
  size_t below(size_t n) { return random_() % n; }
  std::string blank() { return std::array{"", "\\n", "\\n\\n", " "}[below(4)]; }
  std::string word() {
    std::string text;
    for (size_t i = 0; i < 4 + below(4); ++i)
      text += char('a' + below(26));
    return text;
  }
  /// A mark of its own, as a control token or as text.
  std::string mark(bool isControl) {
    const std::string name = word();
    std::string text =
        std::array{"<|" + name + "|>", "<" + name + ">", "[" + name + "]",
                   "<" + name + ":it>"}[below(isControl ? 4 : 3)];
    // Brackets with small letters are tags only as control tokens.
    if (isControl || below(2))
      controls_.push_back(text);
    return text;
  }
  std::pair<std::string, std::string> pair() {
    const std::string name = word();
    auto [open, close] = std::array<std::pair<std::string, std::string>, 4>{
        {{"<" + name + ">", "</" + name + ">"},
         {"[" + name + "]", "[/" + name + "]"},
         {"<|START_" + name + "|>", "<|END_" + name + "|>"},
         {"<|" + name + "|>", "<|" + word() + "|>"}}}[below(4)];
    if (below(2))
      controls_.insert(controls_.end(), {open, close});
    return {open, close};
  }

  std::string calls() {
    auto [open, close] = pair();
    std::string call;
    std::string sectionOpen, sectionClose, between = blank();
    if (below(2)) {
      std::tie(sectionOpen, sectionClose) = pair();
      sectionOpen += blank();
    }
    switch (below(3)) {
    case 0: { // JSON with keys of its own
      const std::string name = word(), arguments = word();
      call = "{{ '" + open + blank() + "{\"" + name +
             "\": \"' ~ f.name ~ '\", \"" + arguments +
             "\": ' ~ (f.arguments | tojson) ~ '}" + blank() + close + "' }}";
      break;
    }
    case 1: {
      const std::string nameClose = mark(true);
      call = "{{ '" + open + "' ~ f.name ~ '" + nameClose +
             "' ~ (f.arguments | tojson) ~ '" + close + "' }}";
      break;
    }
    default: {
      auto [key, keyClose] = pair();
      const std::string valueClose = mark(true) + blank();
      const std::string nameClose = mark(true) + blank();
      call = "{{ '" + open + "' ~ f.name ~ '" + nameClose +
             "' }}{%- for k, v in f.arguments | items %}{{ '" + key +
             "' ~ k ~ '" + keyClose +
             "' ~ (v if v is string else v | tojson) ~ "
             "'" +
             valueClose + "' }}{%- endfor %}{{ '" + close + "' }}";
    }
    }
    return moetest::calls(call, sectionOpen, sectionClose, between);
  }

  std::mt19937 random_;
  std::vector<std::string> controls_;
};

TEST(Speech, InventedTemplatesAreLearned) {
  std::mt19937 random(11);
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const FamilyTemplate family = Inventor(seed).make();
    RoundTrip trip(family.source, family.controls, family.eos);
    const std::string which =
        "seed " + std::to_string(seed) + ": " + family.source;
    EXPECT_EQ(trip.speech().reasons(), family.reasons) << which;
    ASSERT_FALSE(trip.speech().calls.empty()) << which;
    for (const Turn &turn : turns(family)) {
      ASSERT_TRUE(trip.render(turn)) << which;
      // Tokens of several bytes, so that some straddle marks.
      std::vector<std::string> merged;
      for (int i = 0; i < 30; ++i) {
        const size_t at = random() % trip.said().size();
        const std::string part = trip.said().substr(at, 2 + random() % 5);
        const bool isWhole =
            std::ranges::none_of(family.controls, [&](const std::string &name) {
              return trip.said().find(name) != std::string::npos &&
                     (name.find(part) != name.npos ||
                      part.find(name) != part.npos);
            });
        if (isWhole)
          merged.push_back(part);
      }
      const Tokenizer other =
          tokenizerWith(family.controls, family.eos, merged);
      trip.tokenize(other, random);
      const std::string where = which + "\n" + trip.said();
      expectEqual(turn, trip.hear(other), where);
      if (turn.calls.empty())
        continue;
      EXPECT_EQ(trip.masked(other, false), "") << where;
      if (turn.content.empty()) {
        EXPECT_EQ(trip.masked(other, true), "") << where;
      }
      if (testing::Test::HasFailure())
        return;
    }
  }
}

TEST(Speech, WhatATemplateDoesNotShowComesFromTheVocabulary) {
  const std::string source =
      "{%- for m in messages %}{{ m.content }}{%- endfor %}";
  struct {
    std::vector<std::string> controls;
    const char *begin, *end;
  } cases[] = {
      {{"<think>", "</think>"}, "<think>", "</think>"},
      {{"[THINK]", "[/THINK]"}, "[THINK]", "[/THINK]"},
      {{"<|START_THINKING|>", "<|END_THINKING|>"},
       "<|START_THINKING|>",
       "<|END_THINKING|>"},
      {{"<think>"}, "", ""},
      {{"<tool>", "</tool>"}, "", ""},
  };
  for (const auto &each : cases) {
    RoundTrip trip(source, each.controls, "</s>");
    EXPECT_EQ(namedControls(trip.speech().reasoningBegin), each.begin);
    EXPECT_EQ(namedControls(trip.speech().reasoningEnd), each.end);
    EXPECT_FALSE(trip.speech().knowsTools());
  }
}

TEST(Speech, ItIsShownToPeople) {
  const FamilyTemplate family = familyTemplates().front();
  RoundTrip trip(family.source, family.controls, family.eos);
  std::string text;
  for (const auto &[name, value] : trip.speech().rows())
    text += name + ": " + value + "\n";
  EXPECT_EQ(text, "reasoning: <think> ... </think>\n"
                  "tool calls: <tool_call>\\n{\"name\": \"NAME\", "
                  "\"arguments\": {...}}\\n</tool_call> (hermes)\n"
                  "ends of a turn: <|im_end|>\n");
}

} // namespace
