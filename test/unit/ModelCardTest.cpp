// The summary of a model by GGUF's conventions, for any architecture.

#include "compiler/Import/ModelCard.h"

#include "test/support/SampleModel.h"
#include "test/unit/GgufTestFixture.h"

#include <nlohmann/json.hpp>

using namespace moetest;
using moec::ModelCard;
using moec::ModelPart;
using moek::Format;

namespace {

TEST(TensorRole, FollowsNames) {
  const std::pair<const char *, ModelPart> names[] = {
      {"token_embd.weight", ModelPart::Embedding},
      {"output.weight", ModelPart::Output},
      {"output_norm.weight", ModelPart::Norms},
      {"rope_freqs.weight", ModelPart::Other},
      {"blk.0.attn_norm.weight", ModelPart::Norms},
      {"blk.0.attn_norm.bias", ModelPart::Norms},
      {"blk.0.attn_q_a_norm.weight", ModelPart::Norms},
      {"blk.0.post_attention_norm.weight", ModelPart::Norms},
      {"blk.0.attn_q.bias", ModelPart::Attention},
      {"blk.0.attn_kv_a_mqa.weight", ModelPart::Attention},
      {"blk.0.attn_sinks.weight", ModelPart::Attention},
      {"blk.0.attn_output.weight", ModelPart::Attention},
      {"blk.0.ffn_down.weight", ModelPart::DenseFfn},
      {"blk.3.ffn_gate_inp.weight", ModelPart::Router},
      {"blk.3.exp_probs_b.bias", ModelPart::Router},
      {"blk.3.ffn_gate_inp_shexp.weight", ModelPart::SharedExperts},
      {"blk.3.ffn_up_shexp.weight", ModelPart::SharedExperts},
      {"blk.3.ffn_gate_exps.weight", ModelPart::RoutedExperts},
      {"blk.3.ffn_gate_up_exps.weight", ModelPart::RoutedExperts},
      {"blk.3.ffn_gate_exps.bias", ModelPart::RoutedExperts},
      {"blk.3.ffn_up.7.weight", ModelPart::RoutedExperts},
      {"blk.3.ssm_in.weight", ModelPart::Other},
      {"blk.x.ffn_up.weight", ModelPart::Other},
  };
  for (const auto &[name, part] : names)
    EXPECT_EQ(modelPartName(moec::tensorRole(name).part), modelPartName(part))
        << name;
  EXPECT_EQ(moec::tensorRole("blk.60.attn_q.weight").layer, 60u);
  EXPECT_EQ(moec::tensorRole("output.weight").layer, std::nullopt);
  EXPECT_EQ(moec::tensorRole("blk.99999999999.ffn_up.weight").layer,
            std::nullopt);
}

class ModelCardTest : public GgufTest {
protected:
  ModelCard card(const GgufBuilder &gguf) {
    auto model = open(gguf);
    EXPECT_TRUE(model.isOk()) << model.status().message();
    auto card = makeModelCard(*model);
    EXPECT_TRUE(card.isOk()) << card.status().message();
    return *card;
  }

  void expectCardError(const GgufBuilder &gguf, std::string_view text) {
    auto model = open(gguf);
    ASSERT_TRUE(model.isOk()) << model.status().message();
    expectFailure(moec::makeModelCard(*model).status(),
                  moert::StatusCode::InvalidFile, {text});
  }
};

/// A dense layer, a layer with 4 experts of which 1 is used, and an MTP layer.
GgufBuilder smallMoe() {
  GgufBuilder gguf;
  gguf.add("general.architecture", "some");
  gguf.add("general.name", "Small MoE");
  auto set = [&](const char *key, uint32_t value) {
    gguf.add(std::string("some.") + key, value);
  };
  set("block_count", 3);
  set("nextn_predict_layers", 1);
  set("context_length", 4096);
  set("embedding_length", 64);
  set("feed_forward_length", 96);
  set("attention.head_count", 4);
  set("attention.head_count_kv", 2);
  set("expert_count", 4);
  set("expert_used_count", 1);
  set("expert_shared_count", 1);
  set("expert_group_count", 2);
  set("expert_group_used_count", 1);
  set("expert_feed_forward_length", 32);
  set("expert_gating_func", 2);
  gguf.add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.pre", "qwen2");
  gguf.addStrings("tokenizer.ggml.tokens", {"a", "b", "c", "d"});
  auto weight = [&](const char *name, Format format,
                    std::vector<uint64_t> shape) {
    gguf.addTensor(name + std::string(".weight"), format, std::move(shape));
  };
  weight("token_embd", Format::Q8_0, {64, 4});              // Size: 272 bytes.
  weight("output_norm", Format::F32, {64});                 // Size: 256 bytes.
  weight("output", Format::F16, {64, 4});                   // Size: 512 bytes.
  weight("blk.0.attn_q", Format::Q8_0, {64, 64});           // Size: 4352 bytes.
  weight("blk.0.ffn_up", Format::Q8_0, {64, 96});           // Size: 6528 bytes.
  weight("blk.1.attn_q", Format::Q8_0, {64, 64});           // Size: 4352 bytes.
  weight("blk.1.ffn_gate_inp", Format::F32, {64, 4});       // Size: 1024 bytes.
  weight("blk.1.ffn_up_exps", Format::Q4_0, {64, 32, 4});   // Size: 4608 bytes.
  weight("blk.1.ffn_up_shexp", Format::IQ2_XXS, {256, 32}); // Size: 2112 bytes.
  // Size: 4608 bytes; an MTP layer.
  weight("blk.2.ffn_up_exps", Format::Q4_0, {64, 32, 4});
  return gguf;
}

TEST_F(ModelCardTest, SumsByPartAndFormat) {
  ModelCard c = card(smallMoe());
  EXPECT_EQ(c.architecture, "some");
  EXPECT_EQ(c.name, "Small MoE");
  EXPECT_EQ(c.total.tensors, 10u);
  EXPECT_EQ(c.total.bytes, 28624u);
  EXPECT_EQ(c.total.parameters,
            256u + 64 + 256 + 4096 + 6144 + 4096 + 256 + 8192 + 8192 + 8192);
  EXPECT_EQ(c.part(ModelPart::Attention).bytes, 2 * 4352u);
  EXPECT_EQ(c.part(ModelPart::Attention).tensors, 2u);
  EXPECT_EQ(c.part(ModelPart::RoutedExperts).bytes, 4608u);
  EXPECT_EQ(c.part(ModelPart::Mtp).bytes, 4608u);
  EXPECT_EQ(c.part(ModelPart::Router).bytes, 1024u);
  EXPECT_EQ(c.part(ModelPart::Other).tensors, 0u);
  // All except the embedding, 3 of 4 experts and the MTP layer.
  EXPECT_EQ(c.active.bytes, 28624u - 272 - 4608 / 4 * 3 - 4608);
  EXPECT_EQ(c.active.parameters,
            c.total.parameters - 256 - 8192 / 4 * 3 - 8192);
  ASSERT_EQ(c.formats.size(), 5u);
  EXPECT_EQ(c.formats[0].format, Format::Q8_0);
  EXPECT_EQ(c.formats[0].tensors, 4u);
  EXPECT_EQ(c.formats[1].format, Format::Q4_0);
  EXPECT_EQ(c.formats[1].bytes, 9216u);
}

TEST_F(ModelCardTest, ShapeAndExperts) {
  ModelCard c = card(smallMoe());
  EXPECT_EQ(c.layers.total, 3u);
  EXPECT_EQ(c.layers.dense, 1u);
  EXPECT_EQ(c.layers.moe, 1u);
  EXPECT_EQ(c.layers.mtp, 1u);
  ASSERT_TRUE(c.experts.has_value());
  EXPECT_EQ(c.experts->count, 4u);
  EXPECT_EQ(c.experts->gating, "sigmoid");
  EXPECT_EQ(c.vocabularySize, 4u);
  EXPECT_FALSE(c.tiedOutput);
}

TEST_F(ModelCardTest, DeepseekV3) {
  ModelCard c = card(deepseekV3Model());
  EXPECT_NEAR(double(c.total.parameters), 671e9, 0.1e9);
  // Published as 37 billion, which includes the embedding's 0.9.
  EXPECT_NEAR(double(c.active.parameters), 36.6e9, 0.1e9);
  EXPECT_EQ(c.layers.dense, 3u);
  EXPECT_EQ(c.layers.moe, 58u);
  EXPECT_GT(c.part(ModelPart::RoutedExperts).bytes, c.total.bytes * 96 / 100);
}

TEST_F(ModelCardTest, OldFilesHaveOneTensorPerExpert) {
  GgufBuilder gguf = modelBuilder();
  gguf.add("test.expert_count", uint32_t(2));
  gguf.add("test.expert_used_count", uint32_t(1));
  for (const char *name : {"blk.0.ffn_up.0.weight", "blk.0.ffn_up.1.weight"})
    gguf.addTensor(name, Format::F32, {8, 8});
  ModelCard c = card(gguf);
  EXPECT_EQ(c.part(ModelPart::RoutedExperts).tensors, 2u);
  EXPECT_EQ(c.active.bytes, 256u);
  EXPECT_EQ(c.layers.moe, 1u);
  EXPECT_EQ(c.layers.total, 1u) << "counted when no key says so";
}

TEST_F(ModelCardTest, TiedOutputReadsTheEmbedding) {
  GgufBuilder gguf = modelBuilder();
  gguf.addTensor("token_embd.weight", Format::F32, {8, 8});
  ModelCard c = card(gguf);
  EXPECT_TRUE(c.tiedOutput);
  EXPECT_EQ(c.active.bytes, 256u);
}

TEST_F(ModelCardTest, SharedExpertsWithoutAKey) {
  GgufBuilder gguf = modelBuilder();
  gguf.add("test.expert_count", uint32_t(2));
  gguf.addTensor("blk.0.ffn_up_shexp.weight", Format::F32, {8, 8});
  EXPECT_EQ(card(gguf).experts->shared, 1u);
}

TEST_F(ModelCardTest, PerLayerKeysShowTheLargest) {
  GgufBuilder gguf = modelBuilder();
  gguf.addArray<int32_t>("test.attention.head_count", {4, 16, 8});
  EXPECT_EQ(card(gguf).heads, 16u);
}

TEST_F(ModelCardTest, VocabularyOnly) {
  ModelCard c = card(modelBuilder());
  EXPECT_EQ(c.total.tensors, 0u);
  EXPECT_EQ(c.bitsPerWeight(), 0.0);
  std::string text = moec::modelCardText(c);
  EXPECT_EQ(text.find("bytes by part"), std::string::npos);
  EXPECT_NE(text.find("none: the file holds no tensors"), std::string::npos);
}

TEST_F(ModelCardTest, Contradictions) {
  GgufBuilder type = modelBuilder();
  type.add("test.context_length", "long");
  expectCardError(type, "key \"test.context_length\": expected an unsigned "
                        "integer, found string");
  GgufBuilder used = modelBuilder();
  used.add("test.expert_count", uint32_t(4));
  used.add("test.expert_used_count", uint32_t(5));
  expectCardError(
      used, "byte " + std::to_string(used.keyAt("test.expert_used_count")) +
                ": key \"test.expert_used_count\": expected at most the "
                "4 experts there are, found 5");
}

TEST_F(ModelCardTest, Text) {
  EXPECT_EQ(moec::modelCardText(card(smallMoe())), R"(model
  name             Small MoE
  architecture     some
  format           GGUF v3

size
  file             29.38 KiB
  parameters       39.74 K, 25.15 K active per token
  weights          27.95 KiB, 19.81 KiB read per token, 5.76 bits per weight

shape
  layers           3: 1 dense, 1 mixture-of-experts, 1 MTP
  hidden           64
  heads            4, 2 for keys and values
  FFN width        96
  context          4096 tokens
  vocabulary       4 tokens
  tokenizer        gpt2, pre-tokenizer qwen2

experts
  routed           4, 1 used per token
  groups           2, 1 used per token
  shared           1
  FFN width        32
  gating           sigmoid

bytes by part
  embedding             1 tensor         272 B   0.95 %
  attention             2 tensors     8.50 KiB  30.41 %
  dense FFN             1 tensor      6.38 KiB  22.81 %
  router                1 tensor      1.00 KiB   3.58 %
  routed experts        1 tensor      4.50 KiB  16.10 %
  shared experts        1 tensor      2.06 KiB   7.38 %
  norms                 1 tensor         256 B   0.89 %
  output                1 tensor         512 B   1.79 %
  MTP layers            1 tensor      4.50 KiB  16.10 %

formats
  Q8_0                  4 tensors    15.14 KiB  54.16 %
  Q4_0                  2 tensors     9.00 KiB  32.20 %
  IQ2_XXS               1 tensor      2.06 KiB   7.38 %
  F32                   2 tensors     1.25 KiB   4.47 %
  F16                   1 tensor         512 B   1.79 %
)");
}

TEST_F(ModelCardTest, FormatsWithoutKernelsAreReported) {
  GgufBuilder gguf = smallMoe();
  gguf.addTensor("blk.2.ffn_gate.weight", Format::Q1_0, {128, 4});
  EXPECT_NE(
      moec::modelCardText(card(gguf)).find("  (no kernels for this format)\n"),
      std::string::npos);
  auto formats =
      nlohmann::json::parse(moec::modelCardJson(card(gguf)))["formats"];
  for (const auto &format : formats)
    EXPECT_EQ(format["has_kernels"], format["format"] != "Q1_0") << format;
}

TEST_F(ModelCardTest, Json) {
  auto json = nlohmann::json::parse(moec::modelCardJson(card(smallMoe())));
  EXPECT_EQ(json["name"], "Small MoE");
  EXPECT_EQ(json["parameters"], 39744);
  EXPECT_EQ(json["active_parameters"], 25152);
  EXPECT_EQ(json["experts"]["count"], 4);
  EXPECT_EQ(json["experts"]["gating"], "sigmoid");
  EXPECT_EQ(json["layers"]["mtp"], 1);
  EXPECT_EQ(json["parts"]["routed_experts"]["bytes"], 4608);
  EXPECT_EQ(json["formats"][2]["format"], "IQ2_XXS");
  EXPECT_EQ(json["formats"][2]["has_kernels"], true);
  EXPECT_EQ(json["files"][0], path);
  EXPECT_TRUE(nlohmann::json::parse(
                  moec::modelCardJson(card(modelBuilder())))["experts"]
                  .is_null());
}

// A name may contain any bytes.
TEST_F(ModelCardTest, NamesThatAreNoText) {
  GgufBuilder gguf = modelBuilder();
  gguf.add("general.name", "\x1b[31mred\xff");
  ModelCard c = card(gguf);
  EXPECT_EQ(nlohmann::json::parse(moec::modelCardJson(c))["name"],
            "\x1b[31mred\xef\xbf\xbd");
  EXPECT_NE(moec::modelCardText(c).find("\"\\x1b[31mred\\xff\""),
            std::string::npos);
}

} // namespace
