//===- TokenizerGoldenTest.cpp - Ids from other tokenizers ----------------===//

#include "TokenizerTestSupport.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace moert;

namespace {


nlohmann::json readJson(const std::string &name) {
  std::ifstream file(vocabularies + name);
  return nlohmann::json::parse(file);
}

std::vector<int32_t> encode(const Tokenizer &tokenizer, std::string_view text,
                            bool parseSpecial) {
  StatusOr<std::vector<int32_t>> ids =
      tokenizer.encode(text, {.addBos = false, .parseSpecial = parseSpecial});
  EXPECT_TRUE(ids) << ids.status().message();
  return *ids;
}

class ByteLevel : public testing::TestWithParam<const char *> {};

TEST_P(ByteLevel, GoldenIds) {
  nlohmann::json golden = readJson(std::string(GetParam()) + ".json");
  Tokenizer tokenizer =
      loadTokenizer(vocabularies + golden["vocab"].get<std::string>());
  size_t tried = 0;
  for (bool parseSpecial : {false, true})
    for (const nlohmann::json &item :
         golden[parseSpecial ? "special" : "plain"]) {
      auto text = item[0].get<std::string>();
      EXPECT_EQ(encode(tokenizer, text, parseSpecial),
                item[1].get<std::vector<int32_t>>())
          << item[0];
      ++tried;
    }
  EXPECT_GT(tried, 200u);
}

INSTANTIATE_TEST_SUITE_P(All, ByteLevel,
                         testing::Values("bpe-llama-bpe", "bpe-qwen2",
                                         "bpe-gpt-4o", "bpe-kimi-k2"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class SentencePiece : public testing::TestWithParam<const char *> {};

TEST_P(SentencePiece, GoldenIdsAndTexts) {
  nlohmann::json golden = readJson(std::string(GetParam()) + ".json");
  Tokenizer tokenizer =
      loadTokenizer(vocabularies + golden["vocab"].get<std::string>());
  for (const nlohmann::json &item : golden["cases"]) {
    auto text = item[0].get<std::string>();
    auto ids = item[1].get<std::vector<int32_t>>();
    EXPECT_EQ(encode(tokenizer, text, false), ids) << item[0];
    EXPECT_EQ(tokenizer.decode(ids), item[2].get<std::string>()) << item[0];
  }
  EXPECT_GT(golden["cases"].size(), 50u);
}

INSTANTIATE_TEST_SUITE_P(All, SentencePiece,
                         testing::Values("spm-llama", "spm-small"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(SentencePieceOptions, NoByteTokensAndNoExtraSpaces) {
  nlohmann::json golden = readJson("spm-no-bytes.json");
  Tokenizer tokenizer =
      loadTokenizer(vocabularies + std::string("spm-no-bytes.gguf"));
  for (const nlohmann::json &item : golden["cases"])
    EXPECT_EQ(encode(tokenizer, item[0].get<std::string>(), false),
              item[1].get<std::vector<int32_t>>())
        << item[0];
  EXPECT_GT(golden["cases"].size(), 100u);
  // Spaces are extra only beside the ends of the whole text.
  auto continued =
      tokenizer.encode(" and", {.addBos = false, .startsText = false});
  ASSERT_TRUE(continued);
  EXPECT_EQ(*continued, encode(tokenizer, "  and", false));
}

// A quadratic tokenizer would take hours: each text has 2^20 symbols, which are
// all joined by the vocabulary's merges, or not at all.
class LongRuns : public testing::TestWithParam<const char *> {};

TEST_P(LongRuns, OfOneCharacterAreEncodedInLinearTime) {
  Tokenizer tokenizer = loadTokenizer(vocabularies + std::string(GetParam()));
  for (std::string_view unit :
       {" ", "a", "A", "\n", "\t", "=", "1", "'", "\x01", "\u00E9", "\u6F22",
        "\u0301", "\u02B0", "\u2581", "\U0001F999"}) {
    std::string text;
    while (text.size() < 1 << 20)
      text += unit;
    std::vector<int32_t> ids = encode(tokenizer, text, true);
    // If the model spells spaces as U+2581, that character decodes to a space.
    std::string back = tokenizer.decode(ids);
    EXPECT_TRUE(back == text || back == std::string(text.size() / 3, ' '))
        << "run of '" << unit << "'";
    EXPECT_LE(ids.size(), text.size() + 1) << "run of '" << unit << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongRuns,
                         testing::Values("bpe-llama-bpe.gguf", "bpe-qwen2.gguf",
                                         "bpe-gpt-4o.gguf", "bpe-kimi-k2.gguf",
                                         "ggml-vocab-llama-spm.gguf",
                                         "spm-small.gguf"),
                         [](const auto &info) {
                           std::string name = info.param;
                           name.resize(name.find('.'));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

} // namespace
