// Replies held to a grammar from their first token on, and never beyond.
#include "runtime/chat/Constraint.h"

#include "runtime/chat/ReplyGrammar.h"
#include "runtime/constrain/Gbnf.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"
#include "test/unit/SchedulerTestSupport.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moetest;
using testing::HasSubstr;

namespace {

std::shared_ptr<const Automaton> grammarOf(std::string_view text) {
  auto grammar = parseGbnf(text);
  EXPECT_TRUE(grammar.isOk()) << grammar.status().message();
  auto automaton = Automaton::compile(*grammar);
  EXPECT_TRUE(automaton.isOk()) << automaton.status().message();
  return std::make_shared<const Automaton>(*std::move(automaton));
}

bool isSet(std::span<const uint64_t> mask, int32_t id) {
  return (mask[size_t(id) / 64] >> (id % 64) & 1) != 0;
}

/// Words of a vocabulary; those in angle brackets are control tokens.
Tokenizer tokenizerOf(const std::vector<std::string> &words) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = words;
  for (const std::string &word : words)
    spec.types.push_back(word.starts_with("<") && word.ends_with(">") ? 3 : 1);
  spec.eos = 0;
  return *Tokenizer::create(spec);
}

/// Holds tokens of a small vocabulary to a grammar.
class ConstraintTest : public testing::Test {
protected:
  enum Token : int32_t { Eos, Think, EndThink, A, B, Straddling };

  Constraint constraint(std::string_view grammar) {
    return Constraint(grammarOf(grammar), vocabulary_);
  }
  /// A reply whose answer is "ab".
  Constraint reply(const Speech &speech, std::string_view prompt) {
    auto answer = parseGbnf("root ::= \"ab\"");
    auto automaton = answerGrammar(*answer, speech, prompt);
    EXPECT_TRUE(automaton.isOk()) << automaton.status().message();
    return Constraint(*automaton, vocabulary_);
  }
  /// The tokens that are allowed next.
  std::vector<int32_t> allowed(Constraint &constraint) {
    auto mask = constraint.allowed();
    EXPECT_TRUE(mask.isOk()) << mask.status().message();
    std::vector<int32_t> ids;
    for (int32_t id = 0; mask && id < tokenizer_.vocabularySize(); ++id)
      if (isSet(*mask, id))
        ids.push_back(id);
    return ids;
  }
  void accept(Constraint &constraint, std::initializer_list<int32_t> tokens) {
    for (int32_t token : tokens) {
      auto mask = constraint.allowed();
      ASSERT_TRUE(mask.isOk()) << mask.status().message();
      EXPECT_TRUE(isSet(*mask, token)) << token;
      Status status = constraint.accept(token);
      EXPECT_TRUE(status.isOk()) << status.message();
    }
  }

  const Tokenizer tokenizer_ =
      tokenizerOf({"<eos>", "<think>", "</think>", "a", "b", "!a"});
  const std::shared_ptr<const ConstraintVocabulary> vocabulary_ =
      std::make_shared<const ConstraintVocabulary>(tokenizer_);
};

TEST_F(ConstraintTest, TheGrammarHoldsFromTheFirstToken) {
  Constraint plain = constraint("root ::= \"ab\"");
  EXPECT_EQ(allowed(plain), std::vector<int32_t>{A});
  accept(plain, {A});
  EXPECT_FALSE(plain.hasEnded());
  accept(plain, {B});
  EXPECT_TRUE(plain.hasEnded());
  EXPECT_EQ(allowed(plain), std::vector<int32_t>{Eos});
}

TEST_F(ConstraintTest, TheModelMayReasonFirst) {
  Speech speech;
  speech.reasoningBegin = controlBytes("<think>");
  speech.reasoningEnd = controlBytes("</think>");
  Constraint each = reply(speech, "");
  EXPECT_EQ(allowed(each), (std::vector<int32_t>{Think, EndThink, A}));
  accept(each, {Think});
  // Everything but the end of the text.
  EXPECT_EQ(allowed(each).size(), size_t(tokenizer_.vocabularySize()) - 1);
  accept(each, {B, Think, A, EndThink});
  EXPECT_EQ(allowed(each), std::vector<int32_t>{A});
  accept(each, {A, B});
  EXPECT_TRUE(each.hasEnded());
  // The prompt may have begun it.
  Constraint inside = reply(speech, "say ab<think>\n");
  accept(inside, {B, EndThink, A});
  EXPECT_EQ(allowed(inside), std::vector<int32_t>{B});
  // A model without reasoning answers at once.
  Constraint direct = reply(plainSpeech(), "<think>");
  EXPECT_EQ(allowed(direct), std::vector<int32_t>{A});
}

TEST_F(ConstraintTest, ATokenMayEndTheReasoningAndBeginTheAnswer) {
  Speech speech;
  speech.reasoningBegin = "?";
  speech.reasoningEnd = "!";
  Constraint each = reply(speech, "?");
  accept(each, {B, Straddling});
  EXPECT_EQ(allowed(each), std::vector<int32_t>{B});
  accept(each, {B});
  EXPECT_TRUE(each.hasEnded());
}

TEST_F(ConstraintTest, WhatCannotBeHeldIsAnError) {
  // No token of this vocabulary has a c.
  Constraint dead = constraint("root ::= \"ac\"");
  accept(dead, {A});
  auto mask = dead.allowed();
  ASSERT_FALSE(mask.isOk());
  EXPECT_EQ(mask.status().code(), StatusCode::Unsupported);
  EXPECT_THAT(mask.status().message(), HasSubstr("the grammar cannot go on"));
}

class ConstrainedSchedulerTest : public SchedulerFixture<SamplePlan> {
protected:
  void SetUp() override {
    SchedulerFixture::SetUp();
    openOn(bestIsa(), SamplePlan::Room{128, 16, 4, 24});
    start();
  }
  GenerationRequest held(std::string_view grammar, int32_t maxTokens = 40) {
    GenerationRequest request = greedy({5, 6, 7}, maxTokens);
    request.grammar = grammarOf(grammar);
    return request;
  }
};

TEST_F(ConstrainedSchedulerTest, RepliesFollowTheirGrammars) {
  const char *grammars[] = {
      "root ::= \"the cat.\"",
      "root ::= [ab]{3} \".\"",
      "root ::= (\"yes\" | \"no\")",
      "root ::= \"a\" list \".\"\nlist ::= \"b\" list \"c\" | \"d\"",
  };
  std::vector<std::vector<std::unique_ptr<Received>>> received;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    received.emplace_back();
    for (const char *grammar : grammars) {
      GenerationRequest request = held(grammar);
      request.sampling.temperature = seed == 0 ? 0.0f : 2.0f;
      request.sampling.seed = seed;
      // The mask holds even if the model prefers another token.
      request.sampling.logitBias[20] = 1000;
      received.back().push_back(std::make_unique<Received>());
      submit(request, *received.back().back());
    }
  }
  auto vocabulary = std::make_shared<const ConstraintVocabulary>(*tokenizer_);
  for (auto &ofSeed : received)
    for (size_t i = 0; i < ofSeed.size(); ++i) {
      EXPECT_TRUE(ofSeed[i]->end().status.isOk());
      const Reply &reply = ofSeed[i]->reply();
      if (reply.reason == StopReason::Length)
        continue;
      EXPECT_EQ(reply.reason, StopReason::EndOfText);
      Matcher matcher(grammarOf(grammars[i]), vocabulary->trie);
      for (int32_t token : reply.tokens)
        ASSERT_TRUE(matcher.accept(token).isOk()) << reply.text;
      EXPECT_TRUE(matcher.canEnd()) << reply.text;
      if (i == 0) {
        EXPECT_EQ(reply.text, "the cat.");
      }
    }
}

// Nothing can follow, so that no step is needed for the end.
TEST_F(ConstrainedSchedulerTest, ACompleteTextEndsAtOnce) {
  auto received = complete(held("root ::= \"ab\""));
  EXPECT_EQ(received->text(), "ab");
  EXPECT_EQ(received->reply().reason, StopReason::EndOfText);
  EXPECT_EQ(received->stats().generatedTokens, 2);
}

TEST_F(ConstrainedSchedulerTest, ADeadEndIsAnErrorAndNoText) {
  // The vocabulary has no digits.
  auto received = complete(held("root ::= \"ab\" [0-9]+"));
  EXPECT_EQ(received->end().status.code(), StatusCode::Unsupported);
  EXPECT_THAT(received->end().status.message(),
              HasSubstr("the grammar cannot go on"));
  EXPECT_EQ(received->text(), "ab");
  EXPECT_TRUE(received->hasEndEvent());
  auto none = complete(held("root ::= [0-9]"));
  EXPECT_EQ(none->end().status.code(), StatusCode::Unsupported);
  EXPECT_EQ(none->text(), "");
  // A limit of the matcher is an error, too: every way to divide a text into
  // two lists is followed.
  std::string ambiguous =
      "root ::= y{100}\ny ::= x{1000}\nx ::= [a-z]? [a-z]? [a-z]?";
  auto limited = complete(held(ambiguous));
  EXPECT_EQ(limited->end().status.code(), StatusCode::DoesNotFit);
  EXPECT_EQ(limited->text(), "");
  waitForAll();
  EXPECT_EQ(scheduler_->stats().failed, 3u);
  expectNoPageIsLost();
}

// The mask of a hard grammar takes the work of many steps. Others go on
// meanwhile, and the reply is the one that it would be alone.
TEST_F(ConstrainedSchedulerTest, ASequenceSitsOutStepsUntilItsMaskIsReady) {
  auto hard = [&] { return held("root ::= ([a-z ]{0,60}){0,60} \".\"", 3); };
  auto first = complete(hard());
  ASSERT_TRUE(first->end().status.isOk()) << first->end().status.message();
  EXPECT_EQ(first->stats().generatedTokens, 3);
  start({.maskSteps = 50}); // A new scheduler has not learnt these masks.
  Gate gate; // Holds the first text until the other one is there, too.
  Received other([&](const GenerationEvent &) { gate.pass(); }), slow;
  GenerationRequest request = greedy({8, 9}, 60);
  submit(request, other);
  gate.waitUntilReached();
  submit(hard(), slow);
  gate.open();
  EXPECT_EQ(slow.reply().tokens, first->reply().tokens);
  EXPECT_GE(slow.stats().promptSteps, 5);
  EXPECT_EQ(other.reply().tokens, alone(request));
}

TEST_F(ConstrainedSchedulerTest, OthersGoOnBesideAFailure) {
  Received good, bad;
  GenerationRequest request = greedy({8, 9}, 30);
  submit(request, good);
  submit(held("root ::= \"a\" [0-9]+"), bad);
  EXPECT_FALSE(bad.end().status.isOk());
  EXPECT_EQ(good.reply().tokens, alone(request));
}

} // namespace
