//===- GemmaTest.cpp - Gemma 2 and 3: windows, caps, scales ---------------===//

#include "test/unit/Transformer.h"

#include <cmath>
#include <fmt/format.h>

using namespace mlir;
using moert::StatusCode;
using moetest::TinyTransformer;

namespace {
/// A dense model with norms after attention and FFN; 4 heads of 32, hidden size
/// 64.
TinyTransformer gemma(const char *architecture, uint32_t layers) {
  TinyTransformer tiny(architecture);
  tiny.keys.erase("expert_count");
  tiny.keys["block_count"] = layers;
  tiny.keys["attention.sliding_window"] = uint32_t(5);
  auto tensors = tiny.tensors;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    std::string block = fmt::format("blk.{}.", layer);
    for (const auto &[name, tensor] : tensors)
      if (name.starts_with("blk.0."))
        tiny.tensors[block + name.substr(6)] = tensor;
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

struct Gemma : moetest::Transformer {
  /// Returns the window of each layer; 0 means that it sees all tokens.
  std::vector<uint64_t> windows(uint32_t layers) {
    std::vector<uint64_t> result;
    for (uint32_t layer = 0; layer < layers; ++layer)
      result.push_back(
          find<moe::GqaAttentionOp>(fmt::format("blk.{}.attention", layer))
              .getWindow());
    return result;
  }
  double scale() {
    return find<moe::GqaAttentionOp>("blk.0.attention")
        .getScale()
        .convertToDouble();
  }
};
} // namespace

TEST_F(Gemma, WindowsAlternate) {
  expectImport(gemma("gemma2", 4));
  EXPECT_THAT(windows(4), testing::ElementsAre(5, 0, 5, 0));
  expectImport(gemma("gemma3", 7));
  EXPECT_THAT(windows(7), testing::ElementsAre(5, 5, 5, 5, 5, 0, 5));
}

TEST_F(Gemma, FilesMaySayWhichLayersHaveAWindow) {
  TinyTransformer tiny = gemma("gemma3", 4);
  tiny.keys["attention.sliding_window_pattern"] = uint32_t(3);
  expectImport(tiny);
  EXPECT_THAT(windows(4), testing::ElementsAre(5, 5, 0, 5));
  tiny.keys["attention.sliding_window_pattern"] =
      std::vector<bool>{false, true, true, false};
  expectImport(tiny);
  EXPECT_THAT(windows(4), testing::ElementsAre(0, 5, 5, 0));
  tiny.keys["attention.sliding_window_pattern"] = std::vector<bool>{true};
  expectFailure(tiny, StatusCode::InvalidFile,
                "has 1 elements, expected one for each layer");
  tiny.keys["attention.sliding_window_pattern"] = uint32_t(0);
  expectFailure(tiny, StatusCode::InvalidFile, "is 0, expected 1 to");
}

TEST_F(Gemma, WithoutAWindowAllLayersOfGemma3RotateAlike) {
  TinyTransformer tiny = gemma("gemma3", 2);
  tiny.keys["rope.freq_base"] = 1e6f;
  expectImport(tiny);
  EXPECT_EQ(find<moe::RopeOp>("blk.0.attn_q_rope").getRope().getBase(), 1e4);
  tiny.keys["rope.freq_base_swa"] = 2e4f;
  expectImport(tiny);
  EXPECT_EQ(find<moe::RopeOp>("blk.0.attn_q_rope").getRope().getBase(), 2e4);
  for (bool present : {true, false}) {
    if (present)
      tiny.keys["attention.sliding_window"] = uint32_t(0);
    else
      tiny.keys.erase("attention.sliding_window");
    expectImport(tiny);
    EXPECT_THAT(windows(2), testing::ElementsAre(0, 0));
    EXPECT_EQ(find<moe::RopeOp>("blk.0.attn_q_rope").getRope().getBase(), 1e6);
  }
}

TEST_F(Gemma, LinearScalingIsForLayersWithoutAWindow) {
  TinyTransformer tiny = gemma("gemma3", 6);
  tiny.keys["rope.scaling.type"] = "linear";
  tiny.keys["rope.scaling.factor"] = 8.0f;
  expectImport(tiny);
  EXPECT_EQ(find<moe::RopeOp>("blk.0.attn_k_rope").getRope().getFactor(), 1);
  EXPECT_EQ(find<moe::RopeOp>("blk.5.attn_k_rope").getRope().getFactor(), 8);
}

// The first Gemma 2 files had none of these keys.
TEST_F(Gemma, FirstFilesLackKeys) {
  TinyTransformer tiny = gemma("gemma2", 2);
  tiny.keys.erase("attention.sliding_window");
  expectImport(tiny);
  EXPECT_THAT(windows(2), testing::ElementsAre(4096, 0));
  auto attention = find<moe::GqaAttentionOp>("blk.1.attention");
  EXPECT_EQ(attention.getSoftcap().convertToDouble(), 50);
  EXPECT_EQ(find<moe::ScaleOp>("output_softcap").getSoftcap().convertToDouble(),
            30);
  tiny.keys["attn_logit_softcapping"] = -1.0f;
  expectFailure(tiny, StatusCode::InvalidFile,
                "key \"gemma2.attn_logit_softcapping\" is -1");
}

// Models with 27B divide scores by another number than the key length.
TEST_F(Gemma, TheLargestScaleByWidth) {
  expectImport(gemma("gemma2", 45));
  EXPECT_DOUBLE_EQ(scale(), 1 / std::sqrt(32.0));
  expectImport(gemma("gemma2", 46));
  EXPECT_DOUBLE_EQ(scale(), 1 / std::sqrt(16.0));
  expectImport(gemma("gemma3", 62));
  EXPECT_DOUBLE_EQ(scale(), 1 / std::sqrt(16.0));
}
