//===- Gemma4Test.cpp - Graphs whose layers differ ------------------------===//

#include "test/unit/Transformer.h"

#include <cmath>

using namespace mlir;
using moert::StatusCode;
using moetest::TinyModel;

namespace {
struct Gemma4 : moetest::Transformer {};

/// Two layers, the first with a window; 4 heads of 16, then of 32.
TinyModel gemma() {
  moetest::TinyTransformer tiny("gemma4");
  tiny.keys.erase("expert_count");
  tiny.keys["attention.key_length_swa"] = uint32_t(16);
  tiny.keys["attention.sliding_window"] = uint32_t(5);
  tiny.keys["attention.sliding_window_pattern"] =
      std::vector<bool>{true, false};
  tiny.add("blk.0.attn_q", {64, 64});
  tiny.add("blk.0.attn_k", {64, 32});
  tiny.add("blk.0.attn_v", {64, 32});
  tiny.add("blk.0.attn_output", {64, 64});
  for (std::string block : {"blk.0.", "blk.1."}) {
    for (const char *name :
         {"ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"})
      tiny.tensors.erase(block + name + ".weight");
    for (const char *name : {"post_attention_norm", "post_ffw_norm"})
      tiny.add(block + name, {64});
    tiny.add(block + "ffn_gate", {64, 96});
    tiny.add(block + "ffn_up", {64, 96});
    tiny.add(block + "ffn_down", {96, 64});
  }
  return tiny;
}
} // namespace

TEST_F(Gemma4, LayersHaveHeadsOfTheirOwn) {
  TinyModel tiny = gemma();
  tiny.keys["attention.head_count_kv"] = std::vector<int32_t>{2, 1};
  tiny.add("blk.1.attn_k", {64, 32});
  tiny.tensors.erase("blk.1.attn_v.weight");
  expectImport(tiny);
  auto windowed = find<moe::GqaAttentionOp>("blk.0.attention");
  EXPECT_EQ(windowed.getKey(), 16u);
  EXPECT_EQ(windowed.getKvHeads(), 2u);
  EXPECT_EQ(windowed.getWindow(), 5u);
  auto full = find<moe::GqaAttentionOp>("blk.1.attention");
  EXPECT_EQ(full.getKey(), 32u);
  EXPECT_EQ(full.getKvHeads(), 1u);
  EXPECT_EQ(full.getWindow(), 0u);
  EXPECT_EQ(full.getScale().convertToDouble(), 1);
  EXPECT_EQ(find<moe::RmsNormOp>("blk.1.attn_v_norm").getX(),
            find<moe::LinearOp>("blk.1.attn_k").getResult());
}

TEST_F(Gemma4, OnlyLayersWithoutAWindowDivideFrequencies) {
  TinyModel tiny = gemma();
  tiny.tensors["rope_freqs.weight"] = {{16}};
  expectFailure(tiny, StatusCode::InvalidFile,
                "tensor \"rope_freqs.weight\" holds 0 at index 0");
  tiny.tensors.erase("rope_freqs.weight");
  tiny.keys["rope.freq_base_swa"] = 1e3f;
  tiny.keys["rope.freq_base"] = 1e6f;
  expectImport(tiny);
  EXPECT_EQ(find<moe::RopeOp>("blk.0.attn_q_rope").getRope().getBase(), 1e3);
  EXPECT_EQ(find<moe::RopeOp>("blk.1.attn_q_rope").getRope().getBase(), 1e6);
}

TEST_F(Gemma4, KeysOfLayersAreNumbersOrLists) {
  TinyModel tiny = gemma();
  tiny.keys.erase("attention.sliding_window_pattern");
  expectFailure(tiny, StatusCode::InvalidFile,
                "key \"gemma4.attention.sliding_window_pattern\" is missing");
  tiny.keys["attention.sliding_window_pattern"] = std::vector<bool>{true};
  expectFailure(tiny, StatusCode::InvalidFile,
                "has 1 elements, expected one for each layer");
  tiny = gemma();
  tiny.keys["attention.head_count_kv"] = std::vector<int32_t>{2, 0};
  expectFailure(tiny, StatusCode::InvalidFile,
                "is 0 for layer 1, expected 1 to 4");
  tiny.keys["attention.head_count_kv"] = std::vector<int32_t>{3, 2};
  expectFailure(tiny, StatusCode::InvalidFile,
                "is 3 for layer 0, expected a divisor of the 4 heads");
  tiny = gemma();
  tiny.keys["feed_forward_length"] = std::vector<int32_t>{96, -1};
  expectFailure(tiny, StatusCode::InvalidFile,
                "is -1 for layer 1, expected 1 to");
}

TEST_F(Gemma4, LaterLayersReadEarlierCaches) {
  TinyModel tiny = gemma();
  tiny.keys["attention.shared_kv_layers"] = uint32_t(1);
  expectFailure(tiny, StatusCode::InvalidFile,
                "key \"gemma4.attention.shared_kv_layers\" leaves layer 1 "
                "without an earlier cache of its kind");
  tiny.keys["attention.sliding_window_pattern"] = std::vector<bool>{true, true};
  for (const char *name : {"attn_q", "attn_output"})
    tiny.add("blk.1." + std::string(name), {64, 64});
  expectImport(tiny);
  EXPECT_EQ(find<moe::GqaAttentionOp>("blk.1.attention").getKv(),
            find<moe::KvStoreOp>("blk.0.attn_kv").getResult());
}
