//===- TokenizerTest.cpp - Real vocabularies, exact ids -------------------===//

#include "runtime/text/Tokenizer.h"

#include "TokenizerTestSupport.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

using namespace moert;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr const char *kDeepSeekVocabulary =
    MOE_TEST_DATA "/vocab/ggml-vocab-deepseek-llm.gguf";
constexpr EncodeOptions kPlain{.addBos = false, .addEos = false};

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The texts of a .inp file and the ids of the .out file beside it.
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

class DeepSeekTokenizer : public testing::Test {
protected:
  static void SetUpTestSuite() {
    tokenizer = std::make_unique<Tokenizer>(loadTokenizer(kDeepSeekVocabulary));
  }
  static void TearDownTestSuite() { tokenizer.reset(); }

  static std::vector<int32_t> encode(std::string_view text,
                                     EncodeOptions options = kPlain) {
    StatusOr<std::vector<int32_t>> ids = tokenizer->encode(text, options);
    EXPECT_TRUE(ids) << ids.status().message();
    return ids ? *ids : std::vector<int32_t>();
  }

  static std::unique_ptr<Tokenizer> tokenizer;
};
std::unique_ptr<Tokenizer> DeepSeekTokenizer::tokenizer;

TEST_F(DeepSeekTokenizer, AllReferenceStringsExact) {
  auto expectations = readExpectations(kDeepSeekVocabulary);
  EXPECT_EQ(expectations.size(), 46u);
  for (const auto &[text, ids] : expectations) {
    EXPECT_EQ(encode(text), ids) << "text: '" << text << "'";
    EXPECT_EQ(tokenizer->decode(ids), text);
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

} // namespace
