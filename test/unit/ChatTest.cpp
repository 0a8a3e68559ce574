// Conversations as prompts, and tokens as replies, without an engine.
#include "runtime/chat/Conversation.h"

#include "runtime/text/StreamDecoder.h"

#include <gtest/gtest.h>

using namespace moert;
using Kind = ReplyEvent::Kind;

namespace {

enum Token : int32_t { Bos, Eos, Think, EndThink, A, B, C, AB, NewLine, Half };

Tokenizer makeTokenizer() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  // The last is the first byte of a character of two.
  spec.tokens = {"<s>", "</s>", "<think>", "</think>", "a",
                 "b",   "c",    "ab",      "\u010A",   "\u00C3"};
  spec.types.assign(spec.tokens.size(), 1);
  for (Token control : {Bos, Eos, Think, EndThink})
    spec.types[size_t(control)] = 3;
  spec.merges = {"a b"};
  spec.bos = Bos;
  spec.eos = Eos;
  return *Tokenizer::create(spec);
}

class ChatTest : public ::testing::Test {
protected:
  ReplyStream stream(ReplyOptions options, std::string_view prompt = "") {
    return *ReplyStream::create(tokenizer_, prompt, std::move(options));
  }

  Conversation conversation(std::string_view source) {
    auto format = ChatFormat::fromTemplate(source, tokenizer_);
    EXPECT_TRUE(format.isOk()) << format.status().message();
    return Conversation(*format);
  }

  const Tokenizer tokenizer_ = makeTokenizer();
};

/// The options for replies of a model that thinks between its two tokens.
ReplyOptions thinking() {
  auto speech = std::make_shared<Speech>();
  speech->reasoningBegin = controlBytes("<think>");
  speech->reasoningEnd = controlBytes("</think>");
  return {.stops = {}, .speech = speech};
}

std::string textOf(const std::vector<ReplyEvent> &events, Kind kind) {
  std::string text;
  for (const ReplyEvent &event : events)
    if (event.kind == kind)
      text += event.text;
  return text;
}

TEST_F(ChatTest, TheEndOfTextEndsAReply) {
  ReplyStream reply = stream({});
  EXPECT_EQ(textOf(reply.push(A), Kind::Text), "a");
  auto last = reply.push(Eos);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].kind, Kind::End);
  EXPECT_EQ(last[0].reason, StopReason::EndOfText);
  EXPECT_TRUE(reply.hasEnded());
  EXPECT_TRUE(reply.push(B).empty()) << "nothing comes after the end";
  EXPECT_TRUE(reply.finish(StopReason::Cancelled).empty());
  EXPECT_EQ(reply.reply().reason, StopReason::EndOfText);
  EXPECT_EQ(reply.reply().tokens, std::vector<int32_t>{A});
}

TEST_F(ChatTest, ItMayBeIgnored) {
  ReplyOptions options;
  options.ignoreEos = true;
  ReplyStream reply = stream(options);
  EXPECT_TRUE(reply.push(Eos).empty());
  EXPECT_TRUE(reply.takesMore());
}

TEST_F(ChatTest, StopStringsAreLeftOut) {
  ReplyOptions options;
  options.stops = {"x", "bc"};
  ReplyStream reply = stream(options);
  EXPECT_EQ(textOf(reply.push(AB), Kind::Text), "a") << "b is held back";
  auto last = reply.push(C);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].reason, StopReason::StopString);
  EXPECT_EQ(reply.reply().stop, 1);
  EXPECT_EQ(reply.reply().text, "a");
  EXPECT_EQ(reply.reply().tokens, (std::vector<int32_t>{AB, C}));
}

TEST_F(ChatTest, LengthsAreCounted) {
  ReplyOptions options;
  options.maxTokens = 2;
  options.stops = {"bc"};
  ReplyStream reply = stream(options);
  EXPECT_TRUE(reply.push(A).size() == 1 && reply.takesMore());
  auto last = reply.push(B);
  EXPECT_EQ(textOf(last, Kind::Text), "b") << "what was held back comes";
  EXPECT_EQ(last.back().reason, StopReason::Length);
  options.maxTokens = 0;
  ReplyStream none = stream(options);
  EXPECT_FALSE(none.takesMore());
  EXPECT_FALSE(none.hasEnded());
  EXPECT_EQ(none.finish(StopReason::Length).size(), 1u);
}

TEST_F(ChatTest, AHalfCharacterIsReplacedAtTheEnd) {
  ReplyStream reply = stream({});
  EXPECT_TRUE(reply.push(Half).empty());
  auto last = reply.finish(StopReason::ContextFull);
  EXPECT_EQ(textOf(last, Kind::Text), "\uFFFD");
  EXPECT_EQ(last.back().reason, StopReason::ContextFull);
}

TEST_F(ChatTest, AnEmptyStopStringIsRefused) {
  ReplyOptions options;
  options.stops = {""};
  EXPECT_EQ(ReplyStream::create(tokenizer_, "", options).status().code(),
            StatusCode::Usage);
}

TEST_F(ChatTest, ReasoningIsToldFromTheAnswer) {
  ReplyStream reply = stream(thinking());
  for (Token token : {Think, NewLine, A, EndThink, B})
    reply.push(token);
  reply.push(Eos);
  EXPECT_EQ(reply.reply().reasoning, "a");
  EXPECT_EQ(reply.reply().text, "b");
  EXPECT_EQ(reply.reply().raw, "<think>\na</think>b");
  // The prompt may have begun it.
  ReplyStream inside = stream(thinking(), "a<think>\n");
  inside.push(A);
  inside.push(EndThink);
  inside.finish(StopReason::Cancelled);
  EXPECT_EQ(inside.reply().reasoning, "a");
  EXPECT_EQ(inside.reply().text, "");
}

TEST_F(ChatTest, WithoutAChatAllIsText) {
  ReplyStream reply = stream({});
  for (Token token : {Think, A, EndThink, B})
    reply.push(token);
  EXPECT_EQ(reply.reply().text, "ab") << "control tokens have no text";
  EXPECT_EQ(reply.reply().reasoning, "");
}

constexpr std::string_view kAll =
    "{% for m in messages %}{{ m.content }}{% endfor %}";

TEST_F(ChatTest, WhatTheModelSaidStaysItsTokens) {
  Conversation chat = conversation(kAll);
  chat.messages().add("user", "c");
  auto first = chat.prompt();
  ASSERT_TRUE(first.isOk());
  EXPECT_EQ(first->tokens, std::vector<int32_t>{C});
  // The text of the reply would be one token.
  auto reply = chat.reply(*first);
  for (Token token : {A, B, Eos})
    reply->push(token);
  chat.addReply(*first, reply->reply());
  EXPECT_EQ(chat.messages().lastRole(), "assistant");
  chat.messages().add("user", "ab");
  auto second = chat.prompt();
  ASSERT_TRUE(second.isOk());
  EXPECT_EQ(second->text, "cabab");
  EXPECT_EQ(second->tokens, (std::vector<int32_t>{C, A, B, AB}));
  // A different history gives a different text.
  chat.messages().reset();
  chat.messages().add("user", "ab");
  EXPECT_EQ(chat.prompt()->tokens, std::vector<int32_t>{AB});
}

TEST_F(ChatTest, TokensOfAStopStringAreNoPartOfTheHistory) {
  Conversation chat = conversation(kAll);
  chat.messages().add("user", "c");
  auto prompt = chat.prompt();
  ReplyOptions options;
  options.stops = {"b"};
  auto reply = chat.reply(*prompt, options);
  for (Token token : {A, AB})
    reply->push(token);
  EXPECT_EQ(reply->reply().text, "aa");
  chat.addReply(*prompt, reply->reply());
  chat.messages().add("user", "b");
  // The second a was a part of the stop string's token.
  EXPECT_EQ(chat.prompt()->text, "caab");
  EXPECT_EQ(chat.prompt()->tokens, (std::vector<int32_t>{C, A, AB}));
}

TEST_F(ChatTest, ThinkingIsTheTemplatesToHandle) {
  Conversation chat = conversation(
      "{{ 'a' if enable_thinking is defined and not enable_thinking }}b");
  EXPECT_EQ(chat.prompt()->text, "b");
  chat.options().thinking = Thinking::Off;
  EXPECT_EQ(chat.prompt()->text, "ab");
  chat.options().thinking = Thinking::Forced;
  EXPECT_EQ(chat.prompt()->text, "b<think>\n") << "by the vocabulary's marks";
}

TEST_F(ChatTest, NamesOfTokensMayBeText) {
  Conversation chat = conversation("{{ messages[0].content }}</s>");
  chat.messages().add("user", "a</s>");
  chat.options().noSpecial = true;
  // The vocabulary has no tokens for the single characters of "</s>", so
  // encoding it as text fails.
  EXPECT_FALSE(chat.prompt().isOk());
  chat.options().noSpecial = false;
  EXPECT_EQ(chat.prompt()->tokens, (std::vector<int32_t>{A, Eos, Eos}));
}

TEST(MessagesTest, AListOrAnObjectWithOne) {
  auto list = Messages::parse(R"([{"role": "user", "content": "a"}])", "m");
  ASSERT_TRUE(list.isOk());
  EXPECT_EQ(list->list().size(), 1u);
  auto object = Messages::parse(R"({"messages": [], "tools": [1]})", "m");
  ASSERT_TRUE(object.isOk());
  EXPECT_TRUE(object->isEmpty());
  EXPECT_EQ(object->variables()["tools"][0], 1);
  auto again = Messages::parse(list->json(), "m");
  ASSERT_TRUE(again.isOk());
  EXPECT_EQ(again->json(), list->json());
}

TEST(MessagesTest, BadOnesAreRefusedWithTheirPlace) {
  auto why = [](std::string_view text) {
    return Messages::parse(text, "m.json").status().message();
  };
  EXPECT_EQ(why("[{\"role\": \"user\"},\n {}]").substr(0, 38),
            "m.json:2:2: has a message without a ro");
  EXPECT_EQ(why("{\"messages\": 3}").substr(0, 38),
            "m.json:1:2: has messages that are not ");
  EXPECT_EQ(why("3").substr(0, 28), "m.json:1:1: has no messages;");
  std::string deep = std::string(200, '[') + std::string(200, ']');
  EXPECT_FALSE(Messages::parse(deep, "m.json").isOk());
  auto parsed = Messages::fromJson({{"messages", {{{"role", 3}}}}});
  EXPECT_EQ(parsed.status().code(), StatusCode::Usage);
  EXPECT_EQ(parsed.status().message().substr(0, 40),
            "messages[0]: has a message without a rol");
}

TEST(MessagesTest, SystemMessagesComeFirst) {
  Messages messages;
  messages.add("user", "a\xFF");
  messages.setSystem("s");
  messages.setSystem("t");
  ASSERT_EQ(messages.list().size(), 2u);
  EXPECT_EQ(messages.list()[0]["content"], "t");
  EXPECT_EQ(messages.list()[1]["content"], "a\uFFFD");
  messages.dropLast();
  EXPECT_EQ(messages.lastRole(), "system");
  messages.add("user", "a");
  messages.reset();
  EXPECT_EQ(messages.lastRole(), "system");
}

} // namespace
