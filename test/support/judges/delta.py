"""Qwen3-Next and Qwen3.5: gated delta nets, and attention whose queries carry a gate."""
import torch

from .classic import GATED
from .qwen4 import delta_nets

NETS = {
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_in": "linear_attn.in_proj_qkvz",
    "ssm_ba": "linear_attn.in_proj_ba",
    "ssm_a": "linear_attn.A_log",
    "ssm_dt": "linear_attn.dt_bias",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
    "post_attention_norm": "post_attention_layernorm",
}


def config_of(file):
    interval = file.key("full_attention_interval", 4)
    config = file.config(
        layer_types=["linear_attention" if (layer + 1) % interval else "full_attention" for layer in range(file.layers)],
        linear_conv_kernel_dim=file.key("ssm.conv_kernel"),
        linear_key_head_dim=file.key("ssm.state_size"),
        linear_value_head_dim=file.key("ssm.inner_size") // file.key("ssm.time_step_rank"),
        linear_num_key_heads=file.key("ssm.group_count"),
        linear_num_value_heads=file.key("ssm.time_step_rank"))
    config["rope_parameters"]["partial_rotary_factor"] = file.key("rope.dimension_count") / config["head_dim"]
    if file.key("expert_count", 0):
        config |= {"norm_topk_prob": True, "mlp_only_layers": [], "decoder_sparse_step": 1,
                   "shared_expert_intermediate_size": file.tensors["blk.0.ffn_gate_shexp.weight"].shape[0]}
        for layer in range(file.layers):
            name = f"blk.{layer}.ffn_gate_inp_shexp.weight"
            file.tensors[name] = file.tensors[name].reshape(1, -1)
    return config


def state_of(file):
    """Files store the weights of norms plus one, but not of those in delta nets."""
    state = file.state(NETS | GATED, bare={"ssm_a", "ssm_dt"})
    return {name: value - 1 if name.endswith("norm.weight") and "linear_attn" not in name else value for name, value in state.items()}


def by_key_head(file, layer):
    """Rows of q, k, v and z together for each head of k, as in the model and in old files."""
    groups, block = file.key("ssm.group_count"), f"blk.{layer}."
    size, inner = file.key("ssm.state_size"), file.key("ssm.inner_size")
    qkv, z = file.tensors.pop(block + "attn_qkv.weight"), file.tensors.pop(block + "attn_gate.weight")
    parts = [*qkv.split([groups * size, groups * size, inner]), z]
    return torch.cat([part.reshape(groups, -1, part.shape[-1]) for part in parts], 1).flatten(0, 1)


def qwen3next(file):
    for layer in range(file.layers):
        block = f"blk.{layer}."
        if file.has(block + "attn_qkv.weight"):
            file.tensors[block + "ssm_in.weight"] = by_key_head(file, layer)
        if file.has(block + "ssm_a"):
            file.tensors[block + "ssm_a"] = (-file.tensors[block + "ssm_a"]).log()
            file.tensors[block + "ssm_conv1d.weight"] = file.tensors[block + "ssm_conv1d.weight"][:, None]
    return "qwen3_next", config_of(file), state_of(file)


def qwen35(file, kind="qwen3_5_text"):
    """M-RoPE with one position in all sections."""
    delta_nets(file)
    config = config_of(file)
    config["rope_parameters"] |= {"mrope_section": file.key("rope.dimension_sections")[:3], "mrope_interleaved": True}
    return kind, config, state_of(file)


def qwen35moe(file):
    return qwen35(file, "qwen3_5_moe_text")


FAMILIES = {"qwen3next": qwen3next, "qwen35": qwen35, "qwen35moe": qwen35moe}
