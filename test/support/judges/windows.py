"""Models in which some layers see a window only."""
from .grouped_query import sigmoid_experts
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


FAMILIES = {
    "exaone4": exaone4,
    "exaone-moe": exaone_moe,
    "afmoe": afmoe,
    "cohere2": cohere2,
    "cohere2moe": cohere2moe,
}
