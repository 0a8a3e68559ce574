//===- PreTokenizerTest.cpp - Where words begin and end -------------------===//

#include "runtime/text/PreTokenizer.h"

#include <fmt/format.h>
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
  Status status = preTokenizer.split(text, scratch, [&](uint32_t end) {
    ends.push_back(end);
    return Status::ok();
  });
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
  std::string_view words; ///< Expected words, joined by '|'.
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

// Words that agree with llama.cpp's ids, for every name
// (test/tools/pretokenizers.py).
TEST(PreTokenizer, GoldenWordsOfEveryName) {
  std::ifstream file(MOE_TEST_DATA "/vocab/words.json");
  nlohmann::json golden = nlohmann::json::parse(file);
  std::set<std::string> tested;
  for (const nlohmann::json &rules : golden["rules"])
    for (const std::string name : rules["names"]) {
      PreTokenizer preTokenizer = make(name);
      size_t confirmed = 0;
      for (size_t i = 0; i < golden["texts"].size(); ++i) {
        const nlohmann::json &sizes = rules["words"][i];
        if (!sizes.is_array())
          continue; // llama.cpp only approximates these rules.
        ++confirmed;
        std::vector<size_t> found;
        for (const std::string &word :
             split(preTokenizer, golden["texts"][i].get<std::string>()))
          found.push_back(word.size());
        EXPECT_EQ(found, sizes.get<std::vector<size_t>>())
            << name << ": " << golden["texts"][i];
      }
      EXPECT_GE(confirmed, 15u) << name;
      tested.insert(name);
    }
  for (std::string_view name : PreTokenizer::supportedNames())
    EXPECT_TRUE(tested.contains(std::string(name))) << name;
}

// superbpe splits numbers at (?=(\d{3})+(?!\d)), here in linear time.
TEST(PreTokenizer, NumbersAreCountedFromTheRight) {
  using Words = std::vector<std::string>;
  PreTokenizer superbpe = make("superbpe"), tinyAya = make("tiny_aya");
  EXPECT_EQ(split(superbpe, "1234567 a12 123"),
            (Words{"1", "234", "567", " a", "12", " ", "123"}));
  EXPECT_EQ(split(superbpe, "1234\u00BD5"), (Words{"1", "234\u00BD5"}));
  EXPECT_EQ(split(superbpe, "12\u00BD1234\u00BD\u00BD123456"),
            (Words{"12\u00BD1", "234\u00BD\u00BD", "123", "456"}));
  EXPECT_EQ(split(superbpe, "\u00BD123\u00BD12"),
            (Words{"\u00BD", "123\u00BD12"}));
  // A number that is followed by a letter is counted from the left.
  EXPECT_EQ(split(tinyAya, "1234 1234a \t\t4567"),
            (Words{"1", "234", " ", "123", "4", "a", " \t\t", "4", "567"}));
}

TEST(PreTokenizer, WordsTakenWhole) {
  const std::set<std::string_view> all = {"falcon-h1",
                                          "falcon3",
                                          "glm4",
                                          "glm5",
                                          "granite-embed-multi-97m",
                                          "jina-v5-nano",
                                          "lfm2",
                                          "llama-bpe",
                                          "llama-v3",
                                          "llama3",
                                          "midm-2.0",
                                          "minicpm5",
                                          "pixtral",
                                          "tekken",
                                          "youtu"};
  for (std::string_view name : PreTokenizer::supportedNames()) {
    PreTokenizer preTokenizer = make(name);
    bool lines = name == "gemma4" || name == "granite-embed-multi-311m";
    EXPECT_EQ(preTokenizer.takesWhole("word"), all.contains(name)) << name;
    EXPECT_EQ(preTokenizer.takesWhole("\n\n"), all.contains(name) || lines)
        << name;
  }
}

TEST(PreTokenizer, BosWhereTheFileDoesNotSay) {
  EXPECT_EQ(make("smollm").bosDefault(), BosDefault::Off);
  EXPECT_EQ(make("llama-bpe").bosDefault(), BosDefault::On);
  EXPECT_EQ(make("glm4").bosDefault(), BosDefault::Never);
}

// Splits on which two other regular-expression engines agree.
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

TEST(PreTokenizer, AMisspeltNameIsAnswered) {
  for (auto [name, meant] : {std::pair{"deepsek-llm", "deepseek-llm"},
                             {"smolm", "smollm"},
                             {"SmolLM", "smollm"},
                             {"gpt2", "gpt-2"}}) {
    StatusOr<PreTokenizer> result = PreTokenizer::create(name);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.status().code(), StatusCode::Unsupported);
    EXPECT_EQ(result.status().message(),
              fmt::format("pre-tokenizer \"{}\" is not supported; did you mean "
                          "{}?",
                          name, meant));
  }
}

// Another digit is another version, whose rules may be different.
TEST(PreTokenizer, ANameThatIsNoMisspellingHasNoSuggestion) {
  for (std::string_view name : {"foo", "", "qwen3", "gemma5", "x-llama"})
    EXPECT_EQ(PreTokenizer::create(name).status().message(),
              fmt::format("pre-tokenizer \"{}\" is not supported", name));
  EXPECT_THAT(PreTokenizer::knownNames(),
              testing::AllOf(testing::StartsWith("known are default, "),
                             testing::HasSubstr(", llama-bpe, ")));
}

TEST(PreTokenizer, EmptyTextHasNoWords) {
  EXPECT_TRUE(split(make("deepseek-v3"), "").empty());
}

// Runs of one character must take linear time and no deep stack: a quadratic
// expression would take minutes here, and a recursive one would crash. Returns
// one name for each set of rules.
std::vector<std::string_view> namesOfRules() {
  std::map<std::vector<std::string_view>, std::string_view> names;
#define MOE_PRETOKENIZER(name, alphabet, wholeWords, bos, ...)                 \
  names.try_emplace({__VA_ARGS__}, name);
#include "runtime/text/PreTokenizers.def"
  std::vector<std::string_view> result;
  for (const auto &[rules, name] : names)
    result.push_back(name);
  return result;
}

class LongRun : public testing::TestWithParam<std::string_view> {};

TEST_P(LongRun, IsCutInLinearTime) {
  PreTokenizer preTokenizer = make(GetParam());
  constexpr size_t length = 1 << 18;
  for (std::string_view unit :
       {" ",      "a",      "A",          "\n",      "\t",       "=",
        "1",      "'",      "\x01",       "\u00E9",  "\u6F22",   "\u0301",
        "\u02B0", "\u00B2", "\U0001F999", "1\u00BD", "12\u00BD", "1a",
        " a",     "a.",     "\r\n"}) {
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
    All, LongRun, testing::ValuesIn(namesOfRules()),
    [](const testing::TestParamInfo<std::string_view> &info) {
      std::string name(info.param);
      std::ranges::replace_if(
          name, [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

} // namespace
