#include "models/UnknownParts.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <set>
#include <string_view>

using moert::quoted;

namespace moec {

namespace {
/// Known tensors, without "blk.N.", the number of an expert and ".weight" or
/// ".bias".
constexpr std::string_view kTensors[] = {"ssm_a",
                                         "ssm_alpha",
                                         "ssm_ba",
                                         "ssm_beta",
                                         "ssm_conv1d",
                                         "ssm_dt",
                                         "ssm_in",
                                         "ssm_norm",
                                         "ssm_out",
                                         "attn_compressor_ape",
                                         "attn_compressor_gate",
                                         "attn_compressor_kv",
                                         "attn_compressor_norm",
                                         "attn_gate",
                                         "attn_k",
                                         "attn_k_b",
                                         "attn_k_norm",
                                         "attn_kv",
                                         "attn_kv_a_mqa",
                                         "attn_kv_a_norm",
                                         "attn_kv_b",
                                         "attn_norm",
                                         "attn_output",
                                         "attn_output_a",
                                         "attn_output_b",
                                         "attn_q",
                                         "attn_q_a",
                                         "attn_q_a_norm",
                                         "attn_q_b",
                                         "attn_q_norm",
                                         "attn_qkv",
                                         "attn_sinks",
                                         "attn_v",
                                         "attn_v_b",
                                         "exp_probs_b",
                                         "ffn_down",
                                         "ffn_down_exps",
                                         "ffn_down_exps.scale",
                                         "ffn_down_shexp",
                                         "ffn_gate",
                                         "ffn_gate_exps",
                                         "ffn_gate_inp",
                                         "ffn_gate_inp.scale",
                                         "ffn_gate_inp_shexp",
                                         "ffn_gate_shexp",
                                         "ffn_gate_tid2eid",
                                         "ffn_gate_up_exps",
                                         "ffn_norm",
                                         "ffn_up",
                                         "ffn_up_exps",
                                         "ffn_up_shexp",
                                         "hc_attn_base",
                                         "hc_attn_fn",
                                         "hc_attn_scale",
                                         "hc_ffn_base",
                                         "hc_ffn_fn",
                                         "hc_ffn_scale",
                                         "indexer.attn_k",
                                         "indexer.attn_q_b",
                                         "indexer.k_norm",
                                         "indexer.proj",
                                         "indexer_compressor_ape",
                                         "indexer_compressor_gate",
                                         "indexer_compressor_kv",
                                         "indexer_compressor_norm",
                                         "inp_gate",
                                         "layer_output_scale",
                                         "output",
                                         "output_hc_base",
                                         "output_hc_fn",
                                         "output_hc_scale",
                                         "output_norm",
                                         "per_layer_model_proj",
                                         "per_layer_proj_norm",
                                         "per_layer_token_embd",
                                         "post_attention_norm",
                                         "post_ffw_norm",
                                         "post_ffw_norm_1",
                                         "post_ffw_norm_2",
                                         "post_norm",
                                         "pre_ffw_norm_2",
                                         "proj",
                                         "rope_factors_long",
                                         "rope_factors_short",
                                         "rope_freqs",
                                         "token_embd"};

/// Known keys, without the architecture.
constexpr std::string_view kKeys[] = {"attn_logit_softcapping",
                                      "ssm.conv_kernel",
                                      "ssm.group_count",
                                      "ssm.inner_size",
                                      "ssm.state_size",
                                      "ssm.time_step_rank",
                                      "full_attention_interval",
                                      "attention.recurrent_layers",
                                      "rope.dimension_sections",
                                      "attention.compress_ratios",
                                      "attention.compress_rope_freq_base",
                                      "attention.head_count",
                                      "attention.head_count_kv",
                                      "attention.indexer.head_count",
                                      "attention.indexer.key_length",
                                      "attention.indexer.top_k",
                                      "attention.indexer.types",
                                      "attention.key_length",
                                      "attention.key_length_mla",
                                      "attention.key_length_swa",
                                      "attention.kv_lora_rank",
                                      "attention.layer_norm_rms_epsilon",
                                      "attention.output_group_count",
                                      "attention.output_lora_rank",
                                      "attention.q_lora_rank",
                                      "attention.shared_kv_layers",
                                      "attention.sliding_window",
                                      "attention.sliding_window_pattern",
                                      "attention.value_length",
                                      "attention.value_length_mla",
                                      "attention.value_length_swa",
                                      "block_count",
                                      "context_length",
                                      "embedding_length",
                                      "embedding_length_out",
                                      "embedding_length_per_layer_input",
                                      "expert_count",
                                      "expert_feed_forward_length",
                                      "expert_gating_func",
                                      "expert_group_count",
                                      "expert_group_used_count",
                                      "expert_shared_count",
                                      "expert_shared_feed_forward_length",
                                      "expert_used_count",
                                      "expert_weights_norm",
                                      "expert_weights_scale",
                                      "feed_forward_length",
                                      "final_logit_softcapping",
                                      "hash_layer_count",
                                      "hyper_connection.count",
                                      "hyper_connection.epsilon",
                                      "hyper_connection.sinkhorn_iterations",
                                      "leading_dense_block_count",
                                      "nextn_predict_layers",
                                      "pooling_type",
                                      "rope.dimension_count",
                                      "rope.dimension_count_swa",
                                      "rope.freq_base",
                                      "rope.freq_base_swa",
                                      "rope.scaling.attn_factor",
                                      "rope.scaling.factor",
                                      "rope.scaling.original_context_length",
                                      "rope.scaling.type",
                                      "rope.scaling.yarn_attn_factor",
                                      "rope.scaling.yarn_beta_fast",
                                      "rope.scaling.yarn_beta_slow",
                                      "rope.scaling.yarn_ext_factor",
                                      "rope.scaling.yarn_log_multiplier",
                                      "swiglu_clamp_exp",
                                      "swiglu_clamp_shexp",
                                      "vocab_size"};

bool isDigits(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view stemOf(std::string_view name) {
  if (name.starts_with("blk."))
    if (size_t dot = name.find('.', 4);
        dot != name.npos && isDigits(name.substr(4, dot - 4)))
      name.remove_prefix(dot + 1);
  for (std::string_view suffix : {".weight", ".bias"})
    if (name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
      break;
    }
  if (size_t dot = name.rfind('.');
      dot != name.npos && isDigits(name.substr(dot + 1)))
    name = name.substr(0, dot);
  return name;
}
} // namespace

std::vector<std::string> unknownParts(const GgufModel &model) {
  std::vector<std::string> parts;
  std::set<std::string_view> seen;
  for (const GgufTensor &tensor : model.tensors()) {
    std::string_view stem = stemOf(tensor.name);
    // Layers for multi-token prediction are skipped anyway.
    if (!stem.starts_with("nextn.") &&
        std::ranges::find(kTensors, stem) == std::end(kTensors) &&
        seen.insert(stem).second)
      parts.push_back("tensor " + quoted(tensor.name));
  }
  std::string prefix = std::string(model.architecture()) + ".";
  for (const auto &[key, value] : model.metadata())
    if (key.starts_with(prefix) &&
        std::ranges::find(kKeys, key.substr(prefix.size())) == std::end(kKeys))
      parts.push_back("key " + quoted(key));
  return parts;
}

} // namespace moec
