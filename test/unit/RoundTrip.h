//===- RoundTrip.h - From a turn to what a model says and back --*- C++ -*-===//
//
// What a chat template writes of a turn of the assistant is what its model
// says. It is cut into tokens, which go through the mask, and through what
// splits and parses replies, and the turn comes back.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_ROUNDTRIP_H
#define MOE_TEST_UNIT_ROUNDTRIP_H

#include "runtime/chat/ChatFormat.h"
#include "runtime/chat/History.h"
#include "runtime/chat/ReplyGrammar.h"
#include "runtime/chat/ReplyStream.h"
#include "runtime/chat/ToolCalls.h"
#include "runtime/constrain/Matcher.h"
#include "test/unit/Speaker.h"

#include <gtest/gtest.h>
#include <random>

namespace moetest {

using namespace moert;
using Json = nlohmann::ordered_json;

/// A vocabulary of all bytes, control tokens, and texts of several bytes.
inline Tokenizer tokenizerWith(const std::vector<std::string> &controls,
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

inline Json parametersOf(const Json &arguments) {
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

/// A model's reply in one turn.
struct Turn {
  std::string reasoning, content;
  std::vector<SaidCall> calls;
};

/// The parts of a turn that were parsed.
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
  /// from its prompt, or leaves a part of it out.
  bool render(const Turn &turn) {
    Messages messages = ask(turn);
    if (messages.isEmpty())
      return false;
    const bool takesObjects =
        format_.history().habits(messages.variables()).takesObjects;
    Json calls = Json::array();
    for (size_t i = 0; i < turn.calls.size(); ++i)
      calls.push_back(
          {{"id",
            format_.speech()->calls.front().name == "kimi-k2"
                ? "functions." + turn.calls[i].name + ":" + std::to_string(i)
                : "abcdefgh" + std::to_string(i)},
           {"type", "function"},
           {"function",
            {{"name", turn.calls[i].name},
             {"arguments", takesObjects
                               ? turn.calls[i].arguments
                               : Json(turn.calls[i].arguments.dump())}}}});
    return answer(turn, calls, std::move(messages));
  }

  /// Writes the turn as the description of the model says.
  bool speak(const Turn &turn) {
    if (ask(turn).isEmpty())
      return false;
    said_ = Speaker(*format_.speech()).say(turn, prompt_);
    return true;
  }

private:
  /// The conversation before the turn, and its prompt; empty if the template
  /// refuses it.
  Messages ask(const Turn &turn) {
    tools_.clear();
    Json tools = Json::array();
    for (size_t i = 0; i < turn.calls.size(); ++i) {
      const SaidCall &call = turn.calls[i];
      if (std::ranges::find(tools_, call.name, &Tool::name) == tools_.end())
        tools_.push_back({.name = call.name,
                          .description = "d",
                          .parameters = parametersOf(call.arguments)});
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
    messages.variables()["enable_thinking"] = true;
    messages.variables()["thinking"] = true;
    // Messages are made fit for the template as those of clients' requests are.
    messages =
        fitMessages(messages, format_.history().habits(messages.variables()));
    auto prompt = format_.render(messages);
    if (!prompt) {
      refusal_ = prompt.status().message();
      return {};
    }
    prompt_ = *prompt;
    return messages;
  }

  bool answer(const Turn &turn, const Json &calls, Messages messages) {
    for (const char *name :
         {"reasoning_content", "reasoning", "thinking", ""}) {
      Json message = {{"role", "assistant"}, {"content", turn.content}};
      const bool hasParts = *name == 0;
      if (hasParts)
        message["content"] =
            Json::array({{{"type", "thinking"}, {"thinking", turn.reasoning}},
                         {{"type", "text"}, {"text", turn.content}}});
      else if (!turn.reasoning.empty())
        message[name] = turn.reasoning;
      if (!calls.empty())
        message["tool_calls"] = calls;
      messages.list().push_back(message);
      messages.variables()["add_generation_prompt"] = false;
      auto all = format_.render(messages);
      messages.dropLast();
      if (!all || !all->starts_with(prompt_))
        continue;
      said_ = all->substr(prompt_.size());
      // Prompts that begin a reasoning go on with one, or with its end.
      if (speech().isInside(prompt_) &&
          said_.find(withoutBlanks(namedControls(speech().reasoningEnd))) ==
              said_.npos)
        continue;
      if (said_.find(turn.reasoning) == said_.npos ||
          said_.find(turn.content) == said_.npos ||
          !std::ranges::all_of(
              turn.calls,
              [&](const SaidCall &call) { return hasCall(call); }) ||
          (hasParts && (said_.find("thinking'") != said_.npos ||
                        said_.find("thinking\"") != said_.npos)))
        continue;
      return true;
    }
    return false;
  }

  bool hasCall(const SaidCall &call) const {
    if (said_.find(call.name) == said_.npos)
      return false;
    for (const auto &[key, value] : call.arguments.items())
      if (said_.find(key) == said_.npos)
        return false;
    return true;
  }

public:
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
  /// The template's message when it refused a prompt.
  const std::string &refusal() const { return refusal_; }

private:
  Tokenizer tokenizer_;
  ChatFormat format_;
  std::string prompt_, said_, refusal_;
  std::vector<Tool> tools_;
  std::vector<int32_t> tokens_;
};

/// Turns with reasoning, text, and calls with every type of JSON.
inline std::vector<Turn> turns(bool reasons, bool takesSeveralCalls,
                               bool takesTextBesideCall) {
  const std::string thought = reasons ? "hm, <b> & so on" : "";
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
  if (takesSeveralCalls)
    all.push_back({thought, "", {every, {"stop", Json::object()}, text}});
  if (takesTextBesideCall)
    all.push_back({thought, "I shall look.", {text}});
  return all;
}

/// Expects that what came back is what was wanted, but for blanks around it.
inline void expectEqual(const Turn &wanted, const Heard &heard,
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

} // namespace moetest

#endif // MOE_TEST_UNIT_ROUNDTRIP_H
