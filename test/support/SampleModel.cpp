#include "test/support/SampleModel.h"

using moec::GgufType;
using moek::Format;

namespace moetest {

GgufBuilder sampleModel() {
  GgufBuilder gguf;
  gguf.add("general.architecture", "deepseek2").add("general.name", "sample");
  gguf.add("u8", uint8_t(1)).add("i8", int8_t(-1)).add("u16", uint16_t(2));
  gguf.add("i16", int16_t(-2)).add("u32", uint32_t(3)).add("i32", int32_t(-3));
  gguf.add("u64", uint64_t(4)).add("i64", int64_t(-4)).add("f32", 0.5f);
  gguf.add("f64", 0.25).add("bool", true);
  gguf.setAlignment(64);
  gguf.addArray<int16_t>("shorts", {1, -2, 3}).addArray<double>("reals", {0.1});
  Bytes nested;
  append(nested, GgufType::Array);
  append(nested, uint64_t(2));
  for (std::string_view text : {"one", "two"}) {
    append(nested, GgufType::String);
    append(nested, uint64_t(1));
    appendString(nested, text);
  }
  gguf.addRaw("nested", GgufType::Array, nested);

  gguf.add("deepseek2.block_count", uint32_t(2));
  gguf.add("deepseek2.context_length", uint32_t(128));
  gguf.add("deepseek2.expert_count", uint32_t(4));
  gguf.add("deepseek2.expert_used_count", uint32_t(2));
  gguf.add("tokenizer.ggml.model", "gpt2");
  gguf.addStrings("tokenizer.ggml.tokens", {"<s>", "a", "b", "ab"});
  gguf.addArray<int32_t>("tokenizer.ggml.token_type", {3, 1, 1, 1});
  gguf.addArray<float>("tokenizer.ggml.scores", {0, -1, -2, -3});
  gguf.addStrings("tokenizer.ggml.merges", {"a b"});
  gguf.add("tokenizer.ggml.bos_token_id", uint32_t(0));

  gguf.addTensor("token_embd.weight", Format::Q8_0, {32, 4}, Bytes(34 * 4, 1));
  gguf.addTensor("blk.0.attn_norm.weight", {32}, std::vector<float>(32, 1.f));
  gguf.addTensor("blk.0.ffn_up.weight", Format::F16, {32, 2}, Bytes(128, 2));
  gguf.addTensor("blk.1.ffn_up_exps.weight", Format::Q4_K, {256, 1, 4},
                 Bytes(144 * 4, 3));
  gguf.addTensor("output.weight", {16}, std::vector<float>(16, 1.f));
  return gguf;
}

GgufBuilder deepseekV3Model(unsigned layers) {
  constexpr uint64_t hidden = 7168, heads = 128, queryRank = 1536, latent = 512,
                     nope = 128, rope = 64, value = 128, denseWidth = 18432,
                     experts = 256, expertWidth = 2048, vocabulary = 129280;
  constexpr unsigned denseLayers = 3;
  GgufBuilder gguf;
  auto set = [&](const std::string &key, uint64_t number) {
    gguf.add("deepseek2." + key, uint32_t(number));
  };
  gguf.add("general.architecture", "deepseek2");
  gguf.add("general.name", "DeepSeek V3 shape");
  set("block_count", layers);
  set("context_length", 163840);
  set("embedding_length", hidden);
  set("feed_forward_length", denseWidth);
  set("attention.head_count", heads);
  set("attention.head_count_kv", heads);
  gguf.add("deepseek2.attention.layer_norm_rms_epsilon", 1e-6f);
  set("attention.q_lora_rank", queryRank);
  set("attention.kv_lora_rank", latent);
  set("attention.key_length", nope + rope);
  set("attention.value_length", value);
  set("rope.dimension_count", rope);
  gguf.add("deepseek2.rope.freq_base", 10000.0f);
  set("leading_dense_block_count", denseLayers);
  set("expert_count", experts);
  set("expert_used_count", 8);
  set("expert_shared_count", 1);
  set("expert_feed_forward_length", expertWidth);
  set("expert_gating_func", 2);
  set("expert_group_count", 8);
  set("expert_group_used_count", 4);
  gguf.add("deepseek2.expert_weights_scale", 2.5f);
  gguf.add("deepseek2.expert_weights_norm", true);
  set("vocab_size", vocabulary);

  std::vector<std::string> tokens, merges;
  for (uint64_t i = 0; i < vocabulary; ++i) {
    tokens.push_back("token" + std::to_string(i));
    merges.push_back("to ken" + std::to_string(i));
  }
  gguf.add("tokenizer.ggml.model", "gpt2");
  gguf.add("tokenizer.ggml.pre", "deepseek-v3");
  gguf.addStrings("tokenizer.ggml.tokens", tokens);
  gguf.addArray("tokenizer.ggml.token_type",
                std::vector<int32_t>(vocabulary, 1));
  gguf.addStrings("tokenizer.ggml.merges", merges);
  gguf.add("tokenizer.ggml.bos_token_id", uint32_t(0));
  gguf.add("tokenizer.ggml.eos_token_id", uint32_t(1));

  auto weight = [&](const std::string &name, Format format,
                    std::vector<uint64_t> shape) {
    gguf.addTensor(name + ".weight", format, std::move(shape));
  };
  weight("token_embd", Format::Q4_K, {hidden, vocabulary});
  weight("output_norm", Format::F32, {hidden});
  weight("output", Format::Q6_K, {hidden, vocabulary});
  for (unsigned layer = 0; layer < layers; ++layer) {
    std::string block = "blk." + std::to_string(layer) + ".";
    weight(block + "attn_norm", Format::F32, {hidden});
    weight(block + "attn_q_a", Format::Q4_K, {hidden, queryRank});
    weight(block + "attn_q_a_norm", Format::F32, {queryRank});
    weight(block + "attn_q_b", Format::Q4_K,
           {queryRank, heads * (nope + rope)});
    weight(block + "attn_kv_a_mqa", Format::Q4_K, {hidden, latent + rope});
    weight(block + "attn_kv_a_norm", Format::F32, {latent});
    weight(block + "attn_kv_b", Format::Q4_K, {latent, heads * (nope + value)});
    weight(block + "attn_output", Format::Q4_K, {heads * value, hidden});
    weight(block + "ffn_norm", Format::F32, {hidden});
    if (layer < denseLayers) {
      weight(block + "ffn_gate", Format::Q4_K, {hidden, denseWidth});
      weight(block + "ffn_up", Format::Q4_K, {hidden, denseWidth});
      weight(block + "ffn_down", Format::Q6_K, {denseWidth, hidden});
      continue;
    }
    weight(block + "ffn_gate_inp", Format::F32, {hidden, experts});
    gguf.addTensor(block + "exp_probs_b.bias", Format::F32, {experts});
    for (const char *name : {"ffn_gate", "ffn_up"}) {
      weight(block + name + "_exps", Format::Q4_K,
             {hidden, expertWidth, experts});
      weight(block + name + "_shexp", Format::Q4_K, {hidden, expertWidth});
    }
    weight(block + "ffn_down_exps", Format::Q4_K,
           {expertWidth, hidden, experts});
    weight(block + "ffn_down_shexp", Format::Q6_K, {expertWidth, hidden});
  }
  return gguf;
}

} // namespace moetest
