//===- SparseModelsTest.cpp - Graphs of attention to chosen rows ----------===//

#include "test/support/TinyDeepseek.h"
#include "test/unit/Transformer.h"

#include <cmath>

using namespace mlir;
using moert::StatusCode;
using moetest::TinyModel;

namespace {
struct SparseModels : moetest::Transformer {};

/// Two layers with low-rank queries of 24 and an indexer of 4 heads of 32.
TinyModel indexed(const char *architecture) {
  moetest::TinyDeepseek tiny;
  tiny.architecture = architecture;
  tiny.keys["attention.indexer.head_count"] = uint32_t(4);
  tiny.keys["attention.indexer.key_length"] = uint32_t(32);
  tiny.keys["attention.indexer.top_k"] = uint32_t(7);
  for (std::string block : {"blk.0.", "blk.1."}) {
    tiny.tensors.erase(block + "attn_q.weight");
    tiny.add(block + "attn_q_a", {64, 24});
    tiny.add(block + "attn_q_a_norm", {24});
    tiny.add(block + "attn_q_b", {24, 96});
    tiny.add(block + "indexer.attn_q_b", {24, 128});
    tiny.add(block + "indexer.attn_k", {64, 32});
    tiny.add(block + "indexer.k_norm", {32});
    tiny.tensors[block + "indexer.k_norm.bias"] = {{32}};
    tiny.add(block + "indexer.proj", {64, 4});
  }
  return tiny;
}
} // namespace

TEST_F(SparseModels, EachLayerChoosesForItself) {
  expectImport(indexed("deepseek32"));
  auto choice = find<moe::ChooseEntriesOp>("blk.1.indexer.choice");
  EXPECT_EQ(choice.getHeads(), 4u);
  EXPECT_EQ(choice.getKey(), 32u);
  EXPECT_EQ(choice.getTopK(), 7u);
  EXPECT_EQ(choice.getRatio(), 1u);
  EXPECT_DOUBLE_EQ(choice.getScale().convertToDouble(),
                   1 / std::sqrt(32.0 * 4));
  auto attention = find<moe::MlaAttentionOp>("blk.1.attention");
  EXPECT_EQ(attention.getChosen(), choice.getResult());
  EXPECT_EQ(
      find<moe::LayerNormOp>("blk.1.indexer.k_norm").getEps().convertToDouble(),
      1e-6);
  EXPECT_TRUE(find<moe::RopeOp>("blk.1.indexer.k_rope").getRope().getNeox());
  EXPECT_FALSE(find<moe::RopeOp>("blk.1.attn_q_rope").getRope().getNeox());
  EXPECT_EQ(find<moe::RouterOp>("blk.1.router").getScoring(),
            moe::Scoring::Sigmoid);
  expectImport(indexed("glm-dsa"));
  EXPECT_FALSE(find<moe::RopeOp>("blk.1.indexer.k_rope").getRope().getNeox());
}

TEST_F(SparseModels, LayersWithoutAnIndexerFollowTheLast) {
  TinyModel tiny = indexed("glm-dsa");
  for (const char *name : {"attn_q_b", "attn_k", "k_norm", "proj"})
    tiny.tensors.erase("blk.1.indexer." + std::string(name) + ".weight");
  expectImport(tiny);
  EXPECT_EQ(find<moe::MlaAttentionOp>("blk.1.attention").getChosen(),
            find<moe::ChooseEntriesOp>("blk.0.indexer.choice").getResult());
  tiny = indexed("glm-dsa");
  tiny.keys["attention.indexer.types"] = std::vector<bool>{true, false};
  expectImport(tiny);
  EXPECT_EQ(find<moe::MlaAttentionOp>("blk.1.attention").getChosen(),
            find<moe::ChooseEntriesOp>("blk.0.indexer.choice").getResult());
}

// DeepSeek-V2's groups compete by their best expert if no bias shifts the
// selection.
TEST_F(SparseModels, GroupsCompeteByTheirBestTwoWithoutABiasToo) {
  TinyModel sparse = indexed("deepseek32");
  moetest::TinyDeepseek plain;
  for (TinyModel *tiny : {&sparse, static_cast<TinyModel *>(&plain)}) {
    tiny->keys["expert_group_count"] = uint32_t(2);
    tiny->keys["expert_group_used_count"] = uint32_t(1);
  }
  auto groupBest = [&] {
    return find<moe::RouterOp>("blk.1.router").getGroupBest();
  };
  expectImport(sparse);
  EXPECT_EQ(groupBest(), 2u);
  expectImport(plain);
  EXPECT_EQ(groupBest(), 1u);
  plain.tensors["blk.1.exp_probs_b.bias"] = {{8}};
  expectImport(plain);
  EXPECT_EQ(groupBest(), 2u);
  // Groups of one expert.
  plain.keys["expert_group_count"] = uint32_t(8);
  plain.keys["expert_group_used_count"] = uint32_t(4);
  expectImport(plain);
  EXPECT_EQ(groupBest(), 1u);
}

TEST_F(SparseModels, WhatAnIndexerNeeds) {
  TinyModel tiny = indexed("glm-dsa");
  tiny.tensors.erase("blk.0.indexer.attn_k.weight");
  expectFailure(
      tiny, StatusCode::InvalidFile,
      "a missing tensor \"blk.0.indexer.attn_k.weight\" leaves layer 0 "
      "without an indexer");
  tiny = indexed("glm-dsa");
  tiny.keys["attention.indexer.types"] = std::vector<bool>{false, true};
  expectFailure(tiny, StatusCode::InvalidFile,
                "key \"glm-dsa.attention.indexer.types\" leaves layer 0 "
                "without an indexer");
  tiny.keys["attention.indexer.types"] = std::vector<bool>{true};
  expectFailure(tiny, StatusCode::InvalidFile,
                "has 1 elements, expected one for each layer");
  tiny = indexed("deepseek32");
  tiny.keys["attention.indexer.key_length"] = uint32_t(8);
  expectFailure(tiny, StatusCode::InvalidFile, "is 8, expected 16 to");
  tiny = indexed("deepseek32");
  tiny.tensors.erase("blk.0.attn_q_a.weight");
  expectFailure(tiny, StatusCode::InvalidFile,
                "tensor \"blk.0.attn_q_a.weight\" is missing, which the "
                "indexer reads");
}
