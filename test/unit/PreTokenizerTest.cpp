//===- PreTokenizerTest.cpp - Where words begin and end -------------------===//

#include "runtime/text/PreTokenizer.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace moert;

namespace {

std::vector<std::string> split(const PreTokenizer &preTokenizer,
                               std::string_view text) {
  PreTokenizer::Scratch scratch;
  std::vector<uint32_t> ends;
  Status status = preTokenizer.split(text, scratch, ends);
  EXPECT_TRUE(status) << status.message();
  std::vector<std::string> words;
  size_t begin = 0;
  for (uint32_t end : ends) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size()) << "the words must cover the text";
  return words;
}

PreTokenizer make(std::string_view name) {
  StatusOr<PreTokenizer> result = PreTokenizer::create(name);
  EXPECT_TRUE(result) << result.status().message();
  return *std::move(result);
}

struct Expectation {
  std::string_view preTokenizer;
  std::string_view words; ///< Joined by '|'.
};
constexpr Expectation expectations[] = {
#include "PreTokenizerExpectations.inc"
};

TEST(PreTokenizer, CutsAsPublished) {
  for (const Expectation &expectation : expectations) {
    std::vector<std::string> expected;
    std::string text;
    for (size_t begin = 0; begin <= expectation.words.size();) {
      size_t end = std::min(expectation.words.find('|', begin),
                            expectation.words.size());
      expected.emplace_back(expectation.words.substr(begin, end - begin));
      text += expected.back();
      begin = end + 1;
    }
    EXPECT_EQ(split(make(expectation.preTokenizer), text), expected)
        << expectation.preTokenizer << ": '" << text << "'";
  }
}

TEST(PreTokenizer, EveryNameHasExpectationsOrIsDefault) {
  const std::set<std::string_view> golden = {
      "llama3",     "llama-v3", "chatglm-bpe", "deepseek-r1-qwen",
      "minimax-m2", "gpt-4o",   "tekken"};
  for (std::string_view name : PreTokenizer::supportedNames()) {
    bool tested =
        std::ranges::any_of(expectations, [&](const Expectation &expectation) {
          return expectation.preTokenizer == name;
        });
    EXPECT_TRUE(tested || golden.contains(name) || name == "default") << name;
  }
}

TEST(PreTokenizer, DefaultIsGpt2) {
  std::string_view text = "I'm 123 years  old\n";
  EXPECT_EQ(split(make("default"), text), split(make("gpt-2"), text));
}

TEST(PreTokenizer, WordsTakenWhole) {
  for (std::string_view name : PreTokenizer::supportedNames()) {
    bool all = name == "llama-bpe" || name == "llama3" || name == "llama-v3" ||
               name == "tekken";
    EXPECT_EQ(make(name).takesWhole("word"), all) << name;
    EXPECT_EQ(make(name).takesWhole("\n\n"), all || name == "gemma4") << name;
  }
}

TEST(PreTokenizer, BosWhereTheFileDoesNotSay) {
  for (std::string_view name : PreTokenizer::supportedNames()) {
    BosDefault expected = BosDefault::Off;
    if (name.starts_with("llama") || name == "tekken" || name == "gemma4")
      expected = BosDefault::On;
    if (name == "glm4" || name == "chatglm-bpe")
      expected = BosDefault::Never;
    EXPECT_EQ(make(name).bosDefault(), expected) << name;
  }
}

// Splits that two other regular-expression engines agree on.
TEST(PreTokenizer, GoldenSplits) {
  std::ifstream file(MOE_TEST_DATA "/vocab/pretokenizers.json");
  nlohmann::json golden = nlohmann::json::parse(file);
  std::map<std::string, std::string> rules;
  for (const auto &[name, splits] : golden["splits"].items())
    rules[name] = name;
  for (const auto &[name, same] : golden["same_as"].items())
    rules[name] = same;
  EXPECT_EQ(rules.size(), 12u);
  for (const auto &[name, rule] : rules) {
    PreTokenizer preTokenizer = make(name);
    for (size_t i = 0; i < golden["strings"].size(); ++i)
      EXPECT_EQ(split(preTokenizer, golden["strings"][i].get<std::string>()),
                golden["splits"][rule][i].get<std::vector<std::string>>())
          << name << ": " << golden["strings"][i];
  }
}

TEST(PreTokenizer, UnknownNameListsTheKnown) {
  StatusOr<PreTokenizer> result = PreTokenizer::create("deepsek-llm");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.status().code(), StatusCode::Unsupported);
  EXPECT_THAT(
      result.status().message(),
      testing::AllOf(testing::HasSubstr("\"deepsek-llm\""),
                     testing::HasSubstr("the nearest by name is deepseek-llm;"),
                     testing::HasSubstr("--pre NAME"),
                     testing::HasSubstr("llama-bpe")));
}

TEST(PreTokenizer, EmptyTextHasNoWords) {
  EXPECT_TRUE(split(make("deepseek-v3"), "").empty());
}

// Runs of one character must take linear time and a flat stack: a quadratic
// expression would take minutes here, a recursive one would end the process.
class LongRun : public testing::TestWithParam<std::string_view> {};

TEST_P(LongRun, IsCutInLinearTime) {
  PreTokenizer preTokenizer = make(GetParam());
  constexpr size_t length = 1 << 18;
  for (std::string_view unit :
       {" ", "a", "A", "\n", "\t", "=", "1", "'", "\x01", "\u00E9", "\u6F22",
        "\u0301", "\u02B0", "\u00B2", "\U0001F999"}) {
    for (std::string_view tail : {"5", "x", "\n"}) {
      std::string text;
      text.reserve(length + unit.size() + tail.size());
      while (text.size() < length)
        text += unit;
      text += tail;
      EXPECT_FALSE(split(preTokenizer, text).empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LongRun, testing::ValuesIn(PreTokenizer::supportedNames()),
    [](const testing::TestParamInfo<std::string_view> &info) {
      std::string name(info.param);
      std::ranges::replace(name, '-', '_');
      return name;
    });

} // namespace
