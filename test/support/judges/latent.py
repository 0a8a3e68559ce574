"""DeepSeek V2 to V4 and GLM-5: latent attention, an indexer that chooses what it sees, compressed caches."""
import torch

from .grouped_query import sigmoid_experts
from .scaled import latent


def config_of(file, **more):
    rope = file.key("rope.dimension_count")
    key = file.key("attention.key_length_mla", None) or file.key("attention.key_length")
    config = sigmoid_experts(
        file,
        num_key_value_heads=file.key("attention.head_count"),
        q_lora_rank=file.key("attention.q_lora_rank", None),
        kv_lora_rank=file.key("attention.kv_lora_rank"),
        qk_rope_head_dim=rope,
        qk_nope_head_dim=key - rope,
        v_head_dim=file.key("attention.value_length_mla", None) or file.key("attention.value_length"),
        **more)
    config["head_dim"] = rope
    if config["rope_parameters"]["rope_type"] == "yarn":
        # Files have a tenth of mscale_all_dim; both being equal, cosines and sines have no magnitude.
        scale = file.key("rope.scaling.yarn_log_multiplier", 0.0) * 10
        config["rope_parameters"] |= {"mscale": scale, "mscale_all_dim": scale}
    config["n_shared_experts"] = file.key("expert_shared_count", 0) or 0
    return config


def deepseek2(file):
    """V3's router is one of sigmoids, V2's a softmax, whose groups are known by their best expert."""
    groups = file.key("expert_group_count", 1) or 1
    config, state = config_of(file), file.state(latent(file))
    if file.key("expert_gating_func", 1) == 2:
        return "deepseek_v3", config | {"rope_interleave": True}, state
    config["topk_method"] = "group_limited_greedy" if groups > 1 else "greedy"
    return "deepseek_v2", config, state


def indexed(file):
    names = {
        "indexer.attn_q_b": "self_attn.indexer.wq_b",
        "indexer.attn_k": "self_attn.indexer.wk",
        "indexer.k_norm": "self_attn.indexer.k_norm",
        "indexer.proj": "self_attn.indexer.weights_proj",
    }
    config = config_of(
        file,
        index_topk=file.key("attention.indexer.top_k"),
        index_head_dim=file.key("attention.indexer.key_length"),
        index_n_heads=file.key("attention.indexer.head_count"))
    return config, file.state(latent(file) | names)


def deepseek32(file):
    return "deepseek_v32", *indexed(file)


def glm_dsa(file):
    """A layer without an indexer takes the choice of the last one that has one."""
    config, state = indexed(file)
    types = file.key("attention.indexer.types", None) or \
        [file.has(f"blk.{layer}.indexer.proj.weight") for layer in range(file.layers)]
    config["indexer_types"] = ["full" if own else "shared" for own in list(types)[:file.layers]]
    return "glm_moe_dsa", config, state


COMPRESSED = {
    "attn_sinks": "self_attn.sinks",
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_norm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv": "self_attn.kv_proj",
    "attn_kv_a_norm": "self_attn.kv_norm",
    "attn_output_a": "self_attn.o_a_proj",
    "attn_output_b": "self_attn.o_b_proj",
    "ffn_gate_tid2eid": "mlp.gate.tid2eid",
    "indexer.attn_q_b": "self_attn.compressor.indexer.q_b_proj",
    "indexer.proj": "self_attn.compressor.indexer.scorer.weights_proj",
} | {f"{prefix}_compressor_{part}": f"self_attn.compressor.{inner}{name}"
     for prefix, inner in (("attn", ""), ("indexer", "indexer."))
     for part, name in (("ape", "position_bias"), ("kv", "kv_proj"), ("gate", "gate_proj"), ("norm", "kv_norm"))
} | {f"hc_{block}_{part}": f"{block}_hc.{part}" for block in ("attn", "ffn") for part in ("fn", "base", "scale")}
ATTENTION = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def deepseek4(file):
    """YaRN belongs to layers with compressed entries, and has no magnitude."""
    part = file.key("rope.dimension_count") / file.key("attention.key_length")
    clamps = set(file.key("swiglu_clamp_exp") + file.key("swiglu_clamp_shexp"))
    assert len(clamps) == 1, "the model has one clamp for all FFNs"
    hashed = file.key("hash_layer_count")
    compressed = file.rope() | {"rope_theta": file.key("attention.compress_rope_freq_base"), "partial_rotary_factor": part}
    if compressed["rope_type"] == "yarn":
        compressed["attention_factor"] = 1.0
    plain = {"rope_type": "default", "rope_theta": file.key("rope.freq_base"), "partial_rotary_factor": part}
    config = sigmoid_experts(
        file,
        rope_parameters={"main": plain, "compress": compressed},
        partial_rotary_factor=part,
        layer_types=[ATTENTION[ratio] for ratio in file.per_layer("attention.compress_ratios")],
        mlp_layer_types=["hash_moe"] * hashed + ["moe"] * (file.layers - hashed),
        q_lora_rank=file.key("attention.q_lora_rank"),
        sliding_window=file.key("attention.sliding_window"),
        compress_rope_theta=file.key("attention.compress_rope_freq_base"),
        o_groups=file.key("attention.output_group_count"),
        o_lora_rank=file.key("attention.output_lora_rank"),
        hc_mult=file.key("hyper_connection.count"),
        hc_sinkhorn_iters=file.key("hyper_connection.sinkhorn_iterations"),
        hc_eps=file.key("hyper_connection.epsilon"),
        swiglu_limit=clamps.pop(),
        index_topk=file.key("attention.indexer.top_k"),
        index_head_dim=file.key("attention.indexer.key_length"),
        index_n_heads=file.key("attention.indexer.head_count"))
    del config["intermediate_size"], config["num_experts"]
    for layer in range(hashed):
        name = f"blk.{layer}.ffn_gate_tid2eid.weight"
        file.tensors[name] = file.tensors[name].long()
    bare = {name for name, target in COMPRESSED.items() if target.endswith(("sinks", "bias", "tid2eid", ".fn", ".base", ".scale"))}
    heads = {f"output_hc_{part}": f"model.hc_head.hc_{part}" for part in ("fn", "base", "scale")}
    return "deepseek_v4", config, file.state(COMPRESSED, heads, bare | set(heads))


FAMILIES = {"deepseek4": deepseek4, "deepseek2": deepseek2, "deepseek32": deepseek32, "glm-dsa": glm_dsa}
