#!/usr/bin/env python3
"""Cuts a part out of a trained deepseek2 model: rows and columns are left out, all other bytes stay as they are.

  cut_model.py IN.gguf OUT.gguf IDS.txt OUT-IDS.txt [--layers 1,2] [--experts 8 --used 4] [--heads N] [--q-lora N]
               [--kv-lora N] [--ffn N] [--expert-ffn N]

Layers are numbered anew. Of the vocabulary the tokens in IDS.txt are left (and the first two, which are special),
numbered anew in their order; OUT-IDS.txt is IDS.txt in the new numbers. Columns can only be cut where a block of the
tensor's format ends. How the models of test/data/golden were made from the full-size tiny-kjv files, which are too
large to ship in every format: trained weights in the format of the name, as another engine's quantiser wrote them.
Standard library only.
"""
import argparse
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from gguf_file import FORMATS, GgufFile, Tensor


def cut(tensor, rows, columns):
    """The rows with these numbers in every matrix of the tensor, and their first columns."""
    _, elements, size = FORMATS[tensor.format]
    width, height = tensor.shape[0], (tensor.shape[1:] or [1])[0]
    assert columns % elements == 0, f"{columns} columns end within a block of {tensor.format}"
    row_bytes, kept = width // elements * size, columns // elements * size
    out = bytearray()
    for matrix in range(math.prod(tensor.shape[2:])):
        for row in rows:
            begin = (matrix * height + row) * row_bytes
            out += tensor.data[begin:begin + kept]
    shape = [columns, len(rows), *tensor.shape[2:]] if len(tensor.shape) > 1 else [columns]
    return Tensor(tensor.format, shape, out)


def first(tensor, count):
    """The first of a stack of experts, or of a router's rows or biases."""
    shape = tensor.shape[:-1] + [count]
    return Tensor(tensor.format, shape, tensor.data[:len(tensor.data) // tensor.shape[-1] * count])


def tokenizer(model, tokens):
    """Leaves these tokens, and the merges of which nothing is lost."""
    key = "tokenizer.ggml."
    kind, (inner, texts) = model.keys[key + "tokens"]
    texts = [texts[token] for token in tokens]
    model.keys[key + "tokens"] = kind, (inner, texts)
    kind, (inner, types) = model.keys[key + "token_type"]
    model.keys[key + "token_type"] = kind, (inner, [types[token] for token in tokens])
    kind, (inner, merges) = model.keys[key + "merges"]
    known = set(texts)
    model.keys[key + "merges"] = kind, (inner, [merge for merge in merges
                                                if known.issuperset([*merge.split(), merge.replace(" ", "")])])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source")
    p.add_argument("out")
    p.add_argument("ids")
    p.add_argument("out_ids")
    p.add_argument("--layers", default="0,1")
    for name in ("experts", "used", "heads", "q-lora", "kv-lora", "ffn", "expert-ffn"):
        p.add_argument("--" + name, type=int)
    a = p.parse_args()
    model = GgufFile.read(a.source)
    layers = [int(layer) for layer in a.layers.split(",")]
    with open(a.ids) as file:
        ids = [int(token) for token in file.read().split(",")]
    tokens = sorted({0, 1, *ids})

    def size(option, key):
        """What is left of a size of the model, and the size before."""
        kind, old = model.keys["deepseek2." + key]
        model.keys["deepseek2." + key] = kind, option or old
        return option or old

    old_kv_lora = model.keys["deepseek2.attention.kv_lora_rank"][1]
    rope = model.keys["deepseek2.rope.dimension_count"][1]
    key_width, value_width = (model.keys[f"deepseek2.attention.{name}_length"][1] for name in ("key", "value"))
    experts, ffn = size(a.experts, "expert_count"), size(a.ffn, "feed_forward_length")
    heads, q_lora = size(a.heads, "attention.head_count"), size(a.q_lora, "attention.q_lora_rank")
    size(a.heads, "attention.head_count_kv")
    size(a.used, "expert_used_count")
    kv_lora, expert_ffn = size(a.kv_lora, "attention.kv_lora_rank"), size(a.expert_ffn, "expert_feed_forward_length")
    dense = model.keys["deepseek2.leading_dense_block_count"]
    model.keys["deepseek2.leading_dense_block_count"] = dense[0], sum(layer < dense[1] for layer in layers)
    model.keys["deepseek2.block_count"] = model.keys["deepseek2.block_count"][0], len(layers)
    model.keys["deepseek2.vocab_size"] = model.keys["deepseek2.vocab_size"][0], len(tokens)
    tokenizer(model, tokens)

    hidden = model.keys["deepseek2.embedding_length"][1]
    # Rows and columns that are left, by the end of a tensor's name.
    parts = {
        "token_embd": (tokens, hidden), "output": (tokens, hidden),
        "attn_q_a": (range(q_lora), hidden), "attn_q_a_norm": ([0], q_lora),
        "attn_q_b": (range(heads * key_width), q_lora),
        "attn_kv_a_mqa": ([*range(kv_lora), *range(old_kv_lora, old_kv_lora + rope)], hidden),
        "attn_kv_a_norm": ([0], kv_lora),
        "attn_kv_b": (range(heads * (key_width - rope + value_width)), kv_lora),
        "attn_output": (range(hidden), heads * value_width),
        "ffn_gate": (range(ffn), hidden), "ffn_up": (range(ffn), hidden), "ffn_down": (range(hidden), ffn),
    }
    for kind in ("_exps", "_shexp"):
        parts |= {"ffn_gate" + kind: (range(expert_ffn), hidden), "ffn_up" + kind: (range(expert_ffn), hidden),
                  "ffn_down" + kind: (range(hidden), expert_ffn)}
    tensors, model.tensors = model.tensors, {}
    for name, tensor in tensors.items():
        block = re.match(r"blk\.(\d+)\.", name)
        if block:
            if int(block[1]) not in layers:
                continue
            name = f"blk.{layers.index(int(block[1]))}.{name[block.end():]}"
        part = name.split(".")[-2]
        if part.endswith("_exps") or part in ("ffn_gate_inp", "exp_probs_b"):
            tensor = first(tensor, experts)
        if part in parts:
            tensor = cut(tensor, *parts[part])
        model.tensors[name] = tensor
    model.write(a.out)
    with open(a.out_ids, "w") as file:
        file.write(",".join(str(tokens.index(token)) for token in ids) + "\n")


main()
