// Keys under tokenizer.ggml. that contradict each other.

#include "compiler/Import/TokenizerMetadata.h"

#include "test/unit/GgufTestFixture.h"

using namespace moetest;

namespace {

class TokenizerMetadataTest : public GgufTest {
protected:
  /// Checks a file that can be opened.
  moert::Status check(const GgufBuilder &gguf) {
    auto model = open(gguf);
    EXPECT_TRUE(model.isOk()) << model.status().message();
    return model.isOk() ? moec::checkTokenizerMetadata(*model)
                        : moert::Status::ok();
  }

  void expectTokenizerError(const GgufBuilder &gguf, std::string_view key,
                            std::string_view text) {
    std::string place = path + ": byte " + std::to_string(gguf.keyAt(key)) +
                        ": key \"" + std::string(key) + "\": ";
    expectFailure(check(gguf), moert::StatusCode::InvalidFile, {place, text});
  }

  static GgufBuilder vocabulary(const char *kind = "gpt2") {
    GgufBuilder gguf = modelBuilder();
    gguf.add("tokenizer.ggml.model", kind);
    gguf.addStrings("tokenizer.ggml.tokens", {"<s>", "</s>", "a", "b", "ab"});
    return gguf;
  }
};

TEST_F(TokenizerMetadataTest, AcceptsWhatModelsCarry) {
  EXPECT_TRUE(check(modelBuilder()).isOk()) << "no vocabulary at all";
  GgufBuilder gguf = vocabulary();
  gguf.addArray<int32_t>("tokenizer.ggml.token_type", {3, 3, 1, 1, 1});
  gguf.addArray<float>("tokenizer.ggml.scores", {0, 0, -1, -2, -3});
  gguf.addStrings("tokenizer.ggml.merges", {"a b"});
  gguf.add("tokenizer.ggml.bos_token_id", uint32_t(0));
  gguf.add("tokenizer.ggml.eos_token_id", uint32_t(4));
  gguf.add("tokenizer.ggml.add_bos_token", true);
  EXPECT_TRUE(check(gguf).isOk()) << check(gguf).message();
}

TEST_F(TokenizerMetadataTest, VocabularyIsUsable) {
  GgufBuilder integers = modelBuilder();
  integers.addArray<int32_t>("tokenizer.ggml.tokens", {1, 2});
  expectTokenizerError(integers, "tokenizer.ggml.tokens",
                       "expected array of string, found array of i32");
  GgufBuilder empty = modelBuilder();
  empty.addStrings("tokenizer.ggml.tokens", {});
  expectTokenizerError(empty, "tokenizer.ggml.tokens",
                       "the vocabulary is empty");
  GgufBuilder kind = modelBuilder();
  kind.addStrings("tokenizer.ggml.tokens", {"a"});
  expectFailure(check(kind), moert::StatusCode::InvalidFile,
                {"key \"tokenizer.ggml.model\": is missing, but the file has a "
                 "vocabulary"});
}

TEST_F(TokenizerMetadataTest, ScoresAndTypesCoverAllTokens) {
  GgufBuilder scores = vocabulary();
  scores.addArray<float>("tokenizer.ggml.scores", {0, 1, 2, 3});
  expectTokenizerError(scores, "tokenizer.ggml.scores",
                       "expected 5 values, one per token, found 4");
  GgufBuilder types = vocabulary();
  types.addArray<int32_t>("tokenizer.ggml.token_type", {1, 1});
  expectTokenizerError(types, "tokenizer.ggml.token_type",
                       "expected 5 values, one per token, found 2");
  GgufBuilder range = vocabulary();
  range.addArray<int32_t>("tokenizer.ggml.token_type", {1, 1, 1, 7, 1});
  expectTokenizerError(range, "tokenizer.ggml.token_type",
                       "token 3 has type 7, expected 0 to 6");
  GgufBuilder negative = vocabulary();
  negative.addArray<int32_t>("tokenizer.ggml.token_type", {1, -1, 1, 1, 1});
  expectTokenizerError(negative, "tokenizer.ggml.token_type",
                       "token 1 has type -1, expected 0 to 6");
}

TEST_F(TokenizerMetadataTest, ByteTokens) {
  EXPECT_EQ(moert::parseByteToken("<0x0A>"), 10);
  EXPECT_EQ(moert::parseByteToken("<0xfF>"), 255);
  for (const char *text : {"<0x-1>", "<0x1>", "<0x001>", "<0xG0>", "0x00", "",
                           "<0x+1>", "<0x 1>", "<0X01>"}) {
    EXPECT_EQ(moert::parseByteToken(text), std::nullopt) << text;
    GgufBuilder gguf = modelBuilder();
    gguf.add("tokenizer.ggml.model", "llama");
    gguf.addStrings("tokenizer.ggml.tokens", {"a", "b", "<0x00>", text});
    gguf.addArray<int32_t>("tokenizer.ggml.token_type", {1, 1, 6, 6});
    expectTokenizerError(gguf, "tokenizer.ggml.tokens",
                         "byte token 3: expected <0x00> to <0xFF>, found \"" +
                             std::string(text) + "\"");
  }
}

TEST_F(TokenizerMetadataTest, MergesHaveTwoParts) {
  for (const char *merge : {"", " ", "ab", "a ", " b"}) {
    GgufBuilder gguf = vocabulary();
    gguf.addStrings("tokenizer.ggml.merges", {"a b", merge});
    expectTokenizerError(gguf, "tokenizer.ggml.merges",
                         "merge 1: expected two parts with a space between, "
                         "found \"" +
                             std::string(merge) + "\"");
  }
}

TEST_F(TokenizerMetadataTest, GivenIdsAreInTheVocabulary) {
  for (const char *name : {"bos", "eos", "unknown", "padding", "eot"}) {
    std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    GgufBuilder gguf = vocabulary();
    gguf.add(key, uint32_t(5));
    expectTokenizerError(gguf, key,
                         "expected an id below the 5 tokens of the "
                         "vocabulary, found 5");
  }
  GgufBuilder negative = vocabulary();
  negative.add("tokenizer.ggml.eos_token_id", int32_t(-1));
  expectTokenizerError(negative, "tokenizer.ggml.eos_token_id",
                       "expected a value of at least 0, found -1");
}

TEST_F(TokenizerMetadataTest, DefaultIdsAreInTheVocabulary) {
  EXPECT_TRUE(check(vocabulary("llama")).isOk());
  GgufBuilder tiny = modelBuilder();
  tiny.add("tokenizer.ggml.model", "llama");
  tiny.addStrings("tokenizer.ggml.tokens", {"a", "b"});
  expectFailure(check(tiny), moert::StatusCode::InvalidFile,
                {"key \"tokenizer.ggml.eos_token_id\": is missing, and its "
                 "default 2 is beyond the 2 tokens of the vocabulary"});
  tiny.add("tokenizer.ggml.eos_token_id", uint32_t(0));
  EXPECT_TRUE(check(tiny).isOk()) << check(tiny).message();
  GgufBuilder bos = vocabulary();
  bos.add("tokenizer.ggml.add_bos_token", true);
  expectTokenizerError(bos, "tokenizer.ggml.add_bos_token",
                       "is true, but tokenizer.ggml.bos_token_id is missing");
}

} // namespace
