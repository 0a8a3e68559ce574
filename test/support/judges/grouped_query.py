"""Grouped-query attention with norms of q and k, and experts chosen by a softmax or by sigmoids."""
import torch

# A vision tower as small as its configuration allows; text does not use it.
NO_VISION = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 1, "num_position_embeddings": 4,
             "deepstack_visual_indexes": []}
LANGUAGE = {"token_embd": "model.language_model.embed_tokens", "output_norm": "model.language_model.norm"}


def sigmoid_experts(file, **more):
    """The configuration of DeepSeek-V3's router: sigmoids, a bias for the choice, groups, a scale."""
    return file.config(
        first_k_dense_replace=file.key("leading_dense_block_count", 0),
        n_routed_experts=file.key("expert_count"),
        num_experts=file.key("expert_count"),
        n_shared_experts=file.key("expert_shared_count", 1),
        n_group=file.key("expert_group_count", 1) or 1,
        topk_group=file.key("expert_group_used_count", 1) or 1,
        norm_topk_prob=file.key("expert_weights_norm", False),
        routed_scaling_factor=file.key("expert_weights_scale", 1.0),
        **more)


def qwen3vl(file, kind="qwen3_vl"):
    """M-RoPE with one position in all sections; deepstack layers add nothing to text."""
    sections = file.key("rope.dimension_sections")[:3]
    rope = file.rope() | {"mrope_section": sections, "mrope_interleaved": True}
    text = file.config(rope_parameters=rope, norm_topk_prob=True, decoder_sparse_step=1)
    config = {"text_config": text, "vision_config": NO_VISION | {"out_hidden_size": text["hidden_size"]},
              "tie_word_embeddings": text["tie_word_embeddings"]}
    return kind, config, file.state(outside=LANGUAGE, prefix="model.language_model.layers.")


def qwen3vlmoe(file):
    return qwen3vl(file, "qwen3_vl_moe")


def bailingmoe2(file):
    """Transformers has no Ling 2; GLM-4.5 has the same graph, once q, k and v are three tensors."""
    heads, kv_heads = file.key("attention.head_count"), file.key("attention.head_count_kv")
    config = sigmoid_experts(file, use_qk_norm=True)
    config["n_shared_experts"] = file.key("expert_shared_feed_forward_length") // config["moe_intermediate_size"]
    config["rope_parameters"]["partial_rotary_factor"] = file.key("rope.dimension_count") / config["head_dim"]
    for layer in range(file.layers):
        rows = file.tensors.pop(f"blk.{layer}.attn_qkv.weight")
        parts = rows.split([count * config["head_dim"] for count in (heads, kv_heads, kv_heads)])
        for name, part in zip("qkv", parts):
            file.tensors[f"blk.{layer}.attn_{name}.weight"] = part
    return "glm4_moe", config, file.state()


def dots1(file):
    return "dots1", sigmoid_experts(file), file.state()


def hy_v3(file):
    dense = file.key("leading_dense_block_count", None)
    if dense is None:
        dense = sum(not file.has(f"blk.{layer}.ffn_gate_inp.weight") for layer in range(file.layers))
    config = file.config(
        mlp_layer_types=["dense"] * dense + ["sparse"] * (file.layers - dense),
        num_shared_experts=file.key("expert_shared_feed_forward_length") // file.key("expert_feed_forward_length"),
        router_scaling_factor=file.key("expert_weights_scale", 1.0))
    return "hy_v3", config, file.state({"exp_probs_b": "mlp.e_score_correction_bias"})


HUNYUAN = {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}


def hunyuan_moe(file):
    """q and k are normalised after RoPE; experts and the shared one have one width."""
    config = file.config(moe_topk=file.key("expert_used_count"))
    shared = {f"ffn_{part}_shexp": f"mlp.shared_mlp.{part}_proj" for part in ("gate", "up", "down")}
    return "hunyuan_v1_moe", config, file.state(HUNYUAN | shared | {"ffn_gate_inp": "mlp.gate.wg"})


def hunyuan_dense(file):
    return "hunyuan_v1_dense", file.config(), file.state(HUNYUAN)


def ernie4_5(file):
    """Neighbours form the pairs of RoPE in the model as in files."""
    return "ernie4_5", file.config(use_bias=False), file.state()


def ernie4_5_moe(file):
    shared = file.key("expert_shared_feed_forward_length", 0) // file.key("expert_feed_forward_length")
    config = file.config(
        moe_num_experts=file.key("expert_count"),
        moe_k=file.key("expert_used_count"),
        moe_num_shared_experts=shared,
        moe_layer_start_index=file.key("leading_dense_block_count", 0),
        moe_layer_interval=file.key("interleave_moe_layer_step"))
    config = {name: value for name, value in config.items() if name not in ("num_experts", "num_experts_per_tok")}
    state = file.state({"exp_probs_b": "mlp.gate.moe_statics.e_score_correction_bias"})
    return "ernie4_5_moe", config, {name: value[None] if "moe_statics" in name else value for name, value in state.items()}


def olmoe(file):
    """One norm over all heads of q and of k; weights of experts are not normalised."""
    return "olmoe", file.config(norm_topk_prob=False), file.state()


def llada_moe(file):
    """Transformers has no LLaDA; Qwen3 MoE has the same graph, once it does not normalise weights. Read as a causal model."""
    return "qwen3_moe", file.config(norm_topk_prob=False, decoder_sparse_step=1), file.state()


def grovemoe(file):
    """Transformers has no Grove MoE; Qwen3 MoE has the same graph once each expert is joined to the small one of its group.

    A token's weight of an expert is also that of its small expert, whose output counts by a scale (arXiv 2508.07785 and
    the model's code): the two are one expert as wide as both, and the scale goes into its down projection."""
    group, scale = file.key("experts_per_group"), file.key("expert_group_scale")
    for layer in range(file.layers):
        for part, axis in (("gate", 1), ("up", 1), ("down", 2)):
            small = file.tensors.pop(f"blk.{layer}.ffn_{part}_chexps.weight").repeat_interleave(group, 0)
            name = f"blk.{layer}.ffn_{part}_exps.weight"
            file.tensors[name] = torch.cat((file.tensors[name], small * (scale if part == "down" else 1)), axis)
    width = file.key("expert_feed_forward_length") + file.key("expert_chunk_feed_forward_length")
    config = file.config(norm_topk_prob=True, decoder_sparse_step=1, moe_intermediate_size=width)
    return "qwen3_moe", config, file.state()


def smollm3(file):
    """Every fourth layer has no RoPE; files do not say so."""
    return "smollm3", file.config(no_rope_layer_interval=4, use_sliding_window=False), file.state(rope_pairs=True)


FAMILIES = {
    "smollm3": smollm3,
    "llada-moe": llada_moe,
    "grovemoe": grovemoe,
    "qwen3vl": qwen3vl,
    "qwen3vlmoe": qwen3vlmoe,
    "bailingmoe2": bailingmoe2,
    "dots1": dots1,
    "hy_v3": hy_v3,
    "hunyuan-moe": hunyuan_moe,
    "hunyuan-dense": hunyuan_dense,
    "ernie4_5": ernie4_5,
    "ernie4_5-moe": ernie4_5_moe,
    "olmoe": olmoe,
}
