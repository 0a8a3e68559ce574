"""Llama, Mixtral, Qwen 2 and 3, Gemma 2 to 4, GLM-4.5, MiniMax M2 and gpt-oss."""
import re

import torch

from .grouped_query import sigmoid_experts

GATED = {
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
# Norms after attention and FFN.
BEHIND = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def stacked(file):
    """Old files have a tensor for each expert."""
    for layer in range(file.layers):
        for part in ("gate", "up", "down"):
            names = [f"blk.{layer}.ffn_{part}.{expert}.weight" for expert in range(file.key("expert_count", 0))]
            if names and file.has(names[0]):
                file.tensors[f"blk.{layer}.ffn_{part}_exps.weight"] = torch.stack([file.tensors.pop(name) for name in names])


def any_heads(kind):
    """Makes a configuration whose hidden size is no multiple of its heads, which some classes refuse without need."""
    def made(hidden_size, **more):
        import transformers
        config = transformers.CONFIG_MAPPING[kind](hidden_size=more["num_attention_heads"], **more)
        config.hidden_size = hidden_size
        return config
    return made


def llama(file):
    """With experts it is Mixtral. rope_freqs divide the frequencies, as Llama 3.1's scaling would."""
    stacked(file)
    factors = file.tensors.pop("rope_freqs.weight", None)

    def divided(model):
        if factors is not None:
            model.model.rotary_emb.inv_freq /= factors

    if file.key("expert_count", 0):
        return "mixtral", file.config(num_local_experts=file.key("expert_count")), file.state(rope_pairs=True), divided
    return any_heads("llama"), file.config(attention_bias=file.has("blk.0.attn_q.bias")), file.state(rope_pairs=True), divided


def qwen2(file):
    return "qwen2", file.config(), file.state()


def qwen2moe(file):
    for layer in range(file.layers):
        name = f"blk.{layer}.ffn_gate_inp_shexp.weight"
        file.tensors[name] = file.tensors[name].reshape(1, -1)
    width = file.tensors["blk.0.ffn_gate_shexp.weight"].shape[0]
    config = file.config(shared_expert_intermediate_size=width, norm_topk_prob=file.key("expert_weights_norm", False))
    return "qwen2_moe", config, file.state(GATED)


def qwen3(file):
    return "qwen3", file.config(), file.state()


def qwen3moe(file):
    return "qwen3_moe", file.config(norm_topk_prob=True, mlp_only_layers=[], decoder_sparse_step=1), file.state()


def glm4moe(file):
    """Files call the norm of the FFN post_attention_norm."""
    config = sigmoid_experts(file, use_qk_norm=file.has("blk.0.attn_q_norm.weight"), attention_bias=file.has("blk.0.attn_q.bias"))
    config["rope_parameters"]["partial_rotary_factor"] = file.key("rope.dimension_count") / config["head_dim"]
    return "glm4_moe", config, file.state({"post_attention_norm": "post_attention_layernorm"})


def minimax_m2(file):
    """One norm over all heads of q and of k."""
    config = file.config(num_local_experts=file.key("expert_count"), rotary_dim=file.key("rope.dimension_count"),
                         intermediate_size=file.key("expert_feed_forward_length", file.key("feed_forward_length", 0)))
    config["rope_parameters"]["partial_rotary_factor"] = file.key("rope.dimension_count") / config["head_dim"]
    return "minimax_m2", config, file.state({"exp_probs_b": "mlp.e_score_correction_bias"})


def minus_one(state):
    """Files store the weights of norms plus one."""
    return {name: value - 1 if re.search(r"norm\.weight$", name) else value for name, value in state.items()}


def gemma(file, kind, **more):
    """Every sixth layer of Gemma 3, every second of Gemma 2, sees all tokens."""
    period = {"gemma2": 2, "gemma3_text": 6}[kind]
    period = file.key("attention.sliding_window_pattern", period)
    kinds = ["sliding_attention" if (layer + 1) % period else "full_attention" for layer in range(file.layers)]
    config = file.config(layer_types=kinds, sliding_window=file.key("attention.sliding_window"),
                         hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=file.key("attention.key_length"), **more)
    return any_heads(kind), config, minus_one(file.state(BEHIND))


def gemma2(file):
    return gemma(file, "gemma2", attn_logit_softcapping=file.key("attn_logit_softcapping", None),
                 final_logit_softcapping=file.key("final_logit_softcapping", None))


def gemma3(file):
    window = {"rope_type": "default", "rope_theta": file.key("rope.freq_base_swa", 10000.0)}
    return gemma(file, "gemma3_text", rope_parameters={"full_attention": file.rope(), "sliding_attention": window})


def gemma4(file):
    """Full layers have heads of another size, and values that are their keys where attn_v is missing. rope_freqs say which part of
    a full layer's head rotates. Layers that share caches have keys and values in files, which the model has not."""
    windowed = file.per_layer("attention.sliding_window_pattern")
    full = windowed.index(False)
    kv_heads, widths = file.per_layer("attention.head_count_kv"), file.per_layer("feed_forward_length")
    factors, shared = file.tensors.pop("rope_freqs.weight"), file.key("attention.shared_kv_layers", 0)
    config = file.config(
        layer_types=["sliding_attention" if each else "full_attention" for each in windowed],
        head_dim=file.key("attention.key_length_swa"),
        global_head_dim=file.key("attention.key_length"),
        num_key_value_heads=kv_heads[windowed.index(True)],
        num_global_key_value_heads=kv_heads[full],
        attention_k_eq_v=not file.has(f"blk.{full}.attn_v.weight"),
        num_kv_shared_layers=shared,
        intermediate_size=widths[0],
        use_double_wide_mlp=widths[-1] != widths[0],
        sliding_window=file.key("attention.sliding_window"),
        final_logit_softcapping=file.key("final_logit_softcapping", None),
        hidden_activation="gelu_pytorch_tanh",
        hidden_size_per_layer_input=file.key("embedding_length_per_layer_input", 0),
        vocab_size_per_layer_input=len(file.key("tokenizer.ggml.tokens")),
        enable_moe_block=bool(file.key("expert_count", 0)),
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": file.key("rope.freq_base_swa")},
            "full_attention": {"rope_type": "proportional", "rope_theta": file.key("rope.freq_base"),
                               "partial_rotary_factor": (factors == 1).double().mean().item()},
        })
    config["top_k_experts"] = config.pop("num_experts_per_tok", None)
    state = file.state(BEHIND | {
        "layer_output_scale": "layer_scalar",
        "ffn_gate_inp": "router.proj",
        "ffn_gate_inp.scale": "router.scale",
        "ffn_down_exps.scale": "router.per_expert_scale",
        "ffn_gate_up_exps": "experts.gate_up_proj",
        "ffn_down_exps": "experts.down_proj",
        "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
        "post_ffw_norm_1": "post_feedforward_layernorm_1",
        "post_ffw_norm_2": "post_feedforward_layernorm_2",
        "inp_gate": "per_layer_input_gate",
        "proj": "per_layer_projection",
        "post_norm": "post_per_layer_input_norm",
    }, {
        "per_layer_token_embd": "model.embed_tokens_per_layer",
        "per_layer_model_proj": "model.per_layer_model_projection",
        "per_layer_proj_norm": "model.per_layer_projection_norm",
    }, {"layer_output_scale"})
    borrowed = re.compile(rf"model\.layers\.({'|'.join(map(str, range(file.layers - shared, file.layers))) or '-'})"
                          r"\.self_attn\.(k_proj|v_proj|k_norm)\.weight")
    return "gemma4_text", config, {name: value for name, value in state.items() if not borrowed.fullmatch(name)}


def gpt_oss(file):
    """Columns of gate and up alternate in the model, whose experts have their inputs as rows."""
    rope = file.rope()
    if rope["rope_type"] == "yarn":
        rope["truncate"] = False
    for layer in range(file.layers):
        block = f"blk.{layer}."
        for part in ("weight", "bias"):
            gate, up = (file.tensors.pop(f"{block}ffn_{name}_exps.{part}") for name in ("gate", "up"))
            both = torch.stack((gate, up), 2).flatten(1, 2)
            file.tensors[f"{block}gate_up.{part}"] = both.transpose(1, 2) if part == "weight" else both
        down = f"{block}ffn_down_exps."
        file.tensors[f"{block}down.weight"] = file.tensors.pop(down + "weight").transpose(1, 2)
        file.tensors[f"{block}down.bias"] = file.tensors.pop(down + "bias")
        file.tensors[block + "attn_sinks"] = file.tensors.pop(block + "attn_sinks.weight")
    kinds = ["full_attention" if layer % 2 else "sliding_attention" for layer in range(file.layers)]
    config = file.config(rope_parameters=rope, layer_types=kinds, sliding_window=file.key("attention.sliding_window"),
                         num_local_experts=file.key("expert_count"), attention_bias=True,
                         intermediate_size=file.key("expert_feed_forward_length"))
    state = file.state({
        "post_attention_norm": "post_attention_layernorm",
        "ffn_gate_inp": "mlp.router",
        "attn_sinks": "self_attn.sinks",
        "gate_up": "mlp.experts.gate_up_proj",
        "down": "mlp.experts.down_proj",
    })
    renamed = {"mlp.experts.gate_up_proj.weight": "mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj.bias": "mlp.experts.gate_up_proj_bias",
               "mlp.experts.down_proj.weight": "mlp.experts.down_proj", "mlp.experts.down_proj.bias": "mlp.experts.down_proj_bias"}
    for old, new in renamed.items():
        for layer in range(file.layers):
            state[f"model.layers.{layer}.{new}"] = state.pop(f"model.layers.{layer}.{old}")
    return "gpt_oss", config, state


FAMILIES = {
    "llama": llama,
    "qwen2": qwen2,
    "qwen2moe": qwen2moe,
    "qwen3": qwen3,
    "qwen3moe": qwen3moe,
    "glm4moe": glm4moe,
    "minimax-m2": minimax_m2,
    "gemma2": gemma2,
    "gemma3": gemma3,
    "gemma4": gemma4,
    "gpt-oss": gpt_oss,
}
