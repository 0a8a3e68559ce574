"""Models whose layers differ in kind: Mamba 2, short convolutions and delta nets beside attention."""
import torch

from .grouped_query import LANGUAGE, sigmoid_experts
from .scaled import granite_scales, latent

MAMBA = {"ssm_in": "in_proj", "ssm_conv1d": "conv1d", "ssm_norm": "norm", "ssm_out": "out_proj"}
BARE_MAMBA = {"ssm_a": "A_log", "ssm_d": "D", "ssm_dt": "dt_bias"}


def mamba(file, prefix):
    """Weights of Mamba 2 in the model's shapes, and their names. Files have -exp(A_log) for A_log."""
    for name, value in file.tensors.items():
        part = name.split(".", 2)[-1]
        if part == "ssm_a":
            file.tensors[name] = (-value).log().flatten()
        elif part in ("ssm_d", "ssm_norm.weight"):
            file.tensors[name] = value.flatten()
        elif part == "ssm_conv1d.weight":
            file.tensors[name] = value[:, None]
    return {name: prefix + target for name, target in (MAMBA | BARE_MAMBA).items()}


def layer_kinds(file, recurrent="linear_attention"):
    """Layers with heads of k and v are attention."""
    return ["full_attention" if count else recurrent for count in file.per_layer("attention.head_count_kv")]


def mamba_sizes(file):
    heads = file.key("ssm.time_step_rank")
    return heads, file.key("ssm.inner_size") // heads, file.key("ssm.group_count"), file.key("ssm.state_size")


def nemotron_h_moe(file):
    """A layer is one thing: where files give it a width it is experts. Its norm is attn_norm whatever it is."""
    heads, size, groups, state = mamba_sizes(file)
    kinds = ["moe" if width else kind for kind, width in zip(layer_kinds(file), file.per_layer("feed_forward_length"))]
    config = sigmoid_experts(
        file,
        layers_block_type=kinds,
        num_key_value_heads=max(file.per_layer("attention.head_count_kv")),
        intermediate_size=8,
        layer_norm_epsilon=file.key("attention.layer_norm_epsilon"),
        mamba_num_heads=heads, mamba_head_dim=size, n_groups=groups, ssm_state_size=state,
        conv_kernel=file.key("ssm.conv_kernel"),
        moe_latent_size=file.key("moe_latent_size", None),
        moe_shared_expert_intermediate_size=file.key("expert_shared_feed_forward_length"))
    for name in ("num_hidden_layers", "hidden_act", "num_experts", "rope_parameters"):
        del config[name]
    attention = {f"attn_{part}": f"mixer.{part}_proj" for part in "qkv"} | {"attn_output": "mixer.o_proj"}
    return "nemotron_h", config, file.state(mamba(file, "mixer.") | attention | {
        "attn_norm": "norm",
        "ffn_gate_inp": "mixer.gate",
        "exp_probs_b": "mixer.gate.e_score_correction_bias",
        "ffn_latent_down": "mixer.fc1_latent_proj",
        "ffn_latent_up": "mixer.fc2_latent_proj",
        "ffn_up_exps": "mixer.experts.up_proj",
        "ffn_down_exps": "mixer.experts.down_proj",
        "ffn_up_shexp": "mixer.shared_experts.up_proj",
        "ffn_down_shexp": "mixer.shared_experts.down_proj",
    }, {"token_embd": "model.embeddings", "output_norm": "model.norm_f"}, {*BARE_MAMBA, "ffn_up_exps"})


def granitehybrid(file):
    """Gate and up of the shared expert, or of the only FFN, are one matrix in the model."""
    heads, size, groups, state = mamba_sizes(file)
    experts = file.key("expert_count", 0)
    suffix = "_shexp" if experts else ""
    for layer in range(file.layers):
        parts = [file.tensors.pop(f"blk.{layer}.ffn_{part}{suffix}.weight") for part in ("gate", "up")]
        file.tensors[f"blk.{layer}.ffn_up{suffix}.weight"] = torch.cat(parts)
    assert file.key("rope.scaling.finetuned", True) is False
    config = file.config(
        layer_types=layer_kinds(file),
        num_key_value_heads=max(file.per_layer("attention.head_count_kv")),
        position_embedding_type="nope",
        num_local_experts=experts,
        shared_intermediate_size=file.key("expert_shared_feed_forward_length" if experts else "feed_forward_length"),
        mamba_n_heads=heads, mamba_d_head=size, mamba_n_groups=groups, mamba_d_state=state,
        mamba_d_conv=file.key("ssm.conv_kernel"),
        **granite_scales(file))
    del config["rope_parameters"]
    return "granitemoehybrid", config, file.state(mamba(file, "mamba.") | {
        "ffn_gate_inp": "block_sparse_moe.router",
        "ffn_gate_up_exps": "block_sparse_moe.experts.gate_up_proj",
        "ffn_down_exps": "block_sparse_moe.experts.down_proj",
        "ffn_up" + suffix: "shared_mlp.input_linear",
        "ffn_down" + suffix: "shared_mlp.output_linear",
    }, bare=BARE_MAMBA)


def lfm2moe(file):
    kinds = layer_kinds(file, "conv")
    for layer, kind in enumerate(kinds):
        if kind == "conv":
            name = f"blk.{layer}.shortconv.conv.weight"
            file.tensors[name] = file.tensors[name][:, None]
    config = file.config(
        layer_types=kinds,
        num_key_value_heads=max(file.per_layer("attention.head_count_kv")),
        norm_eps=file.key("attention.layer_norm_rms_epsilon"),
        conv_L_cache=file.key("shortconv.l_cache"),
        num_dense_layers=file.key("leading_dense_block_count", 0) if file.key("expert_count", 0) else len(kinds),
        tie_embedding=not file.has("output.weight"))
    config["hidden_act"] = "silu"
    return "lfm2_moe", config, file.state({
        "attn_norm": "operator_norm",
        "attn_output": "self_attn.out_proj",
        "attn_q_norm": "self_attn.q_layernorm",
        "attn_k_norm": "self_attn.k_layernorm",
        "ffn_norm": "ffn_norm",
        "ffn_gate": "feed_forward.w1",
        "ffn_up": "feed_forward.w3",
        "ffn_down": "feed_forward.w2",
        "ffn_gate_inp": "feed_forward.gate",
        "exp_probs_b": "feed_forward.expert_bias",
        "ffn_gate_up_exps": "feed_forward.experts.gate_up_proj",
        "ffn_down_exps": "feed_forward.experts.down_proj",
    } | {f"shortconv.{part}": f"conv.{part}" for part in ("conv", "in_proj", "out_proj")},
        {"token_embd_norm": "model.embedding_norm"})


def delta_net(file, a_log):
    """Weights of KDA in the model's shapes: one convolution over q, k and v. a_log makes A_log of a file's ssm_a."""
    for layer, kind in enumerate(layer_kinds(file)):
        block = f"blk.{layer}."
        if kind == "linear_attention":
            rows = [file.tensors.pop(f"{block}ssm_conv1d_{part}.weight") for part in "qkv"]
            file.tensors[block + "ssm_conv1d.weight"] = torch.cat([row.reshape(-1, 1, row.shape[-1]) for row in rows])
            file.tensors[block + "ssm_a"] = a_log(file.tensors[block + "ssm_a"]).reshape(1, 1, -1, 1)
    return {
        "ssm_conv1d": "self_attn.conv1d",
        "ssm_beta": "self_attn.b_proj",
        "ssm_norm": "self_attn.o_norm",
        "ssm_dt": "self_attn.forget_gate.dt_bias",
        "ssm_a": "self_attn.forget_gate.A_log",
        "ssm_f_a": "self_attn.forget_gate.f_a_proj",
        "ssm_f_b": "self_attn.forget_gate.f_b_proj",
        "ssm_g_a": "self_attn.g_a_proj",
        "ssm_g_b": "self_attn.g_b_proj",
    }


def latent_sizes(file):
    rope, key = file.key("rope.dimension_count"), file.key("attention.key_length_mla")
    return {
        "num_key_value_heads": file.key("attention.head_count"),
        "q_lora_rank": file.key("attention.q_lora_rank", None),
        "kv_lora_rank": file.key("attention.kv_lora_rank"),
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": key - rope,
        "v_head_dim": file.key("attention.value_length_mla"),
    }


def kimi_linear(file):
    """Files have -exp(A_log). The epsilons of the norms of latents and of q and k are 1e-6 whatever a file says."""
    kinds, dense = layer_kinds(file), file.key("leading_dense_block_count", 0)
    config = sigmoid_experts(
        file,
        layer_types=kinds,
        mlp_layer_types=["dense"] * dense + ["sparse"] * (file.layers - dense),
        num_local_experts=file.key("expert_count"),
        linear_attn_config={"head_dim": file.key("kda.head_dim"), "num_heads": file.key("attention.head_count"),
                            "short_conv_kernel_size": file.key("ssm.conv_kernel")},
        **latent_sizes(file))
    config["norm_topk_prob"] = True
    del config["head_dim"], config["rope_parameters"]
    names = delta_net(file, lambda a: (-a).log()) | latent(file)
    return "kimi_linear", config, file.state(names, bare={"ssm_a", "ssm_dt"})


def minimax_m3(file):
    """Files store the weights of norms plus one. Layers with experts choose blocks of keys."""
    dense = file.key("leading_dense_block_count", 0)
    for layer in range(file.layers):
        suffix = "" if layer < dense else "_shexp"
        parts = [file.tensors.pop(f"blk.{layer}.ffn_{part}{suffix}.weight") for part in ("gate", "up")]
        file.tensors[f"blk.{layer}.ffn_up{suffix}.weight"] = torch.cat(parts)
    width = file.key("expert_feed_forward_length")
    config = file.config(
        intermediate_size=width,
        dense_intermediate_size=file.key("feed_forward_length"),
        shared_intermediate_size=width * file.key("expert_shared_count"),
        num_local_experts=file.key("expert_count"),
        routed_scaling_factor=file.key("expert_weights_scale", 1.0),
        layer_types=["full_attention"] * dense + ["minimax_m3_sparse"] * (file.layers - dense),
        mlp_layer_types=["dense"] * dense + ["sparse"] * (file.layers - dense),
        index_n_heads=file.key("attention.indexer.head_count"),
        index_head_dim=file.key("attention.indexer.key_length"),
        index_block_size=file.key("attention.indexer.block_size"),
        index_topk_blocks=file.key("attention.indexer.top_k"),
        index_local_blocks=file.key("attention.indexer.local_blocks"))
    config["rope_parameters"]["partial_rotary_factor"] = file.key("rope.dimension_count") / config["head_dim"]
    indexer = {f"indexer.{part}": f"self_attn.indexer.{part}" for part in ("q_proj", "k_proj", "q_norm", "k_norm")}
    state = file.state(indexer | {"ffn_up": "mlp.gate_up_proj", "ffn_up_shexp": "mlp.shared_experts.gate_up_proj"})
    state = {name: value - 1 if name.endswith("norm.weight") else value for name, value in state.items()}
    return "minimax_m3_vl_text", config, state


def bailingmoe3(file):
    """Files have exp(A_log). f_proj and g_proj of delta nets and of attention share no names in files."""
    kinds, dense = layer_kinds(file), file.key("leading_dense_block_count", 0)
    names = delta_net(file, lambda a: a.log()) | latent(file)
    state = file.state(names | {"attn_gate": "self_attn.g_proj", "ssm_f_a": "self_attn.forget_gate.f_proj", "ssm_g_a": "self_attn.g_proj"},
                       bare={"ssm_a", "ssm_dt"})
    config = sigmoid_experts(
        file,
        head_dim=file.key("kda.head_dim"),
        layer_types=kinds,
        mlp_layer_types=["dense"] * dense + ["sparse"] * (file.layers - dense),
        num_local_experts=file.key("expert_count"),
        short_conv_kernel_size=file.key("ssm.conv_kernel"),
        kda_safe_gate=file.key("kda.safe_gate", True),
        kda_lower_bound=file.key("kda.gate_lower_bound"),
        **latent_sizes(file))
    config["n_shared_experts"] = file.key("expert_shared_feed_forward_length") // file.key("expert_feed_forward_length")
    return "bailing_hybrid", config, {name: value.flatten() if "A_log" in name else value for name, value in state.items()}


def glm5_next(file):
    """Files have -exp(A_log). The pools' gate is bare in the model, as are the mixers of residual streams."""
    kinds = ["indexed_attention" if kind == "full_attention" else kind for kind in layer_kinds(file)]
    dense = file.key("leading_dense_block_count", 0)
    limits = set(file.per_layer("swiglu_clamp_exp") + file.per_layer("swiglu_clamp_shexp"))
    assert len(limits) == 1, "the model's class knows one limit"
    names = delta_net(file, lambda a: (-a).log()) | latent(file)
    config = sigmoid_experts(
        file,
        layer_types=kinds,
        mlp_layer_types=["dense"] * dense + ["sparse"] * (file.layers - dense),
        indexer_types=["full" if full else "shared" for full in file.per_layer("attention.indexer.types", True)],
        linear_attn_config={"head_dim": file.key("kda.head_dim"), "num_heads": file.key("attention.head_count"),
                            "short_conv_kernel_size": file.key("ssm.conv_kernel"),
                            "gate_lower_bound": file.key("kda.gate_lower_bound", None)},
        swiglu_limit=limits.pop(),
        hc_mult=file.key("hyper_connection.count"),
        hc_eps=file.key("hyper_connection.epsilon"),
        hc_sinkhorn_iters=file.key("hyper_connection.sinkhorn_iterations"),
        index_topk=file.key("attention.indexer.top_k"),
        index_head_dim=file.key("attention.indexer.key_length"),
        index_n_heads=file.key("attention.indexer.head_count"),
        index_kpool=file.key("attention.indexer.kpool"),
        index_kpool_always_select_tail=file.key("attention.indexer.kpool_select_tail", False),
        **latent_sizes(file))
    for name in ("head_dim", "rope_parameters", "num_experts"):
        del config[name]
    streams = {f"hc_{part}_{name}": f"{part}_hc.{name}" for part in ("attn", "ffn") for name in ("fn", "base", "scale")}
    pools = {f"indexer_compressor_{part}": f"self_attn.indexer.index_kpool_compress_{part}" for part in ("gate", "ape")}
    state = file.state(names | streams | pools | {
        "indexer.attn_q_b": "self_attn.indexer.wq_b",
        "indexer.attn_k": "self_attn.indexer.wk",
        "indexer.k_norm": "self_attn.indexer.k_norm",
        "indexer.proj": "self_attn.indexer.weights_proj",
    }, LANGUAGE, {"ssm_a", "ssm_dt", *streams, *pools}, prefix="model.language_model.layers.")
    state = {name: value.flatten() if "A_log" in name else value for name, value in state.items()}
    vision = {"depth": 1, "hidden_size": 8, "num_heads": 1, "intermediate_size": 8, "out_hidden_size": 8}
    return "glm5_next", {"text_config": config, "vision_config": vision}, state


FAMILIES = {
    "minimax-m3": minimax_m3,
    "bailingmoe3": bailingmoe3,
    "glm5-next": glm5_next,
    "nemotron_h_moe": nemotron_h_moe,
    "granitehybrid": granitehybrid,
    "lfm2": lfm2moe,
    "lfm2moe": lfm2moe,
    "kimi-linear": kimi_linear,
}
