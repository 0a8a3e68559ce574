#!/usr/bin/env python3
"""Gemma 2 and 3 in float64, as arXiv 2408.00118 and 2503.19786 define them, and Llama without experts (arXiv 2307.09288).
Also makes small random models of Gemma 2 and 3.

  dense_reference.py make gemma2|gemma3 OUT.gguf
  dense_reference.py logits MODEL.gguf ID,ID,... OUT.npy [--greedy N]

make draws a model from a fixed seed: widths that are not multiples of 32, a head size other than hidden size / heads, a
window shorter than the prompt, softcaps that have an effect, norms far from 1. logits saves [tokens, vocab] of any file
of these architectures and prints the continuation in the form of test/data/unit/*.txt. Nothing is cached. Needs numpy;
files with tensors other than F32 need the PyPI package gguf.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf_file import ARRAY, BOOL, FLOAT32, INT32, STRING, UINT32, GgufFile, Tensor

HIDDEN, INNER, VOCAB = 40, 56, 331
SIZES = {
    # seed, layers, heads, KV heads, elements of a head
    "gemma2": (21, 4, 6, 2, 16),
    "gemma3": (20, 8, 5, 1, 24),
}


def make(arch):
    seed, layers, heads, kv_heads, size = SIZES[arch]
    rng = np.random.default_rng(seed)
    model = GgufFile()
    model.keys["general.architecture"] = STRING, arch
    model.keys["general.name"] = STRING, f"unit {arch} (random weights)"
    keys = {
        "context_length": (UINT32, 4096), "embedding_length": (UINT32, HIDDEN), "block_count": (UINT32, layers),
        "feed_forward_length": (UINT32, INNER), "attention.head_count": (UINT32, heads),
        "attention.head_count_kv": (UINT32, kv_heads), "attention.key_length": (UINT32, size),
        "attention.value_length": (UINT32, size), "attention.layer_norm_rms_epsilon": (FLOAT32, 2.0**-8),
        "attention.sliding_window": (UINT32, 5),
    }
    if arch == "gemma2":
        keys["attn_logit_softcapping"] = FLOAT32, 2.0
        keys["final_logit_softcapping"] = FLOAT32, 4.0
    else:
        keys["rope.freq_base"] = FLOAT32, 500.0
        keys["rope.scaling.type"] = STRING, "linear"
        keys["rope.scaling.factor"] = FLOAT32, 8.0
    for name, value in keys.items():
        model.keys[f"{arch}.{name}"] = value
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += ["\u2581"] + [chr(ord("a") + i) for i in range(26)] + [a + b for a in "\u2581hsrd" for b in "aeiounth"]
    pieces += ["\u2581the", "\u2581and", "er", "in"]
    assert len(pieces) == VOCAB and len(set(pieces)) == VOCAB, len(pieces)
    model.keys["tokenizer.ggml.model"] = STRING, "llama"
    model.keys["tokenizer.ggml.pre"] = STRING, "default"
    model.keys["tokenizer.ggml.tokens"] = ARRAY, (STRING, pieces)
    model.keys["tokenizer.ggml.scores"] = ARRAY, (FLOAT32, [-1000.0] * 260 + [-float(i) for i in range(VOCAB - 260)])
    model.keys["tokenizer.ggml.token_type"] = ARRAY, (INT32, [3, 3, 3, 2] + [6] * 256 + [1] * (VOCAB - 260))
    for name, token in (("bos", 2), ("eos", 1), ("unknown", 3), ("padding", 0)):
        model.keys[f"tokenizer.ggml.{name}_token_id"] = UINT32, token
    model.keys["tokenizer.ggml.add_bos_token"] = BOOL, True
    model.keys["tokenizer.ggml.add_space_prefix"] = BOOL, False

    def add(name, *shape, spread=1.0, mean=0.0):
        values = rng.normal(mean, spread, shape).astype(np.float32)
        model.tensors[name + ".weight"] = Tensor("F32", shape[::-1], values.tobytes())

    add("token_embd", VOCAB, HIDDEN, spread=0.15)
    for layer in range(layers):
        block = f"blk.{layer}."
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            add(block + name, HIDDEN, spread=0.4, mean=1.4 if name.startswith("post") else 1.0)
        if arch == "gemma3":
            for name in ("attn_q_norm", "attn_k_norm"):
                add(block + name, size, spread=0.3, mean=1.2)
        add(block + "attn_q", heads * size, HIDDEN, spread=1.5 * HIDDEN**-0.5)
        add(block + "attn_k", kv_heads * size, HIDDEN, spread=1.5 * HIDDEN**-0.5)
        add(block + "attn_v", kv_heads * size, HIDDEN, spread=HIDDEN**-0.5)
        add(block + "attn_output", HIDDEN, heads * size, spread=(heads * size)**-0.5)
        for name in ("ffn_gate", "ffn_up"):
            add(block + name, INNER, HIDDEN, spread=1.2 * HIDDEN**-0.5)
        add(block + "ffn_down", HIDDEN, INNER, spread=INNER**-0.5)
    add("output_norm", HIDDEN, spread=0.3, mean=1.0)
    return model


def values_of(tensor):
    if tensor.format == "F32":
        return np.frombuffer(bytes(tensor.data), np.float32).reshape(tensor.shape[::-1])
    import requantise
    return requantise.values_of(tensor)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


def capped(x, cap):
    return cap * np.tanh(x / cap) if cap else x


class Reference:
    def __init__(self, model):
        self.arch = model.keys["general.architecture"][1]
        self.keys = {name.removeprefix(self.arch + "."): value for name, (_, value) in model.keys.items()}
        self.tensors, self.weights = model.tensors, {}
        self.layers = self.keys["block_count"]
        self.eps = self.keys["attention.layer_norm_rms_epsilon"]

    def w(self, name):
        if name not in self.weights:
            self.weights[name] = values_of(self.tensors[name + ".weight"]).astype(np.float64)
        return self.weights[name]

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w(name)

    def windowed(self, layer):
        return {"gemma2": layer % 2 == 0, "gemma3": layer % 6 != 5}.get(self.arch, False)

    def rotate(self, x, layer):
        """Rotates x [tokens, heads, size]: elements i and i + size / 2 form a pair; in files of Llama, neighbours do."""
        base, factor = self.keys.get("rope.freq_base", 1e4), 1
        if self.arch == "gemma3":
            if self.windowed(layer):
                base = 1e4
            elif self.keys.get("rope.scaling.type") == "linear":
                factor = self.keys["rope.scaling.factor"]
        half = x.shape[-1] // 2
        angles = np.arange(len(x))[:, None] / factor * base**(-np.arange(half) / half)
        first, second = (x[..., 0::2], x[..., 1::2]) if self.arch == "llama" else (x[..., :half], x[..., half:])
        turned = (first + 1j * second) * np.exp(1j * angles)[:, None]
        if self.arch == "llama":
            return np.stack((turned.real, turned.imag), -1).reshape(x.shape)
        return np.concatenate((turned.real, turned.imag), -1)

    def attention(self, layer, x):
        block, keys = f"blk.{layer}.", self.keys
        heads, kv_heads = keys["attention.head_count"], keys["attention.head_count_kv"]
        size = keys.get("attention.key_length", x.shape[-1] // heads)
        q = (x @ self.w(block + "attn_q").T).reshape(len(x), heads, size)
        k = (x @ self.w(block + "attn_k").T).reshape(len(x), kv_heads, size)
        v = (x @ self.w(block + "attn_v").T).reshape(len(x), kv_heads, -1)
        if self.arch == "gemma3":
            q, k = self.norm(q, block + "attn_q_norm"), self.norm(k, block + "attn_k_norm")
        q, k = self.rotate(q, layer), self.rotate(k, layer)
        # In the papers' code the divisor of scores is a separate number; 27B models have another
        # one.
        of_width = self.layers == {"gemma2": 46, "gemma3": 62}.get(self.arch)
        scale = (x.shape[-1] / heads if of_width else size)**-0.5
        shared = np.repeat(np.arange(kv_heads), heads // kv_heads)
        scores = capped(np.einsum("thd,shd->hts", q, k[:, shared]) * scale, keys.get("attn_logit_softcapping", 0))
        back = np.arange(len(x))[:, None] - np.arange(len(x))
        window = keys.get("attention.sliding_window", 0) if self.windowed(layer) else 0
        scores[:, (back < 0) | (back >= (window or len(x)))] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hts,shv->thv", p / p.sum(-1, keepdims=True), v[:, shared])
        return mixed.reshape(len(x), -1) @ self.w(block + "attn_output").T

    def ffn(self, layer, x):
        gate, up, down = (self.w(f"blk.{layer}.ffn_{name}") for name in ("gate", "up", "down"))
        activation = silu if self.arch == "llama" else gelu
        return (activation(x @ gate.T) * (x @ up.T)) @ down.T

    def logits(self, ids):
        table = self.w("token_embd")
        gemma = self.arch != "llama"
        x = table[ids] * (np.sqrt(table.shape[1]) if gemma else 1)
        for layer in range(self.layers):
            block = f"blk.{layer}."
            y = self.attention(layer, self.norm(x, block + "attn_norm"))
            x = x + (self.norm(y, block + "post_attention_norm") if gemma else y)
            y = self.ffn(layer, self.norm(x, block + "ffn_norm"))
            x = x + (self.norm(y, block + "post_ffw_norm") if gemma else y)
        head = self.w("output") if "output.weight" in self.tensors else table
        return capped(self.norm(x, "output_norm") @ head.T, self.keys.get("final_logit_softcapping", 0))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    made = commands.add_parser("make")
    made.add_argument("arch", choices=SIZES)
    made.add_argument("out")
    judged = commands.add_parser("logits")
    judged.add_argument("model")
    judged.add_argument("ids")
    judged.add_argument("out")
    judged.add_argument("--greedy", type=int, default=0)
    a = p.parse_args()
    if a.command == "make":
        return make(a.arch).write(a.out)
    reference, ids = Reference(GgufFile.read(a.model)), [int(token) for token in a.ids.split(",")]
    logits = reference.logits(ids)
    np.save(a.out, logits)
    print("ids:", *ids)
    greedy, margin = [], np.inf
    for _ in range(a.greedy):
        best = np.sort(logits[-1])
        margin = min(margin, best[-1] - best[-2])
        greedy.append(int(logits[-1].argmax()))
        logits = reference.logits(ids + greedy)
    if greedy:
        print("greedy:", greedy)
        print(f"closest decision: {margin:.3g}", file=sys.stderr)


if __name__ == "__main__":
    main()
