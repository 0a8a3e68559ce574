"""Models with other norms, scale factors or factors of RoPE: OLMo 2, Granite, Phi, Ministral."""
import torch

BEHIND = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}


def olmo2(file):
    """Files with windows are OLMo 3, whose YaRN belongs to full layers."""
    if not file.key("attention.sliding_window", 0):
        return "olmo2", file.config(), file.state(BEHIND)
    windowed = file.key("attention.sliding_window_pattern", [layer % 4 != 3 for layer in range(file.layers)])
    plain = {"rope_type": "default", "rope_theta": file.key("rope.freq_base")}
    config = file.config(
        sliding_window=file.key("attention.sliding_window"),
        layer_types=["sliding_attention" if window else "full_attention" for window in windowed],
        rope_parameters={"full_attention": file.rope(), "sliding_attention": plain})
    return "olmo3", config, file.state(BEHIND)


def granite_scales(file):
    return {
        "attention_multiplier": file.key("attention.scale", 0) or file.config()["head_dim"]**-0.5,
        "embedding_multiplier": file.key("embedding_scale", 1.0),
        "residual_multiplier": file.key("residual_scale", 1.0),
        "logits_scaling": file.key("logit_scale", 1.0),
    }


def granite(file):
    return "granite", file.config(**granite_scales(file)), file.state(rope_pairs=True)


def granitemoe(file):
    """The shared expert's gate and up are one matrix in the model."""
    for layer in range(file.layers):
        parts = [file.tensors.pop(f"blk.{layer}.ffn_{part}_shexp.weight") for part in ("gate", "up")]
        file.tensors[f"blk.{layer}.ffn_up_shexp.weight"] = torch.cat(parts)
    config = file.config(
        num_local_experts=file.key("expert_count"),
        shared_intermediate_size=file.key("expert_shared_feed_forward_length", 0),
        **granite_scales(file))
    return "granitemoeshared", config, file.state({
        "ffn_gate_inp": "block_sparse_moe.router",
        "ffn_gate_up_exps": "block_sparse_moe.experts.gate_up_proj",
        "ffn_down_exps": "block_sparse_moe.experts.down_proj",
        "ffn_up_shexp": "shared_mlp.input_linear",
        "ffn_down_shexp": "shared_mlp.output_linear",
    }, rope_pairs=True)


def factors_of_rope(file, magnitude):
    """LongRoPE: factors for contexts up to the original one, and for longer ones. Takes the two tensors away."""
    if not file.has("rope_factors_long.weight"):
        return file.rope()
    factor = file.key("rope.scaling.attn_factor", 1.0)
    return file.rope() | {
        "rope_type": "longrope",
        "long_factor": file.tensors.pop("rope_factors_long.weight").tolist(),
        "short_factor": file.tensors.pop("rope_factors_short.weight").tolist(),
        "original_max_position_embeddings": file.key("rope.scaling.original_context_length"),
        "factor": file.key("context_length") / file.key("rope.scaling.original_context_length"),
    } | {name: factor for name in magnitude}


def phi3(file):
    rope = factors_of_rope(file, ["attention_factor"])
    config = file.config(rope_parameters=rope, sliding_window=file.key("attention.sliding_window", 0) or None)
    config["original_max_position_embeddings"] = file.key("rope.scaling.original_context_length")
    rope["partial_rotary_factor"] = file.key("rope.dimension_count") / config["head_dim"]
    return "phi3", config, file.state({"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"})


def phimoe(file):
    """No key has the width of the sparse mixer's band, which is 0.01 in the model."""
    from .float64 import watch_sparse_mixer
    watch_sparse_mixer()
    config = file.config(
        num_local_experts=file.key("expert_count"),
        attention_bias=True,
        lm_head_bias=True,
        rope_parameters=factors_of_rope(file, ["short_mscale", "long_mscale"]))
    config["original_max_position_embeddings"] = file.key("rope.scaling.original_context_length")
    return "phimoe", config, file.state({"ffn_gate_inp": "mlp.router"})


def temperature(file, name):
    """YaRN without a magnitude, and how much more queries weigh after each original context."""
    return file.rope() | {
        "mscale": 1.0,
        "mscale_all_dim": file.key("rope.scaling.yarn_log_multiplier") * name,
        "llama_4_scaling_beta": file.key("attention.temperature_scale"),
    }


def mistral3(file):
    return "ministral3", file.config(rope_parameters=temperature(file, 1)), file.state(rope_pairs=True)


def latent(file):
    """The names of latent attention's weights; the halves of kv_b are put together."""
    heads = file.key("attention.head_count")
    for layer in range(file.layers):
        if not file.has(f"blk.{layer}.attn_k_b.weight"):
            continue
        k, v = (file.tensors.pop(f"blk.{layer}.attn_{part}_b.weight") for part in "kv")
        kv = torch.cat((k.transpose(1, 2), v), 1)
        file.tensors[f"blk.{layer}.attn_kv_b.weight"] = kv.reshape(-1, kv.shape[-1])
    return {
        "attn_q_a": "self_attn.q_a_proj",
        "attn_q_a_norm": "self_attn.q_a_layernorm",
        "attn_q_b": "self_attn.q_b_proj",
        "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm",
        "attn_kv_b": "self_attn.kv_b_proj",
    }


def mistral4(file):
    from .grouped_query import sigmoid_experts
    rope, key = file.key("rope.dimension_count"), file.key("attention.key_length_mla")
    config = sigmoid_experts(
        file,
        rope_parameters=temperature(file, 10) | {"partial_rotary_factor": rope / key},
        num_key_value_heads=file.key("attention.head_count"),
        q_lora_rank=file.key("attention.q_lora_rank"),
        kv_lora_rank=file.key("attention.kv_lora_rank"),
        qk_rope_head_dim=rope,
        qk_nope_head_dim=key - rope,
        v_head_dim=file.key("attention.value_length_mla"))
    del config["head_dim"]
    return "mistral4", config, file.state(latent(file))


FAMILIES = {
    "olmo2": olmo2,
    "granite": granite,
    "granitemoe": granitemoe,
    "phi3": phi3,
    "phimoe": phimoe,
    "mistral3": mistral3,
    "mistral4": mistral4,
}
