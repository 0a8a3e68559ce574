"""Qwen 4 (experimental): residual streams, delta nets, attention to blocks that an indexer chooses, and hashed n-grams."""
import torch

STREAMS = {"norm": "hc_norm", "down": "input_mix_weight_down", "up": "input_mix_weight_up", "inject": "block_inject_weight"}
NGRAMS = {
    "ple_key": "key_proj",
    "ple_value": "value_proj",
    "ple_norm_key": "norm_key",
    "ple_norm_query": "norm_query",
    "ple_norm_conv": "norm_conv",
    "ple_conv1d": "conv1d",
}


def heads_in_order(value, groups, size):
    """Rows of heads of v: in files neighbours belong to different heads of k, in the model to the same one."""
    return value.reshape(-1, groups, size, *value.shape[1:]).transpose(0, 1).reshape(value.shape)


def delta_nets(file):
    """Weights of delta nets in the model's shapes and order. Files have -exp(A_log)."""
    groups, size, inner = file.key("ssm.group_count"), file.key("ssm.state_size"), file.key("ssm.inner_size")
    by_head = {"attn_gate.weight", "ssm_beta.weight", "ssm_alpha.weight", "ssm_a", "ssm_dt.bias"}
    for name, value in file.tensors.items():
        part = name.split(".", 2)[-1]
        if part == "ssm_out.weight":
            file.tensors[name] = heads_in_order(value.T, groups, size).T
        elif part in ("attn_qkv.weight", "ssm_conv1d.weight"):
            q_and_k, v = value[:-inner], value[-inner:]
            value = torch.cat((q_and_k, heads_in_order(v, groups, size)))
            file.tensors[name] = value if part == "attn_qkv.weight" else value[:, None]
        elif part in by_head:
            value = heads_in_order(value, groups, size if part == "attn_gate.weight" else 1)
            file.tensors[name] = (-value).log() if part == "ssm_a" else value


def ngrams(file):
    """What the configuration says of n-grams. The class makes primes for sizes of tables, which must be the file's."""
    layers = file.key("ple.layers", [])
    if not layers:
        return {}
    (layer,), sizes = layers, file.key("ple.head_vocab_sizes")
    table = file.tensors.pop("per_layer_token_embd.weight")
    embedding = f"blk.{layer}.ple_embedding."
    file.tensors[embedding + "ngram_embedding.weight"] = table
    for name, key in (("layer_multipliers", "layer_multipliers"), ("ngram_heads_offsets", "head_offsets"),
                      ("ngram_heads_vocab_sizes", "head_vocab_sizes")):
        file.tensors[embedding + name] = torch.tensor(file.key("ple." + key), dtype=torch.long)
    conv = f"blk.{layer}.ple_conv1d.weight"
    file.tensors[conv] = file.tensors[conv][:, None]
    return {
        "ple_layer_ids": [layer + 1],
        "ple_embed_dim": table.shape[1] * len(sizes),
        "ple_conv_kernel_size": file.key("ple.conv_kernel"),
        "ngram_size": file.key("ple.ngram_size"),
        "heads_per_ngram": file.key("ple.heads_per_ngram"),
        "ngram_vocab_size_base": sizes[0],
        "make_ngram_vocab_size_divisible_by": table.shape[0],
        "eos_token_id": file.key("ple.eos_token_id"),
    }


def qwen4exp(file):
    """Files store the weights of norms plus one, but not of those in delta nets, and split the indexer's matrix."""
    delta_nets(file)
    interval = file.key("full_attention_interval", 4)
    kinds = ["linear_attention" if (layer + 1) % interval else "full_attention" for layer in range(file.layers)]
    ratios = {ratio for ratio, kind in zip(file.per_layer("attention.compress_ratios"), kinds) if kind == "full_attention"}
    for layer, kind in enumerate(kinds):
        block = f"blk.{layer}."
        file.tensors[block + "ffn_gate_inp_shexp.weight"] = file.tensors[block + "ffn_gate_inp_shexp.weight"].reshape(1, -1)
        if kind == "full_attention":
            parts = [file.tensors.pop(f"{block}indexer.{part}_proj.weight") for part in "qk"]
            file.tensors[block + "indexer.index_qk_proj.weight"] = torch.cat(parts)
    config = file.config(
        layer_types=kinds,
        shared_expert_intermediate_size=file.key("expert_shared_feed_forward_length"),
        linear_conv_kernel_dim=file.key("ssm.conv_kernel"),
        linear_key_head_dim=file.key("ssm.state_size"),
        linear_value_head_dim=file.key("ssm.inner_size") // file.key("ssm.time_step_rank"),
        linear_num_key_heads=file.key("ssm.group_count"),
        linear_num_value_heads=file.key("ssm.time_step_rank"),
        hc_count=file.key("hyper_connection.count"),
        hc_lowrank=file.key("hyper_connection.low_rank"),
        indexer_n_heads=file.key("attention.indexer.head_count"),
        indexer_kv_heads=1,
        indexer_head_dim=file.key("attention.indexer.key_length"),
        indexer_budget=file.key("attention.indexer.top_k"),
        indexer_compress_ratio=ratios.pop(),
        output_gate_type="sigmoid",
        **ngrams(file))
    del config["intermediate_size"]
    config["rope_parameters"] |= {
        "partial_rotary_factor": file.key("rope.dimension_count") / config["head_dim"],
        "mrope_section": file.key("rope.dimension_sections")[:3],
    }
    streams = {f"hc_{part}_{name}": f"{target}_hyper_connection.{value}"
               for part, target in (("attn", "attn"), ("ffn", "mlp")) for name, value in STREAMS.items()}
    embedding = {f"ple_embedding.{part}": f"ple.ple_embedding.{part}"
                 for part in ("ngram_embedding", "layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes")}
    state = file.state(streams | embedding | {part: "ple." + target for part, target in NGRAMS.items()} | {
        "attn_qkv": "linear_attn.in_proj_qkv",
        "attn_gate": "linear_attn.in_proj_z",
        "ssm_beta": "linear_attn.in_proj_b",
        "ssm_alpha": "linear_attn.in_proj_a",
        "ssm_a": "linear_attn.A_log",
        "ssm_dt": "linear_attn.dt_bias",
        "ssm_conv1d": "linear_attn.conv1d",
        "ssm_norm": "linear_attn.norm",
        "ssm_out": "linear_attn.out_proj",
        "indexer.index_qk_proj": "self_attn.indexer.index_qk_proj",
        "indexer.q_norm": "self_attn.indexer.q_layernorm",
        "indexer.k_norm": "self_attn.indexer.k_layernorm",
        "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    } | {f"ffn_{part}_shexp": f"mlp.shared_expert.{part}_proj" for part in ("gate", "up", "down")},
        {f"output_hc_{name}": f"model.hyper_connection_mixer.{value}" for name, value in STREAMS.items()},
        {"ssm_a", "ssm_dt"})
    plus_one = ("q_norm.weight", "k_norm.weight", "hc_norm.weight", "layernorm.weight", "norm_key.weight", "norm_query.weight", "norm_conv.weight")
    return "qwen4_exp_text", config, {name: value - 1 if name.endswith(plus_one) else value for name, value in state.items()}


FAMILIES = {"qwen4exp": qwen4exp}
