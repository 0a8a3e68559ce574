//===- TransformerTest.cpp - Graphs of grouped attention and experts ------===//

#include "test/unit/Transformer.h"

#include "models/UnknownParts.h"
#include "test/support/Compiles.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

using namespace mlir;
using moert::StatusCode;
using moetest::TinyTransformer;
using moetest::Transformer;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {
TinyTransformer yarn(const char *architecture) {
  TinyTransformer tiny(architecture);
  tiny.keys["rope.scaling.type"] = "yarn";
  tiny.keys["rope.scaling.factor"] = 4.0f;
  tiny.keys["rope.scaling.original_context_length"] = uint32_t(4096);
  return tiny;
}
} // namespace

// The next test covers all architectures, by their files.
TEST_F(Transformer, ArchitecturesWithoutKeysOfTheirOwnAreOneGraph) {
  for (const char *name :
       {"llama", "internlm2", "qwen2", "qwen2moe", "qwen3", "qwen3moe",
        "qwen3vlmoe", "glm4moe", "minimax-m2", "gpt-oss", "bailingmoe2",
        "dots1", "olmoe", "llada-moe", "deepseek"}) {
    TinyTransformer tiny(name);
    tiny.keys["attention.sliding_window"] = uint32_t(5);
    expectImport(tiny);
    auto attention = find<moe::GqaAttentionOp>("blk.1.attention");
    EXPECT_EQ(attention.getHeads(), 4u) << name;
    EXPECT_EQ(attention.getKvHeads(), 2u);
    EXPECT_EQ(attention.getKey(), 32u);
    EXPECT_EQ(attention.getValue(), 32u);
    EXPECT_DOUBLE_EQ(attention.getScale().convertToDouble(),
                     1 / std::sqrt(32.0));
    EXPECT_THAT(notes(), ElementsAre());
  }
}

// Each layer has one attention or one state, and one FFN or one MoE layer, or
// both.
TEST_F(Transformer, EveryArchitecturesFilesAreOneGraph) {
  std::set<std::string, std::less<>> seen;
  for (const auto &entry :
       std::filesystem::directory_iterator(MOE_TEST_DATA "/unit")) {
    if (entry.path().extension() != ".gguf")
      continue;
    SCOPED_TRACE(entry.path().filename().string());
    auto model = moec::GgufModel::open(entry.path().string());
    ASSERT_TRUE(model.isOk()) << model.status().message();
    if (!moetest::compiles(*model))
      continue;
    seen.insert(std::string(model->architecture()));
    auto imported = moec::importModel(context, *model);
    ASSERT_TRUE(imported.isOk()) << imported.status().message();
    module = *std::move(imported);
    int64_t layers = 0;
    std::map<int64_t, int> mixers, ffns;
    module.get().walk([&](Operation *op) {
      auto label = op->getAttrOfType<moe::LabelAttr>(moe::kLabelAttr);
      if (!label || label.getLayer() < 0)
        return;
      layers = std::max(layers, label.getLayer() + 1);
      // A convolution of n-grams is beside the layer's own mixer.
      mixers[label.getLayer()] +=
          isa<moe::GqaAttentionOp, moe::MlaAttentionOp, moe::SparseAttentionOp,
              moe::BlockAttentionOp, moe::DeltaNetOp, moe::ShortConvOp>(op) &&
          !label.getPart().getValue().starts_with("ple");
      // An FFN without a gate is three ops.
      ffns[label.getLayer()] +=
          isa<moe::FfnOp, moe::ExpertsOp>(op) || label.getPart() == "ffn_inner";
    });
    EXPECT_GE(layers, 2);
    // A layer of Nemotron is a mixer or an FFN.
    const bool isOneThing = model->architecture() == "nemotron_h_moe";
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (isOneThing) {
        EXPECT_EQ(mixers[layer] + ffns[layer], 1) << "layer " << layer;
        continue;
      }
      EXPECT_EQ(mixers[layer], 1) << "layer " << layer;
      EXPECT_GE(ffns[layer], 1) << "layer " << layer;
    }
    EXPECT_TRUE(module.get().lookupSymbol("forward"));
    EXPECT_TRUE(module.get().lookupSymbol("logits"));
    // The only unused tensors are keys, values and their norms of layers that
    // read another layer's cache.
    std::vector<std::string> unused = notes();
    std::erase_if(unused, [](const std::string &note) {
      return note.find("not used") == std::string::npos;
    });
    if (entry.path().stem() == "gemma4-ple")
      EXPECT_THAT(unused, ElementsAre("9 tensors of the file are not used: "
                                      "\"blk.4.attn_k_norm.weight\", "
                                      "\"blk.5.attn_k_norm.weight\", "
                                      "\"blk.4.attn_k.weight\", ..."));
    else
      EXPECT_THAT(unused, ElementsAre());
  }
  seen.insert("internlm2"); // Its graph is that of llama.
  for (const moec::ArchitectureInfo &info : moec::supportedArchitectures())
    EXPECT_EQ(seen.count(info.name), 1u) << info.name;
}

TEST_F(Transformer, WhatFilesDoNotSay) {
  struct Case {
    const char *architecture;
    bool neox, normalize;
    moe::Scoring scoring;
  };
  for (const Case &c :
       {Case{"qwen2moe", true, false, moe::Scoring::Softmax},
        Case{"llama", false, true, moe::Scoring::Softmax},
        Case{"internlm2", false, true, moe::Scoring::Softmax},
        Case{"qwen3moe", true, true, moe::Scoring::Softmax},
        Case{"glm4moe", true, false, moe::Scoring::Sigmoid},
        Case{"minimax-m2", true, true, moe::Scoring::Sigmoid},
        Case{"gpt-oss", true, false, moe::Scoring::SoftmaxTopK}}) {
    TinyTransformer tiny(c.architecture);
    tiny.keys["attention.sliding_window"] = uint32_t(5);
    expectImport(tiny);
    auto router = find<moe::RouterOp>("blk.0.router");
    EXPECT_EQ(find<moe::RopeOp>("blk.0.attn_k_rope").getRope().getNeox(),
              c.neox)
        << c.architecture;
    EXPECT_EQ(router.getNormalize(), c.normalize) << c.architecture;
    EXPECT_EQ(router.getScoring(), c.scoring) << c.architecture;
  }
}

TEST_F(Transformer, DenseWithoutExperts) {
  for (const char *architecture : {"llama", "qwen2", "qwen3"}) {
    TinyTransformer tiny(architecture);
    tiny.keys.erase("expert_count");
    for (std::string block : {"blk.0.", "blk.1."}) {
      tiny.add(block + "ffn_gate", {64, 96});
      tiny.add(block + "ffn_up", {64, 96});
      tiny.add(block + "ffn_down", {96, 64});
    }
    expectImport(tiny);
    find<moe::FfnOp>("blk.1.ffn");
  }
  TinyTransformer routed("qwen3moe");
  routed.keys.erase("expert_count");
  expectFailure(routed, StatusCode::InvalidFile,
                "key \"qwen3moe.expert_count\" is missing");
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

TEST_F(Transformer, HeadsWithoutKeys) {
  TinyTransformer tiny("llama");
  tiny.keys.erase("attention.head_count_kv");
  tiny.keys.erase("attention.key_length");
  for (std::string block : {"blk.0.", "blk.1."}) {
    for (const char *name : {"attn_q", "attn_k", "attn_v"})
      tiny.add(block + name, {64, 64});
    tiny.add(block + "attn_output", {64, 64});
  }
  expectImport(tiny);
  auto attention = find<moe::GqaAttentionOp>("blk.0.attention");
  EXPECT_EQ(attention.getKvHeads(), 4u);
  EXPECT_EQ(attention.getKey(), 16u);
  EXPECT_EQ(find<moe::RopeOp>("blk.0.attn_q_rope").getRope().getDim(), 16);
}

TEST_F(Transformer, HeadsThatDoNotShareEvenly) {
  TinyTransformer tiny("llama");
  tiny.keys["attention.head_count_kv"] = uint32_t(3);
  expectFailure(tiny, StatusCode::InvalidFile,
                "key \"llama.attention.head_count_kv\" is 3 for layer 0, "
                "expected a divisor "
                "of the 4 heads");
}

TEST_F(Transformer, AFusedProjectionIsThreeViews) {
  TinyTransformer tiny("llama");
  for (const char *name : {"attn_q", "attn_k", "attn_v"})
    tiny.tensors.erase("blk.1." + std::string(name) + ".weight");
  tiny.add("blk.1.attn_qkv", {64, 256});
  tiny.tensors["blk.1.attn_qkv.bias"] = {{256}};
  expectImport(tiny);
  moe::WeightTable weights(*module);
  int64_t begin = 0;
  for (auto [name, rows] :
       {std::pair("blk.1.attn_q", 128), std::pair("blk.1.attn_k", 64),
        std::pair("blk.1.attn_v", 64)}) {
    auto linear = find<moe::LinearOp>(name);
    for (Value part : {linear.getWeight(), linear.getBias()}) {
      auto slice = dyn_cast<moe::WeightSliceAttr>(weights.of(part).getSource());
      ASSERT_TRUE(slice) << name;
      EXPECT_EQ(slice.getBegin(), begin) << name;
      EXPECT_EQ(cast<ShapedType>(part.getType()).getDimSize(0), rows) << name;
    }
    begin += rows;
  }
  EXPECT_THAT(notes(), ElementsAre());
}

TEST_F(Transformer, NormsByTheirLength) {
  TinyTransformer tiny("llama");
  tiny.add("blk.0.attn_q_norm", {32});
  tiny.add("blk.0.attn_k_norm", {32});
  tiny.add("blk.1.attn_q_norm", {128});
  tiny.add("blk.1.attn_k_norm", {64});
  expectImport(tiny);
  EXPECT_EQ(find<moe::RmsNormOp>("blk.0.attn_q_norm").getGroups(), 4u);
  EXPECT_EQ(find<moe::RmsNormOp>("blk.0.attn_k_norm").getGroups(), 2u);
  EXPECT_EQ(find<moe::RmsNormOp>("blk.1.attn_q_norm").getGroups(), 1u);
  EXPECT_EQ(find<moe::RmsNormOp>("blk.1.attn_k_norm").getGroups(), 1u);
  // The norm comes before the rotation.
  EXPECT_TRUE(find<moe::RopeOp>("blk.1.attn_k_rope")
                  .getX()
                  .getDefiningOp<moe::RmsNormOp>());
}

TEST_F(Transformer, WindowsAndSinks) {
  TinyTransformer tiny("gpt-oss");
  expectFailure(tiny, StatusCode::InvalidFile,
                "key \"gpt-oss.attention.sliding_window\" is missing");
  tiny.keys["attention.sliding_window"] = uint32_t(128);
  tiny.add("blk.1.attn_sinks", {4});
  expectImport(tiny);
  EXPECT_EQ(find<moe::GqaAttentionOp>("blk.0.attention").getWindow(), 128u);
  EXPECT_EQ(find<moe::GqaAttentionOp>("blk.1.attention").getWindow(), 0u);
  EXPECT_EQ(tensorOf(find<moe::GqaAttentionOp>("blk.1.attention").getSinks()),
            "blk.1.attn_sinks.weight");
  EXPECT_FALSE(find<moe::GqaAttentionOp>("blk.0.attention").getSinks());
  // The window in Mistral files is not used.
  TinyTransformer mistral("llama");
  mistral.keys["attention.sliding_window"] = uint32_t(4096);
  expectImport(mistral);
  EXPECT_EQ(find<moe::GqaAttentionOp>("blk.0.attention").getWindow(), 0u);
}

//===----------------------------------------------------------------------===//
// RoPE
//===----------------------------------------------------------------------===//

TEST_F(Transformer, PartOfAHeadIsRotated) {
  TinyTransformer tiny("minimax-m2");
  tiny.keys["rope.dimension_count"] = uint32_t(8);
  EXPECT_EQ(ropeOf(tiny).getDim(), 8);
  tiny.keys["rope.dimension_count"] = uint32_t(34);
  expectFailure(tiny, StatusCode::InvalidFile, "is 34, expected 2 to 32");
}

TEST_F(Transformer, YarnScalesRotatedElements) {
  TinyTransformer tiny = yarn("qwen3moe");
  moe::RopeAttr rope = ropeOf(tiny);
  EXPECT_DOUBLE_EQ(rope.getMagnitude(), 1 + 0.1 * std::log(4.0));
  EXPECT_TRUE(rope.getRounded());
  for (const char *key : {"attn_factor", "yarn_attn_factor"}) {
    TinyTransformer scaled = tiny;
    scaled.keys["rope.scaling." + std::string(key)] = 0.5f;
    EXPECT_DOUBLE_EQ(ropeOf(scaled).getMagnitude(),
                     0.5 * (1 + 0.1 * std::log(4.0)));
  }
  tiny.keys["rope.scaling.yarn_beta_fast"] = 1.0f;
  EXPECT_EQ(ropeOf(tiny).getBetaFast(), 1.0);
  TinyTransformer gptOss = yarn("gpt-oss");
  gptOss.keys["attention.sliding_window"] = uint32_t(5);
  EXPECT_FALSE(ropeOf(gptOss).getRounded());
}

// The magnitude has to be positive and finite.
TEST_F(Transformer, YarnOutOfRange) {
  TinyTransformer tiny = yarn("qwen3moe");
  tiny.keys["rope.scaling.factor"] = 1e-5f;
  expectFailure(tiny, StatusCode::InvalidFile,
                "key \"qwen3moe.rope.scaling.factor\" is 9.99");
  for (const char *key : {"attn_factor", "yarn_attn_factor"}) {
    TinyTransformer scaled = yarn("qwen3moe");
    scaled.keys["rope.scaling." + std::string(key)] = 3e38f;
    expectFailure(scaled, StatusCode::InvalidFile,
                  "expected 0.0001 to 1000000");
  }
}

// Elements are zero in a file without data, so the error names the tensor that
// is read.
TEST_F(Transformer, LongRopeGoesByThePositionsOfThePlan) {
  TinyTransformer tiny("llama");
  tiny.keys["rope.scaling.type"] = "longrope";
  expectFailure(tiny, StatusCode::InvalidFile,
                "llama.rope.scaling.original_context_length\" is missing");
  tiny.keys["rope.scaling.original_context_length"] = uint32_t(64);
  tiny.add("rope_factors_short", {16});
  tiny.add("rope_factors_long", {16});
  tiny.keys["context_length"] = uint32_t(256);
  auto expectRead = [&](int64_t plan, const std::string &tensor) {
    positions = plan;
    expectFailure(tiny, StatusCode::InvalidFile,
                  "tensor \"" + tensor + "\" holds 0 at index 0");
  };
  expectRead(64, "rope_factors_short.weight");
  expectRead(65, "rope_factors_long.weight");
  // No plan has a longer context than the model was trained with.
  tiny.keys["context_length"] = uint32_t(64);
  expectRead(moec::kDefaultContext, "rope_factors_short.weight");
  tiny.tensors.erase("rope_factors_short.weight");
  expectFailure(tiny, StatusCode::InvalidFile, "rope_factors_short.weight");
}

// Without tensor data, elements are zero.
TEST_F(Transformer, DivisorsOfZero) {
  TinyTransformer tiny("llama");
  tiny.add("rope_freqs", {16});
  expectFailure(tiny, StatusCode::InvalidFile,
                "tensor \"rope_freqs.weight\" holds 0 at index 0, expected "
                "finite numbers of at least 0.0001");
  tiny.add("rope_freqs", {8});
  expectFailure(tiny, StatusCode::InvalidFile,
                "has the shape [8], expected [16]");
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

TEST_F(Transformer, WidthOfExpertsFromTheirTensors) {
  TinyTransformer tiny("qwen2moe");
  tiny.keys.erase("expert_feed_forward_length");
  expectImport(tiny);
  EXPECT_EQ(cast<ShapedType>(
                find<moe::ExpertsOp>("blk.0.ffn_experts").getUp().getType())
                .getDimSize(1),
            32);
}

TEST_F(Transformer, ATensorForEachExpert) {
  TinyTransformer tiny("llama");
  tiny.keys.erase("expert_feed_forward_length");
  for (std::string block : {"blk.0.", "blk.1."})
    for (const char *part : {"gate", "up", "down"}) {
      tiny.tensors.erase(block + "ffn_" + part + "_exps.weight");
      bool down = part == std::string("down");
      for (int expert = 0; expert < 8; ++expert)
        tiny.add(block + "ffn_" + part + "." + std::to_string(expert),
                 down ? std::vector<uint64_t>{32, 64}
                      : std::vector<uint64_t>{64, 32});
    }
  expectImport(tiny);
  moe::WeightTable weights(*module);
  SmallVector<moe::WeightOp> parts = weights.partsOf(
      weights.of(find<moe::ExpertsOp>("blk.1.ffn_experts").getDown()));
  ASSERT_EQ(parts.size(), 8u);
  EXPECT_EQ(parts[7].getSymName(), "blk.1.ffn_down.7.weight");
  EXPECT_THAT(notes(), ElementsAre());

  // The experts' tensors may have different formats.
  tiny.tensors["blk.0.ffn_up.3.weight"].format = moek::Format::BF16;
  expectImport(tiny);
  EXPECT_THAT(notes(), ElementsAre("the matrices of blk.0.ffn_up have several "
                                   "formats; they become F32"));
  tiny.tensors["blk.0.ffn_up.4.weight"].format = moek::Format::Q4_0;
  expectImport(tiny);
  EXPECT_THAT(notes(), ElementsAre("the matrices of blk.0.ffn_up have several "
                                   "formats; they become Q8_0"));

  tiny.tensors.erase("blk.1.ffn_up.5.weight");
  expectFailure(tiny, StatusCode::InvalidFile,
                "tensor \"blk.1.ffn_up.5.weight\" is missing");
}

TEST_F(Transformer, SharedExpertsAndTheirGate) {
  TinyTransformer tiny("qwen2moe");
  tiny.keys["expert_shared_feed_forward_length"] = uint32_t(96);
  for (std::string block : {"blk.0.", "blk.1."}) {
    tiny.add(block + "ffn_gate_shexp", {64, 96});
    tiny.add(block + "ffn_up_shexp", {64, 96});
    tiny.add(block + "ffn_down_shexp", {96, 64});
  }
  tiny.add("blk.1.ffn_gate_inp_shexp", {64});
  expectImport(tiny);
  EXPECT_TRUE(find<moe::AddOp>("blk.0.ffn_shared_add")
                  .getLhs()
                  .getDefiningOp<moe::FfnOp>());
  auto gated = find<moe::AddOp>("blk.1.ffn_shared_add")
                   .getLhs()
                   .getDefiningOp<moe::GateMulOp>();
  ASSERT_TRUE(gated);
  auto gate = gated.getGate().getDefiningOp<moe::LinearOp>();
  EXPECT_EQ(tensorOf(gate.getWeight()), "blk.1.ffn_gate_inp_shexp.weight");
  // The gate reads the same activations as the experts.
  EXPECT_EQ(gate.getX(), find<moe::ExpertsOp>("blk.1.ffn_experts").getX());
}

TEST_F(Transformer, BiasesOfRouterAndExperts) {
  TinyTransformer tiny("gpt-oss");
  tiny.keys["attention.sliding_window"] = uint32_t(5);
  tiny.tensors["blk.1.ffn_gate_inp.bias"] = {{8}};
  tiny.tensors["blk.1.ffn_gate_exps.bias"] = {{32, 8}};
  tiny.tensors["blk.1.ffn_down_exps.bias"] = {{64, 8}};
  expectImport(tiny);
  auto router = find<moe::RouterOp>("blk.1.router");
  EXPECT_EQ(tensorOf(router.getLogitBias()), "blk.1.ffn_gate_inp.bias");
  EXPECT_FALSE(router.getBias());
  auto experts = find<moe::ExpertsOp>("blk.1.ffn_experts");
  EXPECT_EQ(tensorOf(experts.getGateBias()), "blk.1.ffn_gate_exps.bias");
  EXPECT_FALSE(experts.getUpBias());
  EXPECT_EQ(tensorOf(experts.getDownBias()), "blk.1.ffn_down_exps.bias");
  EXPECT_EQ(experts.getActivation(), moe::Activation::ClampedSwiglu);
  tiny.tensors["blk.1.ffn_gate_exps.bias"] = {{32, 8}, moek::Format::F16};
  expectFailure(tiny, StatusCode::Unsupported,
                "tensor \"blk.1.ffn_gate_exps.bias\" is F16, expected F32");
}

/// Scales of whole matrices, as in NVFP4 files.
TEST_F(Transformer, ScalesOfWeights) {
  TinyTransformer tiny("qwen3moe");
  tiny.tensors["blk.1.attn_output.scale"] = {{1}};
  tiny.tensors["blk.1.attn_output.input_scale"] = {
      {1}}; // Scales of inputs are not used.
  tiny.tensors["blk.1.ffn_up_exps.scale"] = {{8}};
  tiny.tensors["output.scale"] = {{1}};
  expectImport(tiny);
  EXPECT_THAT(notes(), ElementsAre());
  EXPECT_TRUE(find<moe::ScaleOp>("blk.1.attn_output_scale")
                  .getX()
                  .getDefiningOp<moe::LinearOp>());
  EXPECT_TRUE(
      find<moe::ScaleOp>("output_scale").getX().getDefiningOp<moe::LmHeadOp>());
  auto experts = find<moe::ExpertsOp>("blk.1.ffn_experts");
  EXPECT_EQ(tensorOf(experts.getUpScale()), "blk.1.ffn_up_exps.scale");
  EXPECT_FALSE(experts.getGateScale());
  EXPECT_FALSE(find<moe::ExpertsOp>("blk.0.ffn_experts").hasScales());

  tiny.tensors["blk.1.ffn_up_exps.scale"] = {{7}};
  expectFailure(tiny, StatusCode::InvalidFile,
                "tensor \"blk.1.ffn_up_exps.scale\" has the shape [7], "
                "expected [8]");
  tiny.tensors["blk.1.ffn_up_exps.scale"] = {{8}, moek::Format::F16};
  expectFailure(tiny, StatusCode::Unsupported,
                "tensor \"blk.1.ffn_up_exps.scale\" is F16, expected F32");
}

/// A bias is added after scaling, which applies to the product only.
TEST_F(Transformer, ScalesBesideBiases) {
  TinyTransformer tiny("qwen2moe");
  tiny.tensors["blk.0.attn_q.bias"] = {{128}};
  tiny.tensors["blk.0.attn_q.scale"] = {{1}};
  expectFailure(
      tiny, StatusCode::Unsupported,
      "tensor \"blk.0.attn_q.scale\" multiplies a weight that also has a "
      "bias or a limit");
  tiny.tensors.erase("blk.0.attn_q.scale");
  tiny.tensors["blk.0.ffn_down_exps.bias"] = {{64, 8}};
  tiny.tensors["blk.0.ffn_down_exps.scale"] = {{8}};
  expectFailure(tiny, StatusCode::Unsupported,
                "tensor \"blk.0.ffn_down_exps.scale\" multiplies a weight that "
                "also has a bias or a limit");
  tiny.tensors.erase("blk.0.ffn_down_exps.scale");
  tiny.tensors["blk.0.ffn_gate_inp.scale"] = {{1}};
  expectFailure(
      tiny, StatusCode::Unsupported,
      "tensor \"blk.0.ffn_gate_inp.scale\" multiplies a weight, which "
      "is not supported for this architecture");
}

//===----------------------------------------------------------------------===//
// Whole files
//===----------------------------------------------------------------------===//

// Parts that supported files have are not reported as unknown for another
// architecture.
TEST_F(Transformer, KnownPartsAreNotReported) {
  for (const char *name :
       {"deepseek2-split", "deepseek2-v3", "glm4moe", "gpt-oss", "llama",
        "minimax-m2", "mixtral-old", "qwen2moe", "qwen3moe"}) {
    auto model = moec::GgufModel::open(std::string(MOE_TEST_DATA) + "/unit/" +
                                       name + ".gguf");
    ASSERT_TRUE(model.isOk()) << model.status().message();
    EXPECT_THAT(moec::unknownParts(context, *model), ElementsAre()) << name;
  }
}

// Each token counts with a full window; plans record these numbers.
TEST_F(Transformer, WorkAfterAFullWindow) {
  TinyTransformer tiny("gpt-oss");
  tiny.keys["attention.sliding_window"] = uint32_t(5);
  expectImport(tiny);
  module.get().walk([&](moe::GqaAttentionOp op) {
    moe::WorkTerms terms = moe::workTerms(op).front();
    for (auto [tokens, cached] : {std::pair(1, 5), {4, 100}, {7, 5}}) {
      double seen = tokens * (cached + (tokens + 1) / 2.0);
      EXPECT_DOUBLE_EQ(tokens * terms.tokenOps + seen * terms.seenOps +
                           (cached + tokens) * terms.rowOps,
                       op.getCost(tokens, cached).flops);
    }
  });
}
