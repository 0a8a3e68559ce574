#!/usr/bin/env python3
"""Gemma 2 and 3 in float64, as arXiv 2408.00118 and 2503.19786 define them, and Llama without experts (arXiv 2307.09288).

  dense_reference.py MODEL.gguf ID ID ... --out LOGITS.npy [--greedy N]

Saves float64 logits [tokens, vocab] and prints the continuation as test/data/unit/*.txt have it. Nothing is cached. Needs
numpy; files with other tensors than F32 need the PyPI package gguf.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf_file import GgufFile


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
    p.add_argument("model")
    p.add_argument("ids", type=int, nargs="+")
    p.add_argument("--out", required=True)
    p.add_argument("--greedy", type=int, default=0)
    a = p.parse_args()
    reference = Reference(GgufFile.read(a.model))
    logits = reference.logits(a.ids)
    np.save(a.out, logits)
    greedy = []
    for _ in range(a.greedy):
        greedy.append(int(logits[-1].argmax()))
        logits = reference.logits(a.ids + greedy)
    if greedy:
        print("greedy:", greedy)


if __name__ == "__main__":
    main()
