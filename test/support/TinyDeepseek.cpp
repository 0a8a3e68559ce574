#include "test/support/TinyDeepseek.h"

namespace moetest {

TinyDeepseek::TinyDeepseek() {
  architecture = "deepseek2";
  for (auto [name, value] : std::initializer_list<std::pair<const char *, int>>{
           {"block_count", 2},
           {"context_length", 128},
           {"embedding_length", 64},
           {"feed_forward_length", 96},
           {"vocab_size", 96},
           {"attention.head_count", 2},
           {"attention.kv_lora_rank", 64},
           {"attention.key_length", 48},
           {"attention.value_length", 32},
           {"rope.dimension_count", 16},
           {"leading_dense_block_count", 1},
           {"expert_count", 8},
           {"expert_used_count", 3},
           {"expert_shared_count", 2},
           {"expert_feed_forward_length", 32}})
    keys[name] = uint32_t(value);
  keys["attention.layer_norm_rms_epsilon"] = 1e-6f;

  add("token_embd", {64, 96});
  add("output_norm", {64});
  add("output", {64, 96});
  for (std::string block : {"blk.0.", "blk.1."}) {
    add(block + "attn_norm", {64});
    add(block + "attn_q", {64, 96});
    add(block + "attn_kv_a_mqa", {64, 80});
    add(block + "attn_kv_a_norm", {64});
    add(block + "attn_kv_b", {64, 128});
    add(block + "attn_output", {64, 64});
    add(block + "ffn_norm", {64});
  }
  auto addFfn = [&](const std::string &suffix, uint64_t inner) {
    std::string block = suffix.empty() ? "blk.0." : "blk.1.";
    add(block + "ffn_gate" + suffix, {64, inner});
    add(block + "ffn_up" + suffix, {64, inner});
    add(block + "ffn_down" + suffix, {inner, 64});
  };
  addFfn("", 96);
  addFfn("_shexp", 64);
  add("blk.1.ffn_gate_inp", {64, 8});
  add("blk.1.ffn_gate_exps", {64, 32, 8});
  add("blk.1.ffn_up_exps", {64, 32, 8});
  add("blk.1.ffn_down_exps", {32, 64, 8});
}

} // namespace moetest
