//===- BpeModelTest.cpp - Merges as the algorithm is defined --------------===//

#include "runtime/text/BpeModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace moert;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// The byte-pair algorithm as it is defined: joins the leftmost pair of the
/// lowest rank until there is none.
std::vector<std::string> mergeByDefinition(
    std::string_view word,
    const std::map<std::pair<std::string, std::string>, size_t> &ranks) {
  std::vector<std::string> parts;
  for (char byte : word)
    parts.emplace_back(1, byte);
  while (true) {
    size_t best = SIZE_MAX, place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      auto rank = ranks.find({parts[i], parts[i + 1]});
      if (rank != ranks.end() && rank->second < best) {
        best = rank->second;
        place = i;
      }
    }
    if (best == SIZE_MAX)
      return parts;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + ptrdiff_t(place) + 1);
  }
}

BpeModel make(const TokenizerSpec &spec) {
  StatusOr<BpeModel> model = BpeModel::create(spec);
  EXPECT_TRUE(model) << model.status().message();
  return *std::move(model);
}

std::vector<int32_t> encode(const BpeModel &model, std::string_view word) {
  BpeModel::Scratch scratch;
  std::vector<int32_t> ids;
  Status status = model.encodeWord(word, scratch, ids);
  EXPECT_TRUE(status) << status.message();
  return ids;
}

// Random merges, some of which no training would give: a pair may rank before
// the merges that make its halves. Short and long words use different queues.
TEST(BpeModel, MergesAsDefined) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    TokenizerSpec spec;
    std::vector<std::string> texts = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> pairs;
    for (int i = 0; i < 12; ++i) {
      std::string left = texts[random() % texts.size()];
      std::string right = texts[random() % texts.size()];
      pairs.emplace_back(left, right);
      texts.push_back(left + right);
    }
    std::shuffle(pairs.begin(), pairs.end(), random);
    std::map<std::pair<std::string, std::string>, size_t> ranks;
    for (const auto &[left, right] : pairs) {
      ranks.try_emplace({left, right}, spec.merges.size());
      spec.merges.push_back(left + " " + right);
    }
    spec.tokens = texts;
    BpeModel model = make(spec);
    size_t length = round < 50 ? random() % 40 : 4096 + random() % 100;
    std::string word;
    for (size_t i = 0; i <= length; ++i)
      word += "abc"[random() % (1 + round % 3)];

    std::vector<std::string> parts;
    for (int32_t id : encode(model, word))
      parts.emplace_back(model.bytes(id));
    ASSERT_EQ(parts, mergeByDefinition(word, ranks)) << word;
  }
}

TEST(BpeModel, AMergeResultThatIsNoTokenFallsBackToBytes) {
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "abb"};
  spec.merges = {"a b", "ab b"};
  BpeModel model = make(spec);
  EXPECT_THAT(encode(model, "abb"), ElementsAre(2));
  EXPECT_THAT(encode(model, "ab"), ElementsAre(0, 1));
}

TEST(BpeModel, ByteAlphabet) {
  TokenizerSpec spec;
  // Space, the byte 0x00, 0xAD (the last of the shifted ones) and 0xE9.
  spec.tokens = {"\u0120", "\u0100", "\u0143", "\u00E9"};
  BpeModel model = make(spec);
  EXPECT_THAT(encode(model, std::string_view(" \0\xAD\xE9", 4)),
              ElementsAre(0, 1, 2, 3));
}

TEST(BpeModel, ByteTokensStandForTheirByte) {
  TokenizerSpec spec;
  spec.tokens = {"<0x41>", "<0xff>"};
  spec.types = {6, 6};
  EXPECT_THAT(encode(make(spec), "A\xFF"), ElementsAre(0, 1));
}

TEST(BpeModel, AByteWithoutTokenBecomesTheUnknownToken) {
  TokenizerSpec spec;
  spec.tokens = {"a", "<unk>"};
  spec.types = {1, 2};
  spec.unk = 1;
  EXPECT_THAT(encode(make(spec), "aza"), ElementsAre(0, 1, 0));
}

TEST(BpeModel, AByteWithoutUnknownTokenBecomesTheReplacementCharacter) {
  TokenizerSpec spec;
  spec.tokens = {"a", "\u00EF", "\u00BF", "\u00BD", "\u00EF\u00BF"};
  spec.merges = {"\u00EF \u00BF"};
  EXPECT_THAT(encode(make(spec), "az"), ElementsAre(0, 4, 3));
}

TEST(BpeModel, AByteWithoutAnyReplacementIsAnError) {
  TokenizerSpec spec;
  spec.tokens = {"a"};
  BpeModel model = make(spec);
  BpeModel::Scratch scratch;
  std::vector<int32_t> ids;
  Status status = model.encodeWord("az", scratch, ids);
  EXPECT_EQ(status.code(), StatusCode::InvalidFile);
  EXPECT_THAT(status.message(), HasSubstr("byte 0x7A"));
}

TEST(BpeModel, FindsOnlyNormalTokens) {
  TokenizerSpec spec;
  spec.tokens = {"ab", "</s>", "user", "unused", "ab"};
  spec.types = {1, 3, 4, 5, 1};
  BpeModel model = make(spec);
  EXPECT_EQ(model.find("ab"), 0) << "the first of equal tokens";
  EXPECT_EQ(model.find("</s>"), -1);
  EXPECT_EQ(model.find("user"), -1);
  EXPECT_EQ(model.find("unused"), -1);
  EXPECT_EQ(model.find("x"), -1) << "a byte, but no token";
}

TEST(BpeModel, MalformedVocabularies) {
  auto message = [](const TokenizerSpec &spec) {
    StatusOr<BpeModel> model = BpeModel::create(spec);
    EXPECT_FALSE(model);
    EXPECT_EQ(model.status().code(), StatusCode::InvalidFile);
    return model.status().message();
  };
  TokenizerSpec spec;
  EXPECT_THAT(message(spec), HasSubstr("no vocabulary"));
  spec.tokens = {"a", "<0x-1>"};
  spec.types = {1, 6};
  EXPECT_THAT(message(spec), HasSubstr("tokens[1] is a byte token"));
  spec.types = {1, 7};
  EXPECT_THAT(message(spec), HasSubstr("token_type[1] is 7"));
  spec.types = {};
  for (const char *merge : {"", "ab", "a ", " a", " "}) {
    spec.merges = {"a b", merge};
    EXPECT_THAT(message(spec), HasSubstr("merges[1]")) << merge;
  }
}

// Both queues give the same order, in whatever order candidates are added.
TEST(MergeQueue, QueuesAgree) {
  std::mt19937 random(2);
  HeapQueue heap;
  BucketQueue buckets;
  heap.reset(8);
  buckets.reset(8);
  for (int step = 0; step < 20000; ++step) {
    if (random() % 3 != 0) {
      // Positions mostly ascend, as those of a word do.
      uint32_t position = uint32_t(step) + random() % 50;
      MergeCandidate candidate{uint32_t(random() % 8), position};
      heap.push(candidate);
      buckets.push(candidate);
    }
    ASSERT_EQ(heap.empty(), buckets.empty());
    if (random() % 2 == 0 && !heap.empty()) {
      MergeCandidate expected = heap.pop(), actual = buckets.pop();
      ASSERT_EQ(expected.rank, actual.rank);
      ASSERT_EQ(expected.position, actual.position);
    }
  }
}

} // namespace
