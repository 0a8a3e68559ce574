//===- PreTokenizerFitTest.cpp - The rules behind a vocabulary ------------===//

#include "compiler/Import/PreTokenizerFit.h"

#include <gtest/gtest.h>

using namespace moec;

namespace {

std::optional<std::string_view> fitOf(const std::string &name) {
  moert::StatusOr<GgufModel> model =
      GgufModel::open(MOE_TEST_DATA "/vocab/" + name + ".gguf");
  EXPECT_TRUE(model) << model.status().message();
  return fittingPreTokenizer(*model);
}

TEST(PreTokenizerFit, AWholeVocabularyTellsItsRules) {
  EXPECT_EQ(fitOf("ggml-vocab-deepseek-llm"), "deepseek-llm");
}

TEST(PreTokenizerFit, AFewTokensTellNothing) {
  EXPECT_EQ(fitOf("bpe-qwen2"), std::nullopt);
}

TEST(PreTokenizerFit, SentencePieceHasNone) {
  EXPECT_EQ(fitOf("ggml-vocab-llama-spm"), std::nullopt);
}

} // namespace
