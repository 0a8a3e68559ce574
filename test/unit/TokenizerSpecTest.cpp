//===- TokenizerSpecTest.cpp - From GGUF keys to a TokenizerSpec ------===//

#include "compiler/Import/TokenizerMetadata.h"
#include "test/support/GgufBuilder.h"
#include "test/support/TempDir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moert;
using testing::ElementsAre;

namespace {

class TokenizerSpecFromGguf : public testing::Test {
protected:
  StatusOr<TokenizerSpec> read() {
    std::string path = gguf.write(dir.file("model.gguf"));
    StatusOr<moec::GgufModel> model = moec::GgufModel::open(path);
    EXPECT_TRUE(model) << model.status().message();
    return moec::tokenizerSpecFromGguf(*model);
  }

  void SetUp() override { gguf.add("general.architecture", "test"); }

  void addVocabulary() {
    gguf.add("tokenizer.ggml.model", "gpt2");
    gguf.addStrings("tokenizer.ggml.tokens", {"<s>", "a", "b", "ab"});
  }

  moetest::TempDir dir;
  moetest::GgufBuilder gguf;
};

TEST_F(TokenizerSpecFromGguf, ReadsEveryKey) {
  addVocabulary();
  gguf.add("tokenizer.ggml.pre", "qwen2");
  gguf.addArray<int32_t>("tokenizer.ggml.token_type", {3, 1, 1, 1, 5});
  gguf.addArray<float>("tokenizer.ggml.scores", {0, 1, 2, 3, 4});
  gguf.addStrings("tokenizer.ggml.merges", {"a b"});
  gguf.add("tokenizer.ggml.bos_token_id", uint32_t(0));
  gguf.add("tokenizer.ggml.eos_token_id", uint32_t(1));
  gguf.add("tokenizer.ggml.eot_token_id", uint32_t(2));
  gguf.add("tokenizer.ggml.unknown_token_id", uint32_t(3));
  gguf.add("tokenizer.ggml.padding_token_id", uint32_t(0));
  gguf.add("tokenizer.ggml.add_bos_token", true);
  gguf.add("tokenizer.ggml.add_eos_token", true);
  StatusOr<TokenizerSpec> spec = read();
  ASSERT_TRUE(spec) << spec.status().message();
  EXPECT_EQ(spec->model, "gpt2");
  EXPECT_EQ(spec->pre, "qwen2");
  EXPECT_THAT(spec->tokens, ElementsAre("<s>", "a", "b", "ab"));
  EXPECT_THAT(spec->types, ElementsAre(3, 1, 1, 1)) << "one for each token";
  EXPECT_THAT(spec->scores, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(spec->merges, ElementsAre("a b"));
  EXPECT_EQ(spec->bos, 0);
  EXPECT_EQ(spec->eos, 1);
  EXPECT_EQ(spec->eot, 2);
  EXPECT_EQ(spec->unk, 3);
  EXPECT_EQ(spec->pad, 0);
  EXPECT_TRUE(spec->addBos);
  EXPECT_TRUE(spec->addEos);
}

TEST_F(TokenizerSpecFromGguf, Defaults) {
  addVocabulary();
  StatusOr<TokenizerSpec> spec = read();
  ASSERT_TRUE(spec) << spec.status().message();
  EXPECT_EQ(spec->pre, "default");
  EXPECT_TRUE(spec->types.empty());
  EXPECT_FALSE(spec->bos || spec->eos || spec->eot || spec->unk || spec->pad);
  EXPECT_FALSE(spec->addBos);
  EXPECT_FALSE(spec->addEos);
}

TEST_F(TokenizerSpecFromGguf, NoVocabularyIsAnError) {
  StatusOr<TokenizerSpec> spec = read();
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.status().code(), StatusCode::InvalidFile);
  EXPECT_THAT(spec.status().message(),
              testing::HasSubstr("tokenizer.ggml.tokens"));
}

} // namespace
