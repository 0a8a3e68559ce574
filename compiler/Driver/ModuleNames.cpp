#include "compiler/Driver/ModuleNames.h"

#include <algorithm>
#include <fmt/format.h>

namespace moec {

namespace {
struct Leaf {
  std::string_view tensor, module;
  ModuleKind kind;
};

constexpr Leaf kGlobals[] = {
    {"token_embd", "model.embed_tokens", ModuleKind::Embedding},
    {"output", "lm_head", ModuleKind::Linear},
    {"output_norm", "model.norm", ModuleKind::Norm},
};

/// Names inside a layer: after "blk.N." and after "model.layers.N.".
constexpr Leaf kOfLayers[] = {
    {"attn_norm", "input_layernorm", ModuleKind::Norm},
    {"ffn_norm", "post_attention_layernorm", ModuleKind::Norm},
    {"post_attention_norm", "post_attention_layernorm", ModuleKind::Norm},
    {"attn_q", "self_attn.q_proj", ModuleKind::Linear},
    {"attn_q_a", "self_attn.q_a_proj", ModuleKind::Linear},
    {"attn_q_a_norm", "self_attn.q_a_layernorm", ModuleKind::Norm},
    {"attn_q_b", "self_attn.q_b_proj", ModuleKind::Linear},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", ModuleKind::Linear},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm", ModuleKind::Norm},
    {"attn_kv_b", "self_attn.kv_b_proj", ModuleKind::Linear},
    {"attn_k_b", "self_attn.kv_b_proj", ModuleKind::Linear},
    {"attn_v_b", "self_attn.kv_b_proj", ModuleKind::Linear},
    {"attn_k", "self_attn.k_proj", ModuleKind::Linear},
    {"attn_v", "self_attn.v_proj", ModuleKind::Linear},
    {"attn_q_norm", "self_attn.q_norm", ModuleKind::Norm},
    {"attn_k_norm", "self_attn.k_norm", ModuleKind::Norm},
    {"attn_output", "self_attn.o_proj", ModuleKind::Linear},
    {"attn_sinks", "self_attn", ModuleKind::Attention},
    {"attn_qkv", "self_attn.qkv_proj", ModuleKind::Linear},
    {"attn_gate", "self_attn.gate_proj", ModuleKind::Linear},
    {"ssm_in", "linear_attn.in_proj_qkvz", ModuleKind::Linear},
    {"ssm_ba", "linear_attn.in_proj_ba", ModuleKind::Linear},
    {"ssm_beta", "linear_attn.in_proj_b", ModuleKind::Linear},
    {"ssm_alpha", "linear_attn.in_proj_a", ModuleKind::Linear},
    {"ssm_norm", "linear_attn.norm", ModuleKind::Norm},
    {"ssm_out", "linear_attn.out_proj", ModuleKind::Linear},
    {"ffn_gate_inp", "mlp.gate", ModuleKind::Gate},
    {"exp_probs_b", "mlp.gate", ModuleKind::Gate},
    {"ffn_gate_exps", "mlp.experts", ModuleKind::Experts},
    {"ffn_up_exps", "mlp.experts", ModuleKind::Experts},
    {"ffn_down_exps", "mlp.experts", ModuleKind::Experts},
    {"ffn_gate_up_exps", "mlp.experts", ModuleKind::Experts},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj", ModuleKind::Linear},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj", ModuleKind::Linear},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj", ModuleKind::Linear},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", ModuleKind::Linear},
    {"ffn_gate", "mlp.gate_proj", ModuleKind::Linear},
    {"ffn_up", "mlp.up_proj", ModuleKind::Linear},
    {"ffn_down", "mlp.down_proj", ModuleKind::Linear},
};

/// An architecture's own name for a module or for the beginning of its name.
struct Spelling {
  std::string_view architecture, module, own;
};
/// The first entry that fits decides.
constexpr Spelling kSpellings[] = {
    {"llama", "mlp.gate", "block_sparse_moe.gate"},
    {"llama", "mlp.experts", "block_sparse_moe.experts"},
    {"minimax-m2", "mlp.gate", "block_sparse_moe.gate"},
    {"minimax-m2", "mlp.experts", "block_sparse_moe.experts"},
    {"phimoe", "mlp.gate", "block_sparse_moe.gate"},
    {"phimoe", "mlp.experts", "block_sparse_moe.experts"},
    {"smallthinker", "mlp.gate", "block_sparse_moe.primary_router"},
    {"smallthinker", "mlp.experts", "block_sparse_moe.experts"},
    {"llama4", "mlp.gate", "feed_forward.router"},
    {"llama4", "mlp.shared_experts", "feed_forward.shared_expert"},
    {"llama4", "mlp", "feed_forward"},
    {"hunyuan-moe", "mlp.gate", "mlp.gate.wg"},
    {"hunyuan-moe", "mlp.shared_experts", "mlp.shared_mlp"},
    {"hunyuan-moe", "self_attn.q_norm", "self_attn.query_layernorm"},
    {"hunyuan-moe", "self_attn.k_norm", "self_attn.key_layernorm"},
    {"qwen2moe", "mlp.shared_experts", "mlp.shared_expert"},
    {"qwen3next", "mlp.shared_experts", "mlp.shared_expert"},
    {"qwen35moe", "mlp.shared_experts", "mlp.shared_expert"},
    {"gpt-oss", "mlp.gate", "mlp.router"},
    {"qwen3next", "self_attn.qkv_proj", "linear_attn.in_proj_qkv"},
    {"qwen35moe", "self_attn.qkv_proj", "linear_attn.in_proj_qkv"},
    {"qwen35", "self_attn.qkv_proj", "linear_attn.in_proj_qkv"},
    {"qwen3next", "self_attn.gate_proj", "linear_attn.in_proj_z"},
    {"qwen35moe", "self_attn.gate_proj", "linear_attn.in_proj_z"},
    {"qwen35", "self_attn.gate_proj", "linear_attn.in_proj_z"},
};

/// Architectures whose routers have a class of their own, as DeepSeek's
/// MoEGate; those of others are a torch.nn.Linear.
constexpr std::string_view kOwnRouters[] = {
    "deepseek",   "deepseek2",   "deepseek32",  "deepseek4",
    "deepseek41", "glm4moe",     "glm-dsa",     "glm5-next",
    "kimi-k3",    "kimi-linear", "bailingmoe2", "bailingmoe3",
    "exaone-moe", "dots1",       "gpt-oss",     "mistral4"};

std::string spelled(std::string_view architecture, std::string_view module) {
  for (const Spelling &spelling : kSpellings) {
    std::string_view rest = module;
    if (spelling.architecture != architecture ||
        !rest.starts_with(spelling.module))
      continue;
    rest.remove_prefix(spelling.module.size());
    if (rest.empty() || rest[0] == '.')
      return std::string(spelling.own) + std::string(rest);
  }
  return std::string(module);
}

/// Maps "ffn_up.3" to "ffn_up_exps": old files have one tensor per expert.
std::string stacked(std::string_view tensor) {
  size_t dot = tensor.find('.');
  bool isExpert =
      dot != tensor.npos && dot + 1 < tensor.size() &&
      tensor.find_first_not_of("0123456789", dot + 1) == tensor.npos;
  return isExpert ? std::string(tensor.substr(0, dot)) + "_exps"
                  : std::string(tensor);
}

const Leaf *find(auto &leaves, std::string_view tensor) {
  for (const Leaf &leaf : leaves)
    if (leaf.tensor == tensor)
      return &leaf;
  return nullptr;
}

/// Returns the kind of a module that contains a leaf, from the last part of its
/// name.
ModuleKind kindOfPart(std::string_view part, const Leaf &leaf) {
  if (part == "model")
    return ModuleKind::Model;
  if (part == "self_attn")
    return ModuleKind::Attention;
  if (part == "linear_attn")
    return ModuleKind::DeltaNet;
  if (part == "block_sparse_moe")
    return ModuleKind::Moe;
  // Only in Hunyuan models, which wrap the router's Linear in a module.
  if (part == "gate")
    return ModuleKind::Gate;
  if (part == "shared_experts" || part == "shared_expert" ||
      part == "shared_mlp")
    return ModuleKind::Mlp;
  if (part == "mlp" || part == "feed_forward")
    // The projections of a dense FFN are directly in it.
    return leaf.tensor == "ffn_gate" || leaf.tensor == "ffn_up" ||
                   leaf.tensor == "ffn_down"
               ? ModuleKind::Mlp
               : ModuleKind::Moe;
  return part == "layers" ? ModuleKind::Container : ModuleKind::Layer;
}

/// Whether a leaf is a torch.nn.Linear, also where its kind says more.
bool isLinear(std::string_view architecture, const Leaf &leaf) {
  return leaf.kind == ModuleKind::Linear ||
         (leaf.kind == ModuleKind::Gate &&
          std::ranges::find(kOwnRouters, architecture) ==
              std::end(kOwnRouters));
}

struct ClassEnd {
  std::string_view end;
  ModuleKind kind;
};
/// The first entry that fits decides.
constexpr ClassEnd kClassEnds[] = {
    {"RotaryEmbedding", ModuleKind::Rope},
    {"Embedding", ModuleKind::Embedding},
    {"Linear", ModuleKind::Linear},
    {"Norm", ModuleKind::Norm},
    {"Attention", ModuleKind::Attention},
    {"GatedDeltaNet", ModuleKind::DeltaNet},
    {"MlpBlock", ModuleKind::Mlp},
    {"MLP", ModuleKind::Mlp},
    {"MoeBlock", ModuleKind::Moe},
    {"MoEBlock", ModuleKind::Moe},
    {"MoE", ModuleKind::Moe},
    {"Moe", ModuleKind::Moe},
    {"Gate", ModuleKind::Gate},
    {"Router", ModuleKind::Gate},
    {"Experts", ModuleKind::Experts},
    {"ModuleList", ModuleKind::Experts},
    {"DecoderLayer", ModuleKind::Layer},
    {"ForCausalLM", ModuleKind::Model},
    {"Model", ModuleKind::Model},
};
} // namespace

std::vector<Module> modulesOf(std::string_view architecture,
                              std::string_view tensor) {
  // Removes the suffix, as of "blk.3.attn_q.weight".
  tensor = tensor.substr(0, tensor.find_last_of('.'));
  std::string path;
  const Leaf *leaf = find(kGlobals, tensor);
  if (leaf) {
    path = leaf->module;
  } else if (tensor.starts_with("blk.")) {
    tensor.remove_prefix(4);
    size_t dot = tensor.find('.');
    if (dot == tensor.npos ||
        !(leaf = find(kOfLayers, stacked(tensor.substr(dot + 1)))))
      return {};
    path = fmt::format("model.layers.{}.{}", tensor.substr(0, dot),
                       spelled(architecture, leaf->module));
  } else {
    return {};
  }
  std::vector<Module> modules;
  size_t from = 0;
  for (size_t dot = path.find('.'); dot != path.npos;
       from = dot + 1, dot = path.find('.', from))
    modules.push_back(
        {path.substr(0, dot),
         kindOfPart(std::string_view(path).substr(from, dot - from), *leaf),
         false});
  modules.push_back({path, leaf->kind, isLinear(architecture, *leaf)});
  return modules;
}

std::optional<ModuleKind> kindOfClass(std::string_view name) {
  // Without a dot, npos + 1 is 0: nothing is removed.
  name.remove_prefix(name.find_last_of('.') + 1);
  for (auto [end, kind] : kClassEnds)
    if (name.ends_with(end))
      return kind;
  return std::nullopt;
}

std::string knownClasses() {
  std::string text = "torch.nn.Linear";
  for (auto [end, kind] : kClassEnds)
    if (end != "Linear")
      text += fmt::format(", ...{}", end);
  return text;
}

} // namespace moec
