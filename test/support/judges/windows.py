"""Models in which some layers see a window only."""
from .grouped_query import LANGUAGE, sigmoid_experts
from .scaled import BEHIND


def windows(file, period=4, full_first=False):
    """The window, and the kinds of layers by the key or by the period that llama.cpp assumes."""
    windowed = file.key("attention.sliding_window_pattern", None)
    if windowed is None:
        windowed = [layer % period != (0 if full_first else period - 1) for layer in range(file.layers)]
    return {
        "sliding_window": file.key("attention.sliding_window", 0) or None,
        "layer_types": ["sliding_attention" if window else "full_attention" for window in windowed[:file.layers]],
    }


def exaone4(file):
    """Without a window all layers are full and have RoPE."""
    kinds = windows(file)
    if not kinds["sliding_window"]:
        kinds["layer_types"] = ["full_attention"] * file.layers
    return "exaone4", file.config(**kinds), file.state(BEHIND)


def exaone_moe(file):
    config = sigmoid_experts(file, num_shared_experts=file.key("expert_shared_count", 1), **windows(file))
    return "exaone_moe", config, file.state()


def afmoe(file):
    config = file.config(
        mup_enabled=True,
        num_dense_layers=file.key("leading_dense_block_count", 0),
        num_shared_experts=file.key("expert_shared_count"),
        route_scale=file.key("expert_weights_scale", 1.0),
        **windows(file))
    return "afmoe", config, file.state({
        "attn_gate": "self_attn.gate_proj",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_mlp_layernorm",
        "post_ffw_norm": "post_mlp_layernorm",
        "ffn_gate_inp": "mlp.router.gate",
        "exp_probs_b": "mlp.expert_bias",
    })


def cohere2(file):
    """Neighbours form the pairs of RoPE in the model as in files."""
    eps = file.key("attention.layer_norm_epsilon")
    config = file.config(layer_norm_eps=eps, logit_scale=file.key("logit_scale"), **windows(file))
    return "cohere2", config, file.state()


def cohere2moe(file):
    dense = file.key("leading_dense_block_count", 0)
    config = file.config(
        layer_norm_eps=file.key("attention.layer_norm_epsilon", None),
        rms_norm_eps=file.key("attention.layer_norm_rms_epsilon", None),
        logit_scale=file.key("logit_scale"),
        intermediate_size=file.key("expert_feed_forward_length"),
        prefix_dense_intermediate_size=file.key("feed_forward_length"),
        mlp_layer_types=["dense"] * dense + ["sparse"] * (file.layers - dense),
        num_shared_experts=file.key("expert_shared_count", 0),
        expert_selection_fn={1: "softmax", 2: "sigmoid"}[file.key("expert_gating_func", 2)],
        norm_topk_prob=file.key("expert_weights_norm", False),
        **windows(file, full_first=True))
    return "cohere2_moe", config, file.state()


def two_ropes(file, part_full=1.0, part_windowed=1.0):
    """Full layers have YaRN and the file's base, windowed ones a base of their own."""
    base = file.key("rope.freq_base_swa", file.key("rope.freq_base"))
    return {
        "full_attention": file.rope() | {"partial_rotary_factor": part_full},
        "sliding_attention": {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": part_windowed},
    }


def sparse_layers(file):
    return ["sparse" if file.has(f"blk.{layer}.ffn_gate_inp.weight") else "dense" for layer in range(file.layers)]


def laguna(file):
    heads, size = file.per_layer("attention.head_count"), file.key("attention.key_length")
    gates = file.tensors["blk.0.attn_gate.weight"].shape[0]
    config = file.config(
        num_attention_heads=heads[0],
        num_attention_heads_per_layer=heads,
        gating="per-head" if gates == heads[0] else "per-element",
        mlp_layer_types=sparse_layers(file),
        shared_expert_intermediate_size=file.key("expert_shared_feed_forward_length"),
        moe_routed_scaling_factor=file.key("expert_weights_scale", 1.0),
        rope_parameters=two_ropes(file, file.key("rope.dimension_count") / size, file.key("rope.dimension_count_swa") / size),
        **windows(file, full_first=True))
    return "laguna", config, file.state({"attn_gate": "self_attn.g_proj"})


def mimo2(file):
    """A file's window does not count the token itself: transformers takes sliding_window_size, and adds one."""
    kinds, size = windows(file), file.key("attention.key_length")
    part = file.key("rope.dimension_count") / size + 1e-9
    kv_heads = dict(zip(kinds["layer_types"], file.per_layer("attention.head_count_kv")))
    assert kv_heads["sliding_attention"] == 2 * kv_heads["full_attention"], "the model's class knows twice the heads only"
    config = sigmoid_experts(
        file,
        num_key_value_heads=kv_heads["full_attention"],
        v_head_dim=file.key("attention.value_length"),
        attention_value_scale=file.key("attention.value_scale", 1.0),
        mlp_layer_types=sparse_layers(file),
        rope_parameters=two_ropes(file, part, part),
        sliding_window_size=kinds["sliding_window"],
        layer_types=kinds["layer_types"])
    config["norm_topk_prob"] = True
    return "mimo_v2_flash", config, file.state({"attn_sinks": "self_attn.sinks"}, bare={"attn_sinks"})


def step35(file):
    """Files store the weights of norms plus one; rope_freqs belongs to full layers, of whose heads half is rotated."""
    kinds = windows(file)
    heads = dict(zip(kinds["layer_types"], file.per_layer("attention.head_count")))
    config = file.config(
        num_attention_heads=heads["full_attention"],
        num_sliding_attention_heads=heads["sliding_attention"],
        num_key_value_heads=file.per_layer("attention.head_count_kv")[0],
        n_routed_experts=file.key("expert_count"),
        num_local_experts=file.key("expert_count"),
        pad_token_id=0,
        share_expert_dim=file.key("expert_shared_feed_forward_length"),
        moe_router_scaling_factor=file.key("expert_weights_scale", 1.0),
        mlp_layer_types=sparse_layers(file),
        swiglu_limits=[limit or None for limit in file.per_layer("swiglu_clamp_exp", 0)],
        swiglu_limits_shared=[limit or None for limit in file.per_layer("swiglu_clamp_shexp", 0)],
        rope_parameters=two_ropes(file, 0.5),
        **kinds)
    factors = file.tensors.pop("rope_freqs.weight", None)
    state = file.state({"attn_gate": "self_attn.g_proj"}, LANGUAGE, prefix="model.language_model.layers.")
    state = {name: value - 1 if name.endswith("norm.weight") else value for name, value in state.items()}

    def divide(model):
        if factors is not None:
            rope = model.model.language_model.rotary_emb
            rope.full_attention_inv_freq = rope.full_attention_inv_freq / factors[:len(rope.full_attention_inv_freq)]

    vision = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 28, "max_position_embeddings": 4}
    return "step3p7", {"text_config": config, "vision_config": vision}, state, divide


def llama4(file):
    """The model's expert weights are transposed; 128 experts have no norms of q and k."""
    config = file.config(
        intermediate_size=file.key("expert_feed_forward_length"),
        intermediate_size_mlp=file.key("feed_forward_length"),
        num_local_experts=file.key("expert_count"),
        interleave_moe_layer_step=file.key("interleave_moe_layer_step"),
        use_qk_norm=file.key("expert_count") != 128)
    experts = {f"ffn_{part}_shexp": f"feed_forward.shared_expert.{part}_proj" for part in ("gate", "up", "down")}
    dense = {f"ffn_{part}": f"feed_forward.{part}_proj" for part in ("gate", "up", "down")}
    state = file.state(experts | dense | {
        "ffn_gate_inp": "feed_forward.router",
        "ffn_gate_up_exps": "feed_forward.experts.gate_up_proj",
        "ffn_down_exps": "feed_forward.experts.down_proj",
    })
    return "llama4_text", config, {name: value.transpose(1, 2) if value.dim() == 3 else value for name, value in state.items()}


def muse_glimmer(file):
    """Files store the weights of norms in layers plus one, and the factor of q as the weight of a norm."""
    kinds = windows(file)
    config = file.config(
        qk_scale_factor=file.tensors["blk.0.attn_q_norm.weight"][0].item(),
        output_multiplier=file.key("logit_scale"),
        final_logit_softcapping=file.key("final_logit_softcapping"),
        layer_rope_theta=[file.key("rope.freq_base") if kind == "sliding_attention" else 0 for kind in kinds["layer_types"]],
        **kinds)
    for layer in range(file.layers):
        assert file.tensors.pop(f"blk.{layer}.attn_k_norm.weight").eq(1).all()
        assert file.tensors.pop(f"blk.{layer}.attn_q_norm.weight").eq(config["qk_scale_factor"]).all()
    state = file.state({
        "attn_gate": "self_attn.gate_proj",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    }, LANGUAGE, rope_pairs=True, prefix="model.language_model.layers.")
    state = {name: value - 1 if name.endswith("layernorm.weight") else value for name, value in state.items()}
    vision = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    return "muse_glimmer", {"text_config": config, "vision_config": vision}, state


FAMILIES = {
    "laguna": laguna,
    "mimo2": mimo2,
    "step35": step35,
    "llama4": llama4,
    "muse-glimmer": muse_glimmer,
    "exaone4": exaone4,
    "exaone-moe": exaone_moe,
    "afmoe": afmoe,
    "cohere2": cohere2,
    "cohere2moe": cohere2moe,
}
