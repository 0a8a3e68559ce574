#include "test/support/TinyModel.h"

namespace moetest {

namespace {
template <class T>
void addTo(GgufBuilder &gguf, const std::string &key, const T &value) {
  gguf.add(key, value);
}
template <class T>
void addTo(GgufBuilder &gguf, const std::string &key,
           const std::vector<T> &values) {
  gguf.addArray(key, values);
}
} // namespace

GgufBuilder TinyModel::build() const {
  GgufBuilder gguf;
  gguf.add("general.architecture", architecture).add("general.name", "tiny");
  for (const auto &[name, value] : keys)
    std::visit(
        [&](const auto &typed) {
          addTo(gguf, architecture + "." + name, typed);
        },
        value);
  for (const auto &[name, tensor] : tensors)
    gguf.addTensor(name, tensor.format, tensor.shape);
  return gguf;
}

TinyTransformer::TinyTransformer(std::string name) {
  architecture = std::move(name);
  for (auto [key, value] : std::initializer_list<std::pair<const char *, int>>{
           {"block_count", 2},
           {"context_length", 128},
           {"embedding_length", 64},
           {"feed_forward_length", 96},
           {"vocab_size", 96},
           {"attention.head_count", 4},
           {"attention.head_count_kv", 2},
           {"attention.key_length", 32},
           {"expert_count", 8},
           {"expert_used_count", 3},
           {"expert_feed_forward_length", 32}})
    keys[key] = uint32_t(value);
  keys["attention.layer_norm_rms_epsilon"] = 1e-6f;

  add("token_embd", {64, 96});
  add("output_norm", {64});
  add("output", {64, 96});
  for (std::string block : {"blk.0.", "blk.1."}) {
    add(block + "attn_norm", {64});
    add(block + "attn_q", {64, 128});
    add(block + "attn_k", {64, 64});
    add(block + "attn_v", {64, 64});
    add(block + "attn_output", {128, 64});
    add(block + "ffn_norm", {64});
    add(block + "ffn_gate_inp", {64, 8});
    add(block + "ffn_gate_exps", {64, 32, 8});
    add(block + "ffn_up_exps", {64, 32, 8});
    add(block + "ffn_down_exps", {32, 64, 8});
  }
}

} // namespace moetest
