"""Older models: LayerNorm, FFNs without gates, fused projections, learned positions."""
import torch

BLOCK = "transformer.h."


def deepseek(file):
    """Transformers has no DeepSeekMoE; ERNIE 4.5 has the same graph if its sums of weights are divided by one at least.

    ERNIE pairs neighbours in RoPE, as files do."""
    config = file.config(
        moe_num_experts=file.key("expert_count"),
        moe_k=file.key("expert_used_count"),
        moe_num_shared_experts=file.key("expert_shared_count"),
        moe_layer_start_index=file.key("leading_dense_block_count", 0),
        moe_layer_interval=1,
        moe_norm_min=1.0)
    config = {name: value for name, value in config.items() if name not in ("num_experts", "num_experts_per_tok")}
    assert file.key("expert_weights_scale", 1.0) == 1
    state = file.state()
    for layer in range(config["moe_layer_start_index"], file.layers):
        name = f"model.layers.{layer}.mlp.gate.moe_statics.e_score_correction_bias"
        state[name] = torch.zeros(1, config["moe_num_experts"])
    return "ernie4_5_moe", config, state


def dbrx(file):
    """The norms' epsilon is 1e-5, whatever a file says."""
    for layer in range(file.layers):
        block = f"blk.{layer}.ffn_"
        file.tensors[block + "down_exps.weight"] = file.tensors[block + "down_exps.weight"].transpose(1, 2)
        gate, up, down = (file.tensors.pop(f"{block}{part}_exps.weight").flatten(0, 1) for part in ("gate", "up", "down"))
        file.tensors |= {f"{block}w1": gate, f"{block}v1": up, f"{block}w2": down}
    common = file.config()
    config = {
        "vocab_size": common["vocab_size"], "d_model": common["hidden_size"], "n_heads": common["num_attention_heads"],
        "n_layers": common["num_hidden_layers"], "max_seq_len": common["max_position_embeddings"],
        "rope_parameters": common["rope_parameters"], "tie_word_embeddings": False,
        "attn_config": {"clip_qkv": file.key("attention.clamp_kqv"), "kv_n_heads": common["num_key_value_heads"],
                        "rope_theta": file.key("rope.freq_base")},
        "ffn_config": {"hidden_size": common["hidden_size"], "ffn_hidden_size": common["intermediate_size"],
                       "moe_num_experts": common["num_experts"], "moe_top_k": common["num_experts_per_tok"]},
    }
    state = file.state({
        "attn_norm": "norm_attn_norm.norm_1",
        "attn_output_norm": "norm_attn_norm.norm_2",
        "attn_qkv": "norm_attn_norm.attn.Wqkv",
        "attn_output": "norm_attn_norm.attn.out_proj",
        "ffn_gate_inp": "ffn.router.layer",
        "ffn_w1": "ffn.experts.mlp.w1",
        "ffn_v1": "ffn.experts.mlp.v1",
        "ffn_w2": "ffn.experts.mlp.w2",
    }, {"token_embd": "transformer.wte", "output_norm": "transformer.norm_f"}, prefix="transformer.blocks.")
    return "dbrx", config, state


def starcoder2(file):
    config = file.config(
        norm_epsilon=file.key("attention.layer_norm_epsilon"), hidden_act="gelu_pytorch_tanh", use_bias=True, sliding_window=None)
    return "starcoder2", config, file.state({"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"})


def falcon(file):
    """Rows of q, k and v stand together for each head of k and v in the model. attn_norm is the FFN's norm if there are two."""
    heads, kv_heads = file.key("attention.head_count"), file.key("attention.head_count_kv")
    both = file.has("blk.0.attn_norm_2.weight")
    size = file.key("embedding_length") // heads
    for layer in range(file.layers):
        name = f"blk.{layer}.attn_qkv.weight"
        q, k, v = file.tensors[name].split([heads * size, kv_heads * size, kv_heads * size])
        q = q.reshape(kv_heads, -1, size, q.shape[-1])
        k, v = (part.reshape(kv_heads, 1, size, part.shape[-1]) for part in (k, v))
        file.tensors[name] = torch.cat((q, k, v), 1).reshape(-1, q.shape[-1])
    config = file.config(
        ffn_hidden_size=file.key("feed_forward_length"),
        layer_norm_epsilon=file.key("attention.layer_norm_epsilon"),
        multi_query=kv_heads == 1,
        num_kv_heads=kv_heads,
        new_decoder_architecture=both,
        parallel_attn=True,
        bias=False,
        alibi=False)
    del config["head_dim"], config["num_key_value_heads"]
    return "falcon", config, file.state({
        "attn_norm": "ln_mlp" if both else "input_layernorm",
        "attn_norm_2": "ln_attn",
        "attn_qkv": "self_attention.query_key_value",
        "attn_output": "self_attention.dense",
        "ffn_up": "mlp.dense_h_to_4h",
        "ffn_down": "mlp.dense_4h_to_h",
    }, {"token_embd": "transformer.word_embeddings", "output_norm": "transformer.ln_f"}, prefix=BLOCK)


def gpt2(file):
    """The model's matrices have their inputs as rows."""
    config = {
        "vocab_size": len(file.key("tokenizer.ggml.tokens")), "n_positions": file.key("context_length"),
        "n_embd": file.key("embedding_length"), "n_layer": file.layers, "n_head": file.key("attention.head_count"),
        "n_inner": file.key("feed_forward_length"), "layer_norm_epsilon": file.key("attention.layer_norm_epsilon"),
        "bos_token_id": None, "eos_token_id": None,
    }
    state = file.state({
        "attn_norm": "ln_1",
        "attn_qkv": "attn.c_attn",
        "attn_output": "attn.c_proj",
        "ffn_norm": "ln_2",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj",
    }, {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f"}, prefix=BLOCK)
    return "gpt2", config, {name: value.T if ".c_" in name and value.dim() == 2 else value for name, value in state.items()}


FAMILIES = {
    "deepseek": deepseek,
    "dbrx": dbrx,
    "starcoder2": starcoder2,
    "falcon": falcon,
    "gpt2": gpt2,
}
