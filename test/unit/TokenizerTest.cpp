//===- TokenizerTest.cpp - Real vocabularies, exact ids -------------------===//

#include "runtime/text/Tokenizer.h"

#include "TokenizerTestSupport.h"
#include "test/unit/PassedDeadline.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

using namespace moert;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr const char *deepSeekVocabulary =
    MOE_TEST_DATA "/vocab/ggml-vocab-deepseek-llm.gguf";
constexpr EncodeOptions plain{.addBos = false, .addEos = false};

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the texts of a .inp file with the ids of the corresponding .out
/// file.
std::vector<std::pair<std::string, std::vector<int32_t>>>
readExpectations(const std::string &base) {
  constexpr std::string_view separator = "\n__ggml_vocab_test__\n";
  std::vector<std::pair<std::string, std::vector<int32_t>>> result;
  std::string inputs = readFile(base + ".inp");
  std::istringstream outputs(readFile(base + ".out"));
  for (size_t begin = 0; begin < inputs.size();) {
    size_t end = inputs.find(separator, begin);
    std::string line;
    EXPECT_TRUE(std::getline(outputs, line));
    std::istringstream numbers(line);
    std::vector<int32_t> ids;
    for (int32_t id; numbers >> id;)
      ids.push_back(id);
    result.emplace_back(inputs.substr(begin, end - begin), ids);
    if (end == std::string::npos)
      break;
    begin = end + separator.size();
  }
  return result;
}

void appendUtf8(std::string &text, uint32_t codePoint) {
  auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (codePoint < 0x80) {
    put(codePoint);
    return;
  }
  unsigned tail = codePoint < 0x800 ? 1 : codePoint < 0x10000 ? 2 : 3;
  constexpr uint32_t leads[] = {0, 0xC0, 0xE0, 0xF0};
  put(leads[tail] | codePoint >> 6 * tail);
  while (tail-- > 0)
    put(0x80 | (codePoint >> 6 * tail & 0x3F));
}

/// Mostly from scripts in use, sometimes from anywhere; never a surrogate.
uint32_t randomCodePoint(std::mt19937 &random) {
  constexpr uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
  while (true) {
    uint32_t codePoint = random() % limits[random() % 4];
    if (codePoint < 0xD800 || codePoint > 0xDFFF)
      return codePoint;
  }
}

class DeepSeekTokenizer : public testing::Test {
protected:
  static void SetUpTestSuite() {
    tokenizer = std::make_unique<Tokenizer>(loadTokenizer(deepSeekVocabulary));
  }
  static void TearDownTestSuite() { tokenizer.reset(); }

  static std::vector<int32_t> encode(std::string_view text,
                                     EncodeOptions options = plain) {
    StatusOr<std::vector<int32_t>> ids = tokenizer->encode(text, options);
    EXPECT_TRUE(ids) << ids.status().message();
    return ids ? *ids : std::vector<int32_t>();
  }

  static std::unique_ptr<Tokenizer> tokenizer;
};
std::unique_ptr<Tokenizer> DeepSeekTokenizer::tokenizer;

TEST_F(DeepSeekTokenizer, AllReferenceStringsExact) {
  auto expectations = readExpectations(deepSeekVocabulary);
  EXPECT_EQ(expectations.size(), 46u);
  for (const auto &[text, ids] : expectations) {
    EXPECT_EQ(encode(text), ids) << "text: '" << text << "'";
    EXPECT_EQ(tokenizer->decode(ids), text);
  }
}

TEST_F(DeepSeekTokenizer, LongRunsOfOneCharacter) {
  constexpr size_t length = 8 << 20;
  for (char c : {' ', 'a', '\n', '='}) {
    std::string text(length, c);
    std::vector<int32_t> ids = encode(text);
    EXPECT_TRUE(tokenizer->decode(ids) == text) << "run of '" << c << "'";
    // Because merges are leftmost first, a run consists of equal tokens if its
    // length is a multiple of theirs.
    size_t each = tokenizer->tokenBytes(ids.front()).size();
    EXPECT_EQ(std::ranges::count(ids, ids.front()), ptrdiff_t(ids.size()));
    EXPECT_EQ(ids.size(), length / each);
    // The longest token of the vocabulary that merges can produce.
    EXPECT_EQ(encode(std::string(each, c)), std::vector{ids.front()});
  }
}

TEST_F(DeepSeekTokenizer, SpecialTokensComeBeforeWords) {
  std::string text = "a<｜end▁of▁sentence｜>b";
  EXPECT_THAT(encode(text), ElementsAre(64, 100001, 65));
  // In plain text, a control token's name is split like other text;
  // user-defined tokens are text and stay whole.
  EncodeOptions plainText = plain;
  plainText.parseSpecial = false;
  std::vector<int32_t> ids = encode(text, plainText);
  EXPECT_THAT(ids, testing::Not(testing::Contains(100001)));
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_THAT(encode("x[PAD100015]", plainText), ElementsAre(87, 100015));
}

TEST_F(DeepSeekTokenizer, BosAndEos) {
  EXPECT_THAT(encode("a", {}), ElementsAre(100000, 64)) << "as the file says";
  EXPECT_THAT(encode("a", {.addBos = false}), ElementsAre(64));
  EXPECT_THAT(encode("a", {.addBos = true, .addEos = true}),
              ElementsAre(100000, 64, 100001));
  EXPECT_THAT(encode("", {}), ElementsAre(100000));
  EXPECT_EQ(tokenizer->bos(), 100000);
  EXPECT_EQ(tokenizer->eos(), 100001);
  EXPECT_TRUE(tokenizer->isEndOfGeneration(100001));
  EXPECT_FALSE(tokenizer->isEndOfGeneration(100000));
}

TEST_F(DeepSeekTokenizer, DecodingLeavesControlTokensOut) {
  EXPECT_EQ(tokenizer->decode(std::vector{100000, 64, 100001, -1, 1 << 30}),
            "a");
  EXPECT_EQ(tokenizer->tokenBytes(100001), "<｜end▁of▁sentence｜>");
  EXPECT_EQ(tokenizer->tokenBytes(-1), "");
  EXPECT_EQ(tokenizer->tokenBytes(tokenizer->vocabularySize()), "");
}

TEST_F(DeepSeekTokenizer, AnyUnicodeRoundTrips) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (unsigned i = 0; i < random() % 60; ++i)
      appendUtf8(text, randomCodePoint(random));
    EXPECT_EQ(tokenizer->decode(encode(text)), text);
  }
}

// This vocabulary has no tokens for the 13 bytes that UTF-8 never uses; every
// other byte is decoded to itself at any place.
TEST_F(DeepSeekTokenizer, AnyBytesRoundTrip) {
  std::mt19937 random(5);
  auto isNeverUtf8 = [](uint8_t byte) {
    return byte == 0xC0 || byte == 0xC1 || byte >= 0xF5;
  };
  for (int round = 0; round < 300; ++round) {
    std::string text, expected;
    for (unsigned i = 0; i < random() % 60; ++i) {
      auto byte = static_cast<uint8_t>(random());
      text += static_cast<char>(byte);
      if (isNeverUtf8(byte))
        expected += "\uFFFD";
      else
        expected += static_cast<char>(byte);
    }
    EXPECT_EQ(tokenizer->decode(encode(text)), expected);
  }
}

TEST_F(DeepSeekTokenizer, InvalidBytesDoNotDisturbTheTextAround) {
  // A lone continuation byte, a truncated sequence, a surrogate.
  std::vector<int32_t> hello = encode("Hello"), world = encode(" world");
  for (std::string_view invalid : {"\x80", "\xE6\xBC", "\xED\xA0\x80"}) {
    std::vector<int32_t> expected = hello;
    for (char byte : invalid)
      expected.push_back(encode(std::string_view(&byte, 1)).at(0));
    expected.insert(expected.end(), world.begin(), world.end());
    EXPECT_EQ(encode("Hello" + std::string(invalid) + " world"), expected);
  }
}

TEST(TinyKjvTokenizer, GenesisWithBos) {
  Tokenizer tokenizer =
      loadTokenizer(MOE_MODELS "/tiny-kjv/tiny-kjv-q4_k_m.gguf");
  StatusOr<std::vector<int32_t>> ids = tokenizer.encode(
      "In the beginning God created the heaven and the earth.");
  ASSERT_TRUE(ids) << ids.status().message();
  EXPECT_THAT(*ids, ElementsAre(0, 1143, 260, 1793, 1237, 388, 281, 554, 284,
                                260, 732, 269, 260, 617, 48));
  EXPECT_TRUE(tokenizer.isEndOfGeneration(1));
}

TEST(TinyKjvTokenizer, AllBytesRoundTrip) {
  Tokenizer tokenizer =
      loadTokenizer(MOE_MODELS "/tiny-kjv/tiny-kjv-q4_k_m.gguf");
  std::string text;
  for (int round = 0; round < 3; ++round)
    for (int byte = 0; byte < 256; ++byte)
      text += static_cast<char>(byte * (2 * round + 1));
  StatusOr<std::vector<int32_t>> ids = tokenizer.encode(text, plain);
  ASSERT_TRUE(ids) << ids.status().message();
  EXPECT_EQ(tokenizer.decode(*ids), text);
}

/// A vocabulary of the letters a, b, c and two special tokens.
TokenizerSpec smallSpec() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = {"<s>", "</s>", "a", "b", "c", "ab", "abc", "<|im_end|>"};
  spec.types = {3, 3, 1, 1, 1, 1, 1, 3};
  spec.merges = {"a b"};
  spec.bos = 0;
  spec.eos = 1;
  return spec;
}

std::vector<int32_t> encodeWith(const TokenizerSpec &spec,
                                std::string_view text) {
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  EXPECT_TRUE(tokenizer) << tokenizer.status().message();
  StatusOr<std::vector<int32_t>> ids = tokenizer->encode(text);
  EXPECT_TRUE(ids) << ids.status().message();
  return *ids;
}

TEST(Tokenizer, IgnoreMergesTakesAWholeWord) {
  TokenizerSpec spec = smallSpec();
  EXPECT_THAT(encodeWith(spec, "abc"), ElementsAre(5, 4));
  spec.pre = "llama-bpe";
  EXPECT_THAT(encodeWith(spec, "abc"), ElementsAre(6));
  EXPECT_THAT(encodeWith(spec, "abca"), ElementsAre(5, 4, 2))
      << "a word that is no token is merged as ever";
}

TEST(Tokenizer, LongestSpecialTokenWins) {
  TokenizerSpec spec = smallSpec();
  spec.tokens.insert(spec.tokens.end(), {"bc", "bcb", "cab"});
  spec.types.insert(spec.types.end(), {4, 4, 4});
  EXPECT_THAT(encodeWith(spec, "abcab"), ElementsAre(2, 8, 5))
      << "the leftmost first, though a longer one starts inside it";
  EXPECT_THAT(encodeWith(spec, "abcb"), ElementsAre(2, 9));
}

TEST(Tokenizer, EndOfGeneration) {
  TokenizerSpec spec = smallSpec();
  spec.eot = 2;
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer);
  std::vector<int32_t> ends;
  for (int32_t id = -1; id <= tokenizer->vocabularySize(); ++id)
    if (tokenizer->isEndOfGeneration(id))
      ends.push_back(id);
  EXPECT_THAT(ends, ElementsAre(1, 2, 7)) << "eos, eot, and a turn's end";
}

TEST(Tokenizer, ContradictionsNameTheKey) {
  auto expectError = [](auto change, StatusCode code, const char *part) {
    TokenizerSpec spec = smallSpec();
    change(spec);
    StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
    ASSERT_FALSE(tokenizer) << part;
    EXPECT_EQ(tokenizer.status().code(), code) << part;
    EXPECT_THAT(tokenizer.status().message(), HasSubstr(part));
  };
  using Spec = TokenizerSpec;
  auto unsupported = StatusCode::Unsupported, invalid = StatusCode::InvalidFile;
  expectError([](Spec &s) { s.model = "bert"; }, unsupported,
              "\"bert\" (WordPiece) is not supported; supported are gpt2");
  expectError([](Spec &s) { s.pre = "teken"; }, unsupported,
              "did you mean tekken?");
  expectError([](Spec &s) { s.model = "llama"; }, invalid,
              "tokenizer.ggml.scores is missing");
  expectError([](Spec &s) { s.model = "llama", s.scores.assign(8, NAN); },
              invalid, "tokenizer.ggml.scores[0] is not a number");
  expectError([](Spec &s) { s.types.pop_back(); }, invalid,
              "tokenizer.ggml.token_type has 7 entries");
  expectError([](Spec &s) { s.scores = {1}; }, invalid,
              "tokenizer.ggml.scores has 1 entries");
  expectError([](Spec &s) { s.bos = 8; }, invalid, "bos_token_id is 8");
  expectError([](Spec &s) { s.eot = -1; }, invalid, "eot_token_id is -1");
  expectError([](Spec &s) { s.addBos = true, s.bos.reset(); }, invalid,
              "add_bos_token");
  expectError([](Spec &s) { s.addEos = true, s.eos.reset(); }, invalid,
              "add_eos_token");
}

/// Characters, U+2581 for a space, and byte tokens for everything else.
TokenizerSpec pieceSpec(const char *model) {
  TokenizerSpec spec;
  spec.model = model;
  spec.pre = spec.model == "llama" ? noSpacePrefix : "gemma4";
  spec.tokens = {"<unk>",   "<s>", "</s>",         "\u2581", "a",       "b",
                 "\u2581a", "ab",  "\u2581\u2581", "\n\n",   "\u2581ab"};
  spec.types = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1};
  spec.scores = {0, 0, 0, -9, -9, -9, -2, -1, -4, -5, -3};
  spec.merges = {"a b", "\u2581 a", "\u2581 ab", "\u2581 \u2581"};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    spec.tokens.push_back(name);
    spec.types.push_back(6);
    spec.scores.push_back(0);
  }
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  return spec;
}

TEST(SpacePieces, MergeByScoreOrRank) {
  constexpr int32_t bytes = 11;
  for (const char *model : {"llama", "gemma4"}) {
    TokenizerSpec spec = pieceSpec(model);
    EXPECT_THAT(encodeWith(spec, " ab"), ElementsAre(10)) << model;
    EXPECT_THAT(encodeWith(spec, "  a"), ElementsAre(3, 6)) << model;
    EXPECT_THAT(encodeWith(spec, "aéb"),
                ElementsAre(4, bytes + 0xC3, bytes + 0xA9, 5))
        << model;
  }
  // Lines are words of gemma4, whose token for a run of line ends matches; for
  // llama, "\n" would have to be a symbol, and two would be merged.
  EXPECT_THAT(encodeWith(pieceSpec("gemma4"), "a\n\nb"), ElementsAre(4, 9, 5));
}

TEST(SpacePieces, TheSpaceInFront) {
  TokenizerSpec spec = pieceSpec("llama");
  spec.pre = "default";
  EXPECT_THAT(encodeWith(spec, ""), ElementsAre());
  EXPECT_THAT(encodeWith(spec, "a"), ElementsAre(6));
  EXPECT_THAT(encodeWith(spec, "</s>a</s>"), ElementsAre(2, 6, 2));
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{1, 6, 6}), "a a");
  // Text after other text gets no space in front, except after a control token.
  auto later =
      tokenizer->encode("a</s>a", {.addBos = false, .startsText = false});
  EXPECT_THAT(*later, ElementsAre(4, 2, 6));
}

TEST(SpacePieces, TheSpaceInFrontOfAUserDefinedToken) {
  TokenizerSpec spec = pieceSpec("llama");
  spec.pre = "default";
  spec.tokens[9] = "<x>";
  spec.types[9] = 4;
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer);
  auto ids = [&](std::string_view text, EncodeOptions options) {
    options.addBos = false;
    return *tokenizer->encode(text, options);
  };
  // These are the results of SentencePiece.
  EXPECT_THAT(ids("<x>a<x>", {.parseSpecial = false}), ElementsAre(3, 9, 4, 9));
  EXPECT_THAT(ids("<x>a", {.parseSpecial = false, .startsText = false}),
              ElementsAre(9, 4));
  // If special tokens are parsed, this one is structure too.
  EXPECT_THAT(ids("<x>a", {}), ElementsAre(9, 4));
}

TEST(SpacePieces, UnknownCharactersWithoutByteTokens) {
  TokenizerSpec spec = pieceSpec("llama");
  spec.tokens.resize(11);
  spec.types.resize(11);
  spec.scores.resize(11);
  EXPECT_THAT(encodeWith(spec, "aéüb"), ElementsAre(4, 0, 5));
}

TEST(SpacePieces, LongRunsOfOneCharacter) {
  for (const char *model : {"llama", "gemma4"}) {
    StatusOr<Tokenizer> tokenizer = Tokenizer::create(pieceSpec(model));
    ASSERT_TRUE(tokenizer);
    for (std::string_view unit : {" ", "a", "\n", "é"}) {
      std::string text;
      while (text.size() < 1 << 20)
        text += unit;
      StatusOr<std::vector<int32_t>> ids = tokenizer->encode(text);
      ASSERT_TRUE(ids);
      EXPECT_TRUE(tokenizer->decode(*ids) == text) << model << unit;
    }
  }
}

// A text is cut at its blanks where no merge crosses them, which shows in
// nothing but time and memory.
TEST(SpacePieces, CutsAtBlanksChangeNothing) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    TokenizerSpec spec = pieceSpec("llama");
    spec.tokens.resize(11);
    spec.types.resize(11);
    spec.scores.resize(11);
    for (int i = 0; i < 12; ++i) {
      std::string token;
      for (uint32_t n = 2 + random() % 3; n > 0; --n)
        token += std::array{"a", "b", "\u2581"}[random() % 3];
      spec.tokens.push_back(token);
      spec.types.push_back(1);
      spec.scores.push_back(-float(random() % 20));
    }
    // Of the words x and y there is none in the text, but a merge joins them.
    TokenizerSpec uncut = spec;
    uncut.tokens.insert(uncut.tokens.end(), {"y", "\u2581x", "y\u2581x"});
    uncut.types.insert(uncut.types.end(), 3, 1);
    uncut.scores.insert(uncut.scores.end(), 3, -30);
    std::string text;
    while (text.size() < 60)
      text += "ab  c"[random() % 5];
    EXPECT_EQ(encodeWith(spec, text), encodeWith(uncut, text)) << text;
  }
}

TEST(Tokenizer, EncodingEndsWhereItIsToEnd) {
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(pieceSpec("llama"));
  ASSERT_TRUE(tokenizer);
  std::string text;
  while (text.size() < 100'000)
    text += "ab a ";
  const std::vector<int32_t> all = *tokenizer->encode(text, plain);
  EncodeOptions options = plain;
  options.most = 100;
  std::vector<int32_t> some = *tokenizer->encode(text, options);
  EXPECT_GE(some.size(), 100u);
  EXPECT_LT(some.size(), 110u);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));

  options = plain;
  options.deadline = moetest::passedDeadline();
  EXPECT_THAT(std::string(tokenizer->encode(text, options).status().message()),
              HasSubstr("cutting the text into tokens takes longer than"));
  // A text that is one word ends inside it.
  const std::string word(20'000, 'a');
  EXPECT_TRUE(tokenizer->encode(word, plain));
  EXPECT_THAT(std::string(tokenizer->encode(word, options).status().message()),
              HasSubstr("cutting a long word into tokens takes longer than"));
}

TEST_F(DeepSeekTokenizer, NoTextHasFewerTokensThanTheLeast) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (uint32_t n = random() % 400; n > 0; --n) {
      const auto id = int32_t(random() % uint32_t(tokenizer->vocabularySize()));
      for (uint32_t times = 1 + random() % 40; times > 0; --times)
        text += tokenizer->tokenBytes(id);
    }
    auto ids = tokenizer->encode(text, plain);
    ASSERT_TRUE(ids);
    EXPECT_LE(tokenizer->leastTokens(text), ids->size());
  }
  EXPECT_GT(tokenizer->leastTokens(std::string(100'000, 'x')), 100u);
}

TEST(Tokenizer, ABreakerMakesANameText) {
  TokenizerSpec spec = smallSpec();
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer);
  for (int byte = 0; byte < 128; ++byte) {
    spec.tokens.push_back(std::string(1, static_cast<char>(byte)));
    spec.types.push_back(byte > 32 ? 1 : 4);
  }
  tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->breakNames("</s>a\uFDD0<<s>", "\uFDD0"),
            "<\uFDD0/s>a<<\uFDD0s>");
  // Breakers within breakers, and the most that a file may have, without moving
  // the rest of the text for each.
  EXPECT_EQ(tokenizer->breakNames("<\xEF\xB7\uFDD0\x90/s>", "\uFDD0"),
            "<\uFDD0/s>");
  std::string many;
  while (many.size() < size_t{8} << 20)
    many += "\uFDD0";
  EXPECT_EQ(tokenizer->breakNames(many + "a", "\uFDD0"), "a");
  auto ids = tokenizer->encode("</s>a<\uFDD0/s>", {.breaker = "\uFDD0"});
  ASSERT_TRUE(ids) << ids.status().message();
  EXPECT_EQ(ids->size(), 6u);
  EXPECT_EQ(ids->front(), 1);
  EXPECT_EQ(tokenizer->decode(*ids), "a</s>");
}

TEST(Tokenizer, PiecesAreWordsAndSpecialTokens) {
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(smallSpec());
  ASSERT_TRUE(tokenizer);
  auto pieces = tokenizer->pieces("a b</s>\xFF");
  ASSERT_TRUE(pieces);
  EXPECT_THAT(*pieces, ElementsAre("a", " b", "</s>", "\xFF"));
  pieces = tokenizer->pieces("a</s>", {.parseSpecial = false});
  ASSERT_TRUE(pieces);
  EXPECT_THAT(*pieces, ElementsAre("a", "</", "s", ">"));
}

// Long and similar names, in a text that repeatedly contains the beginning of
// one.
TEST(Tokenizer, SpecialTokensInTimeOfTheText) {
  TokenizerSpec spec = smallSpec();
  auto add = [&](const std::string &token, TokenType type) {
    spec.tokens.push_back(token);
    spec.types.push_back(int32_t(type));
    return int32_t(spec.tokens.size() - 1);
  };
  int32_t last = add(std::string(100000, '#') + "!", TokenType::Control);
  int32_t pair = add("##", TokenType::UserDefined);
  int32_t three = add("###", TokenType::Control);
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer) << tokenizer.status().message();
  auto ids = tokenizer->encode(std::string(3 << 20, '#'), {.addBos = false});
  ASSERT_TRUE(ids) << ids.status().message();
  EXPECT_EQ(*ids, std::vector<int32_t>(1 << 20, three));
  ids = tokenizer->encode(std::string(1 << 21, '#'),
                          {.addBos = false, .parseSpecial = false});
  ASSERT_TRUE(ids) << ids.status().message();
  EXPECT_EQ(*ids, std::vector<int32_t>(1 << 20, pair));
  ids = tokenizer->encode("###" + std::string(100000, '#') + "!##",
                          {.addBos = false});
  ASSERT_TRUE(ids) << ids.status().message();
  EXPECT_EQ(ids->back(), pair);
  EXPECT_THAT(*ids, testing::Contains(last));
}

TEST(Tokenizer, SpecialTokensTooLongInAll) {
  TokenizerSpec spec = smallSpec();
  spec.tokens.push_back(std::string(5 << 20, 'a'));
  spec.types.push_back(int32_t(TokenType::Control));
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.status().code(), StatusCode::InvalidFile);
  EXPECT_THAT(tokenizer.status().message(),
              testing::HasSubstr("expected at most 4194304"));
}

TEST(Tokenizer, EndsOfTurnsOfFamilies) {
  auto ends = [](std::vector<std::string> names) {
    TokenizerSpec spec = smallSpec();
    spec.eos.reset();
    spec.tokens = std::move(names);
    spec.types.assign(spec.tokens.size(), 3);
    spec.bos.reset();
    StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
    EXPECT_TRUE(tokenizer);
    std::vector<std::string> result;
    for (int32_t id = 0; id < tokenizer->vocabularySize(); ++id)
      if (tokenizer->isEndOfGeneration(id))
        result.push_back(spec.tokens[size_t(id)]);
    return result;
  };
  EXPECT_THAT(ends({"<|end|>", "<|return|>", "<|call|>", "<|endoftext|>"}),
              ElementsAre("<|return|>", "<|call|>", "<|endoftext|>"));
  EXPECT_THAT(ends({"<|end|>", "<|flush|>", "<|calls|>", "<|endoftext|>"}),
              ElementsAre("<|flush|>", "<|calls|>", "<|endoftext|>"));
  EXPECT_THAT(ends({"<|flush|>", "<|endoftext|>"}),
              ElementsAre("<|endoftext|>"));
  EXPECT_THAT(ends({"<|user|>", "<|observation|>", "<|assistant|>"}),
              ElementsAre("<|user|>", "<|observation|>"));
  EXPECT_THAT(ends({"<|user|>", "<|im_end|>"}), ElementsAre("<|im_end|>"));
  EXPECT_THAT(ends({"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}),
              testing::SizeIs(3));
  EXPECT_THAT(
      ends({"<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
            "▁<EOT>"}),
      ElementsAre("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "▁<EOT>"));
}

TEST(Tokenizer, BosThatTheModelLacks) {
  TokenizerSpec spec = smallSpec();
  spec.bos.reset();
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  ASSERT_TRUE(tokenizer);
  StatusOr<std::vector<int32_t>> ids = tokenizer->encode("a", {.addBos = true});
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.status().code(), StatusCode::Usage);
}

} // namespace
