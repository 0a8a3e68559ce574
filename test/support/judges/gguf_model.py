"""Common to all judges: a GGUF file's keys, and its tensors under the names of transformers' models."""
import copy
import re

import numpy as np
import torch

from gguf_file import GgufFile

# What follows "blk.N." in files, and what follows "model.layers.N." in most models of transformers.
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "exp_probs_b": "mlp.gate.e_score_correction_bias",
    "ffn_gate_up_exps": "mlp.experts.gate_up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
}
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
PER_LAYER = ("attention.head_count", "attention.head_count_kv", "feed_forward_length")
# Tensors whose names in models stand without ".weight" or ".bias".
BARE = {"exp_probs_b", "ffn_gate_up_exps", "ffn_down_exps"}


def values_of(tensor):
    if tensor.format == "F32":
        return np.frombuffer(bytes(tensor.data), np.float32).reshape(tensor.shape[::-1])
    if tensor.format == "I32":
        return np.frombuffer(bytes(tensor.data), np.int32).reshape(tensor.shape[::-1])
    import requantise
    return requantise.values_of(tensor)


def halves(weight, heads):
    """Rows of q or k whose neighbours form the pairs of RoPE, as models have them that pair the halves of a head."""
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


class GgufModel:
    """Keys without the architecture's prefix, and float64 tensors with rows as the first dimension."""

    def __init__(self, path):
        file = GgufFile.read(path)
        self.arch = file.keys["general.architecture"][1]
        self.keys = {name.removeprefix(self.arch + "."): value for name, (_, value) in file.keys.items()}
        self.tensors = {name: torch.from_numpy(values_of(tensor).astype(np.float64)) for name, tensor in file.tensors.items()}
        self.layers = self.keys["block_count"] - self.keys.get("nextn_predict_layers", 0)
        for name in [name for name, tensor in file.tensors.items() if tensor.format == "NVFP4"]:
            # Scales of weights are tensors of their own: for a matrix, or for each matrix of a stack.
            scale = self.tensors.pop(name.removesuffix("weight") + "scale")
            self.tensors[name] *= scale.reshape(-1, *[1] * (self.tensors[name].dim() - 1)) if scale.numel() > 1 else scale

    def key(self, name, *default):
        """The value of a key; a key that is absent and has no default is an error. Arrays come as lists."""
        value = self.keys.get(name, *default) if default else self.keys[name]
        return value[1] if isinstance(value, tuple) else value

    def per_layer(self, name, *default):
        """A number of each layer, where files have one number or an array."""
        value = self.key(name, *default)
        return list(value)[:self.layers] if isinstance(value, (list, tuple)) else [value] * self.layers

    def has(self, name):
        return name in self.tensors

    def rope(self):
        """rope_parameters of a model: base, and linear scaling or YaRN."""
        rope = {"rope_type": "default", "rope_theta": self.key("rope.freq_base", 10000.0)}
        if self.key("rope.scaling.type", "none") == "linear":
            rope |= {"rope_type": "linear", "factor": self.key("rope.scaling.factor")}
        if self.key("rope.scaling.type", "none") == "yarn":
            rope |= {
                "rope_type": "yarn",
                "factor": self.key("rope.scaling.factor"),
                "original_max_position_embeddings": self.key("rope.scaling.original_context_length"),
                "beta_fast": self.key("rope.scaling.yarn_beta_fast", 32.0),
                "beta_slow": self.key("rope.scaling.yarn_beta_slow", 1.0),
            }
        return rope

    def config(self, **more):
        """What nearly every configuration of transformers has."""
        heads, d = self.key("attention.head_count"), self.key("embedding_length")
        width = self.key("feed_forward_length", 0)
        common = {
            "vocab_size": len(self.key("tokenizer.ggml.tokens")),
            "hidden_size": d,
            "num_hidden_layers": self.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": self.key("attention.head_count_kv", heads),
            "head_dim": self.key("attention.key_length", None) or d // heads,
            "intermediate_size": width,
            "max_position_embeddings": self.key("context_length"),
            "rms_norm_eps": self.key("attention.layer_norm_rms_epsilon", 0.0),
            "rope_parameters": self.rope(),
            "tie_word_embeddings": not self.has("output.weight"),
            "hidden_act": "silu",
            "pad_token_id": None,
            "bos_token_id": None,
            "eos_token_id": None,
        }
        if self.key("expert_count", 0):
            common["num_experts"] = self.key("expert_count")
            common["num_experts_per_tok"] = self.key("expert_used_count")
            common["moe_intermediate_size"] = self.key("expert_feed_forward_length", width)
        return common | more

    def draft(self):
        """The layer for multi-token prediction as a model of one layer, whose input is not that of tokens."""
        result, own = copy.copy(self), f"blk.{self.layers}."
        result.tensors = {name: value for name, value in self.tensors.items() if not name.startswith("blk.")}
        result.tensors |= {name.replace(own, "blk.0.", 1): value for name, value in self.tensors.items() if name.startswith(own)}
        for inner, outer in (("embed_tokens", "token_embd"), ("shared_head_norm", "output_norm"), ("shared_head_head", "output")):
            name = f"blk.0.nextn.{inner}.weight"
            if result.has(name):
                result.tensors[outer + ".weight"] = result.tensors[name]
        # The FFN of the layer is that of later layers, and its attention sees all tokens.
        result.keys = self.keys | {"block_count": 1, "leading_dense_block_count": 0, "full_attention_interval": 1,
                                   "attention.indexer.types": [True]}
        for name, (_, values) in [(name, value) for name, value in self.keys.items() if isinstance(value, tuple)]:
            if name in PER_LAYER:
                result.keys[name] = values[self.layers]
        result.layers = 1
        return result

    def state(self, layer=(), outside=(), bare=(), rope_pairs=False, prefix="model.layers."):
        """All tensors but those of next-token layers, under a model's names: the two tables with changes.

        rope_pairs: rows of q and k are permuted, as those of Llama are."""
        layer, outside, bare = LAYER | dict(layer), OUTSIDE | dict(outside), BARE | set(bare)
        heads = self.per_layer("attention.head_count")
        kv_heads = self.per_layer("attention.head_count_kv", 0)
        tensors, result = dict(self.tensors), {}
        for at in range(self.layers):
            gate, up = (f"blk.{at}.ffn_{part}_exps.weight" for part in ("gate", "up"))
            if gate in tensors:
                tensors[f"blk.{at}.ffn_gate_up_exps.weight"] = torch.cat((tensors.pop(gate), tensors.pop(up)), 1)
        for name, value in tensors.items():
            found = re.fullmatch(r"blk\.(\d+)\.([\w.]+?)(?:\.(weight|bias))?", name)
            if found:
                at, part, kind = int(found[1]), found[2], found[3]
                if at >= self.layers or part.startswith("nextn."):
                    continue
                if rope_pairs and part in ("attn_q", "attn_k"):
                    value = halves(value, (heads if part == "attn_q" else kv_heads)[at])
                target = f"{prefix}{at}.{layer[part]}"
            else:
                part, _, kind = name.rpartition(".")
                target = outside[part]
            result[target if part in bare or not kind else f"{target}.{kind}"] = value
        if not self.has("output.weight"):
            result[outside["output"] + ".weight"] = self.tensors["token_embd.weight"]
        return result
