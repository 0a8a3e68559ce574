//===- StreamDecoderTest.cpp - Streaming text and stop strings ------------===//

#include "runtime/text/StreamDecoder.h"

#include "runtime/base/Utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace moert;
using namespace std::string_literals;

namespace {

/// Returns the output for each input piece, and at the end.
std::vector<std::string> stream(const std::vector<std::string> &pieces) {
  Utf8Stream utf8;
  std::vector<std::string> result;
  for (const std::string &piece : pieces)
    result.push_back(utf8.push(piece));
  result.push_back(utf8.finish());
  return result;
}

TEST(Utf8Stream, HoldsBackWhatIsIncomplete) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(stream({"a\xC3", "\xA9z"}), (Pieces{"a", "\u00E9z", ""}));
  EXPECT_EQ(stream({"\xF0", "\x9F", "\xA6", "\x99!"}),
            (Pieces{"", "", "", "\U0001F999!", ""}));
  EXPECT_EQ(stream({"ok\xE6\xBC"}), (Pieces{"ok", "\uFFFD"}));
  EXPECT_EQ(stream({""}), (Pieces{"", ""}));
}

// The examples of the Unicode Standard, section 3.9, tables 3-8 to 3-11.
TEST(Utf8Stream, ReplacesMaximalSubparts) {
  auto all = [](const std::string &bytes) {
    std::string text;
    for (const std::string &piece : stream({bytes}))
      text += piece;
    return text;
  };
  const std::string r = "\uFFFD";
  EXPECT_EQ(all("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(all("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(all("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(all("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8Stream, PiecesDoNotMatter) {
  std::mt19937 random(6);
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    // Lead and continuation bytes of every length, and some ASCII.
    for (int i = 0; i < 30; ++i)
      bytes += "a\x80\xA0\xBF\xC3\xE0\xED\xEF\xF0\xF4\xFF\x90"[random() % 12];
    Utf8Stream whole, cut;
    std::string expected = whole.push(bytes);
    expected += whole.finish();
    std::string actual;
    for (char byte : bytes)
      actual += cut.push({&byte, 1});
    actual += cut.finish();
    ASSERT_EQ(actual, expected);
    ASSERT_EQ(validUtf8Prefix(actual), actual.size()) << "must be valid";
  }
}

struct Stopped {
  std::string text;
  int by;
  bool operator==(const Stopped &) const = default;
};
void PrintTo(const Stopped &stopped, std::ostream *os) {
  *os << "'" << stopped.text << "' by " << stopped.by;
}

Stopped match(const std::vector<std::string> &stops,
              const std::vector<std::string> &pieces) {
  StatusOr<StopMatcher> matcher = StopMatcher::create(stops);
  EXPECT_TRUE(matcher) << matcher.status().message();
  std::string text;
  for (const std::string &piece : pieces)
    text += matcher->push(piece);
  return {text + matcher->finish(), matcher->stoppedBy()};
}

TEST(StopMatcher, TrimsAtTheStop) {
  EXPECT_EQ(match({"END"}, {"one END two"}), (Stopped{"one ", 0}));
  EXPECT_EQ(match({"END"}, {"one E", "N", "D two", "x"}), (Stopped{"one ", 0}));
  EXPECT_EQ(match({"END"}, {"one EN"}), (Stopped{"one EN", -1}));
  EXPECT_EQ(match({"x", "\n\n"}, {"a\n", "\nb"}), (Stopped{"a", 1}));
  EXPECT_EQ(match({}, {"anything"}), (Stopped{"anything", -1}));
}

TEST(StopMatcher, FollowsOverlaps) {
  EXPECT_EQ(match({"aab"}, {"aaab!"}), (Stopped{"a", 0}));
  EXPECT_EQ(match({"ababc"}, {"abababc!"}), (Stopped{"ab", 0}));
  // The first stop string that is complete; among those that end together, the
  // longest.
  EXPECT_EQ(match({"abcd", "bc"}, {"abcd"}), (Stopped{"a", 1}));
  EXPECT_EQ(match({"c", "bc"}, {"abcd"}), (Stopped{"a", 1}));
}

TEST(StopMatcher, ReleasesAsSoonAsItCan) {
  StatusOr<StopMatcher> matcher = StopMatcher::create({"stop", "op!"});
  ASSERT_TRUE(matcher);
  EXPECT_EQ(matcher->push("a st"), "a ");
  EXPECT_EQ(matcher->push("o"), "");
  EXPECT_EQ(matcher->push("re"), "store");
  EXPECT_EQ(matcher->push(" to"), " t") << "'o' may begin 'op!'";
  EXPECT_EQ(matcher->push("p"), "");
  EXPECT_EQ(matcher->push("!?"), "");
  EXPECT_EQ(matcher->stoppedBy(), 1);
  EXPECT_EQ(matcher->push("more"), "");
  EXPECT_EQ(matcher->finish(), "");
}

TEST(StopMatcher, PiecesDoNotMatter) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i)
      text += "ab"[random() % 2];
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string &stop : stops)
      for (unsigned i = 0; i <= 2 + random() % 5; ++i)
        stop += "ab"[random() % 2];
    std::vector<std::string> bytes;
    for (char byte : text)
      bytes.emplace_back(1, byte);
    Stopped actual = match(stops, bytes);
    ASSERT_EQ(actual, match(stops, {text}));

    // By definition, the stop string with the smallest end.
    size_t bestEnd = SIZE_MAX, bestBegin = 0;
    for (const std::string &stop : stops)
      if (size_t begin = text.find(stop); begin != std::string::npos) {
        size_t end = begin + stop.size();
        if (end < bestEnd || (end == bestEnd && begin < bestBegin)) {
          bestEnd = end;
          bestBegin = begin;
        }
      }
    ASSERT_EQ(actual.text,
              bestEnd == SIZE_MAX ? text : text.substr(0, bestBegin));
  }
}

TEST(StopMatcher, EmptyStopIsAnError) {
  StatusOr<StopMatcher> matcher = StopMatcher::create({"a", ""});
  ASSERT_FALSE(matcher);
  EXPECT_EQ(matcher.status().code(), StatusCode::Usage);
  EXPECT_THAT(matcher.status().message(),
              testing::HasSubstr("stop string 2 is empty"));
}

class StreamDecoderTest : public testing::Test {
protected:
  void SetUp() override {
    TokenizerSpec spec;
    spec.model = "gpt2";
    spec.pre = "gpt-2";
    // U+00E9 is C3 A9, which the byte alphabet writes "Ã" and "©".
    spec.tokens = {"a", "b", "\u00C3", "\u00A9", "<s>", "ab", "\u0120"};
    spec.types = {1, 1, 1, 1, 3, 1, 1};
    StatusOr<Tokenizer> created = Tokenizer::create(spec);
    ASSERT_TRUE(created) << created.status().message();
    tokenizer.emplace(*std::move(created));
  }
  StreamDecoder decoder(const std::vector<std::string> &stops = {}) {
    StatusOr<StreamDecoder> result = StreamDecoder::create(*tokenizer, stops);
    EXPECT_TRUE(result);
    return *std::move(result);
  }
  std::optional<Tokenizer> tokenizer;
};

TEST_F(StreamDecoderTest, ShowsWholeCharacters) {
  StreamDecoder text = decoder();
  EXPECT_EQ(text.push(0), "a");
  EXPECT_EQ(text.push(2), "");
  EXPECT_EQ(text.push(4), "") << "a control token shows nothing";
  EXPECT_EQ(text.push(3), "\u00E9");
  EXPECT_EQ(text.push(3), "\uFFFD");
  EXPECT_EQ(text.push(2), "");
  EXPECT_EQ(text.finish(), "\uFFFD");
  EXPECT_FALSE(text.stopped());
}

TEST_F(StreamDecoderTest, StopsAcrossTokens) {
  StreamDecoder text = decoder({"b a", "\u00E9"});
  EXPECT_EQ(text.push(5), "a");
  EXPECT_EQ(text.push(6), "");
  EXPECT_EQ(text.push(1), "b ");
  EXPECT_EQ(text.push(6), "");
  EXPECT_FALSE(text.stopped());
  EXPECT_EQ(text.push(5), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.stoppedBy(), 0);
  EXPECT_EQ(text.push(0), "");
  EXPECT_EQ(text.finish(), "");
}

TEST_F(StreamDecoderTest, StopInsideACharacter) {
  StreamDecoder text = decoder({"\u00E9"});
  EXPECT_EQ(text.push(0), "a");
  EXPECT_EQ(text.push(2), "");
  EXPECT_EQ(text.push(3), "");
  EXPECT_EQ(text.finish(), "");
  EXPECT_TRUE(text.stopped());
}

} // namespace
