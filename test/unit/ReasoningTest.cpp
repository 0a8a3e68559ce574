//===- ReasoningTest.cpp - Separates thinking from answers ----------------===//

#include "runtime/text/Reasoning.h"

#include <gtest/gtest.h>

using namespace moert;

namespace {

/// Returns "(thought)answer", however the text is cut into pieces.
std::string split(std::string_view prompt, std::string_view reply,
                  size_t piece) {
  ReasoningSplitter splitter(prompt);
  std::string thought, answer;
  auto take = [&](const std::vector<ReasoningSplitter::Part> &parts) {
    for (const auto &part : parts)
      (part.isReasoning ? thought : answer) += part.text;
  };
  for (size_t i = 0; i < reply.size(); i += piece)
    take(splitter.push(reply.substr(i, piece)));
  take(splitter.finish());
  return "(" + thought + ")" + answer;
}

TEST(Reasoning, MarksOfFamilies) {
  struct {
    const char *prompt, *reply, *expected;
  } cases[] = {
      {"", "plain <b> text", "()plain <b> text"},
      {"", "<think>\na\nb\n</think>\n\nc\n", "(a\nb)c\n"},
      {"<|im_start|>assistant\n<think>\n", "a</think>b", "(a)b"},
      {"", "<think></think>\nb", "()b"},
      {"",
       "<|channel|>analysis<|message|>a<|end|><|start|>assistant"
       "<|channel|>final<|message|>b",
       "(a)b"},
      {"", "<|channel>thought\na\n<channel|>b", "(a)b"},
      {"", "a < think", "()a < think"},
      {"", "<think>never ends ", "(never ends )"},
  };
  for (const auto &item : cases)
    for (size_t piece : {1, 2, 3, 7, 1000})
      EXPECT_EQ(split(item.prompt, item.reply, piece), item.expected)
          << item.reply << " in pieces of " << piece;
}

} // namespace
