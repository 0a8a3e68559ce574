//===- ReplySplitterTest.cpp - Separates thinking from answers ------------===//

#include "runtime/chat/ReplySplitter.h"

#include "runtime/text/StreamDecoder.h"

#include <gtest/gtest.h>

using namespace moert;

namespace {

/// `text` with names in double brackets as control tokens: "[[</think>]]".
std::string marked(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t at = text.find("[[");
    result += text.substr(0, at);
    if (at == text.npos)
      break;
    const size_t end = text.find("]]", at);
    result += controlBytes(text.substr(at + 2, end - at - 2));
    text.remove_prefix(end + 2);
  }
  return result;
}

std::shared_ptr<Speech> thinker(const char *begin, const char *end) {
  auto speech = std::make_shared<Speech>();
  speech->reasoningBegin = marked(begin);
  speech->reasoningEnd = marked(end);
  return speech;
}

std::shared_ptr<Speech> channels(bool isMuse) {
  auto speech = std::make_shared<Speech>();
  Channels made;
  made.start = marked("[[<|start|>]]assistant");
  made.body = marked("[[<|message|>]]");
  made.ends = {marked("[[<|end|>]]"), marked("[[<|eom|>]]"),
               marked("[[<|call|>]]")};
  if (!isMuse)
    made.channel = marked("[[<|channel|>]]");
  made.reasoning = isMuse ? " to=self" : marked("[[<|channel|>]]analysis");
  made.answer = isMuse ? " to=user" : marked("[[<|channel|>]]final");
  speech->channels = made;
  speech->calls = {{.name = "gpt-oss",
                    .body = ToolFormat::Body::NamedJson,
                    .open = "(call ",
                    .close = ")",
                    .nameClose = made.body}};
  if (isMuse)
    speech->calls[0].nameClose = ":";
  return speech;
}

/// Returns "(thought)answer", however the text is cut into pieces.
std::string split(const std::shared_ptr<Speech> &speech,
                  std::string_view prompt, std::string_view text, size_t piece,
                  bool findsCalls = false) {
  ReplySplitter splitter(speech, prompt, findsCalls);
  std::string thought, answer;
  auto take = [&](const std::vector<ReplySplitter::Part> &parts) {
    for (const auto &part : parts)
      (part.isReasoning ? thought : answer) += part.text;
  };
  const std::string reply = marked(text);
  for (size_t i = 0; i < reply.size(); i += piece)
    take(splitter.push(reply.substr(i, piece)));
  take(splitter.finish());
  return "(" + namedControls(thought) + ")" + namedControls(answer);
}

TEST(ReplySplitter, OneReasoningAtTheBeginning) {
  struct {
    std::shared_ptr<Speech> speech;
    const char *prompt, *reply, *expected;
  } cases[] = {
      {thinker("<think>", "</think>"), "", "plain <b> text",
       "()plain <b> text"},
      {thinker("<think>", "</think>"), "", "<think>\na\nb\n</think>\n\nc\n",
       "(a\nb)c\n"},
      {thinker("<think>", "</think>"), "<|im_start|>assistant\n<think>\n",
       "a</think>b", "(a)b"},
      {thinker("<think>", "</think>"), "", "<think></think>\nb", "()b"},
      {thinker("<think>", "</think>"), "", "a < think", "()a < think"},
      {thinker("<think>", "</think>"), "", "<think>never ends ",
       "(never ends )"},
      // A reply may say that it does not reason.
      {thinker("<t>", "</t>"), "", "</t>b", "()b"},
      // After the reasoning, and without one, marks are text.
      {thinker("<think>", "</think>"), "",
       "<think>a</think>b <think> c</think>", "(a)b <think> c</think>"},
      {thinker("<think>", "</think>"), "", "b <think> c</think>",
       "()b <think> c</think>"},
      {thinker("<other>", "</other>"), "", "<think>a</think>b",
       "()<think>a</think>b"},
      {std::make_shared<Speech>(), "", "<think>a</think>b",
       "()<think>a</think>b"},
      // A control token is a mark; its name is text.
      {thinker("[[<t>]]", "[[</t>]]"), "x<t>", "a </t> b[[</t>]]c</t>",
       "(a </t> b)c</t>"},
      {thinker("[[<t>]]", "[[</t>]]"), "", "<t>a</t>", "()<t>a</t>"},
  };
  for (const auto &item : cases)
    for (size_t piece : {1, 2, 3, 7, 1000})
      EXPECT_EQ(split(item.speech, item.prompt, item.reply, piece),
                item.expected)
          << item.reply << " in pieces of " << piece;
}

TEST(ReplySplitter, CallsEndTheReasoning) {
  auto speech = thinker("<think>", "</think>");
  speech->calls = {{.name = "f", .open = "<tool_call>"}};
  const char *text = "I use <tool_call> now.\n<tool_call>{}";
  EXPECT_EQ(split(speech, "<think>", text, 3, true),
            "(I use <tool_call> now.)<tool_call>{}");
  EXPECT_EQ(split(speech, "<think>", text, 3, false),
            "(" + std::string(text) + ")");
  speech->calls[0].open = marked("[[<call>]]");
  EXPECT_EQ(split(speech, "<think>", "a [[<call>]]{}", 4, true), "(a)<call>{}");
}

TEST(ReplySplitter, HeadersNameMessages) {
  const std::string start = "<|start|>assistant";
  struct {
    bool isMuse;
    const char *reply, *expected;
  } cases[] = {
      {false,
       "[[<|channel|>]]analysis[[<|message|>]]a <|end|>[[<|end|>]]"
       "[[<|start|>]]assistant[[<|channel|>]]final[[<|message|>]]b</think>",
       "(a <|end|>)b</think>"},
      {false, "[[<|channel|>]]final [[<|constrain|>]]json[[<|message|>]]{}",
       "(){}"},
      {false, "[[<|channel|>]]commentary[[<|message|>]]I call.", "()I call."},
      {false,
       " to=functions.f[[<|channel|>]]commentary "
       "[[<|constrain|>]]json[[<|message|>]]{}[[<|call|>]]",
       "()(call f<|message|>{})"},
      {false,
       "[[<|channel|>]]analysis to=f[[<|constrain|>]]json[[<|message|>]]1",
       "()(call f<|message|>1"},
      {false, "Hello there", "()Hello there"},
      // Cut inside a header.
      {false, "[[<|channel|>]]analysis", "()"},
      {false,
       "[[<|channel|>]]analysis[[<|message|>]]a[[<|end|>]][[<|start|>]]assist",
       "(a)"},
      {false, "[[<|channel|>]]commentary to=f", "()"},
      {true, " to=self", "()"},
      {true,
       " to=self[[<|message|>]]a[[<|eom|>]][[<|start|>]]assistant "
       "to=user[[<|message|>]]b",
       "(a)b"},
      {true, " to=f[[<|message|>]]<x>1</x>", "()<x>1</x>"},
  };
  for (const auto &item : cases)
    for (size_t piece : {1, 2, 5, 1000})
      EXPECT_EQ(split(channels(item.isMuse), start, item.reply, piece, true),
                item.expected)
          << item.reply << " in pieces of " << piece;
  EXPECT_EQ(split(channels(false), start + "<|channel|>analysis<|message|>",
                  "a[[<|end|>]]", 1),
            "(a)");
}

} // namespace
