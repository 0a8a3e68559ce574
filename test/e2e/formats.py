#!/usr/bin/env python3
"""Requantises a trained model to formats; its perplexity must be that in float64.

  formats.py --moec PATH --moert PATH --work DIR --ids FILE --mean-kl X --perplexity REL MODEL.gguf FORMAT ...

MODEL.gguf is tiny-kjv (deepseek2, without groups, biases and YaRN). For each format, its tensors are requantised.
Reference logits are computed in float64 as the paper (arXiv 2412.19437) defines them, from the new file as decoded
by PyPI's gguf, and fidelity.py compares ours with them. Needs numpy and gguf.
"""
import argparse
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import GgufFile
from requantise import requantise, values_of


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Reference:
    def __init__(self, model):
        self.weights = {name: values_of(tensor).astype(np.float64) for name, tensor in model.tensors.items()}
        self.keys = {name.removeprefix("deepseek2."): value for name, (_, value) in model.keys.items()}
        self.eps = self.keys["attention.layer_norm_rms_epsilon"]

    def attention(self, block, x):
        w, tokens, heads = self.weights, len(x), self.keys["attention.head_count"]
        turned, width = self.keys["rope.dimension_count"], self.keys["attention.key_length"]
        rank, kept = self.keys["attention.kv_lora_rank"], width - turned
        low = norm(x @ w[block + "attn_q_a.weight"].T, w[block + "attn_q_a_norm.weight"], self.eps)
        q = (low @ w[block + "attn_q_b.weight"].T).reshape(tokens, heads, width)
        both = x @ w[block + "attn_kv_a_mqa.weight"].T
        latent = norm(both[:, :rank], w[block + "attn_kv_a_norm.weight"], self.eps)
        kv = (latent @ w[block + "attn_kv_b.weight"].T).reshape(tokens, heads, -1)
        shared = np.broadcast_to(self.rotate(both[:, None, rank:]), (tokens, heads, turned))
        q = np.concatenate((q[..., :kept], self.rotate(q[..., kept:])), -1)
        k = np.concatenate((kv[..., :kept], shared), -1)
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(width)
        scores[:, np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
        mixed = np.einsum("hts,shv->thv", softmax(scores), kv[..., kept:]).reshape(tokens, -1)
        return mixed @ w[block + "attn_output.weight"].T

    def rotate(self, x):
        """Rotates neighbouring elements by an angle that depends on the position."""
        size = x.shape[-1]
        angles = np.arange(len(x))[:, None] * self.keys["rope.freq_base"]**(-np.arange(0, size, 2) / size)
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
        return np.stack((turned.real, turned.imag), -1).reshape(x.shape)

    @staticmethod
    def swiglu(x, gate, up, down):
        z = x @ gate.T
        return (z * sigmoid(z) * (x @ up.T)) @ down.T

    def ffn(self, block, x, suffix=""):
        return self.swiglu(x, *(self.weights[f"{block}ffn_{name}{suffix}.weight"] for name in ("gate", "up", "down")))

    def experts(self, block, x):
        scores = sigmoid(x @ self.weights[block + "ffn_gate_inp.weight"].T)
        biased = scores + self.weights[block + "exp_probs_b.bias"]
        chosen = np.argsort(-biased, -1, kind="stable")[:, :self.keys["expert_used_count"]]
        gates = np.take_along_axis(scores, chosen, -1)
        gates *= self.keys["expert_weights_scale"] / gates.sum(-1, keepdims=True)
        out = self.ffn(block, x, "_shexp")
        stacks = [self.weights[f"{block}ffn_{name}_exps.weight"] for name in ("gate", "up", "down")]
        for expert in range(scores.shape[-1]):
            rows, slots = np.nonzero(chosen == expert)
            out[rows] += gates[rows, slots, None] * self.swiglu(x[rows], *(stack[expert] for stack in stacks))
        return out

    def logits(self, ids):
        w = self.weights
        x = w["token_embd.weight"][ids]
        for layer in range(self.keys["block_count"]):
            block = f"blk.{layer}."
            x = x + self.attention(block, norm(x, w[block + "attn_norm.weight"], self.eps))
            h = norm(x, w[block + "ffn_norm.weight"], self.eps)
            x = x + (self.experts(block, h) if block + "ffn_gate_inp.weight" in w else self.ffn(block, h))
        return norm(x, w["output_norm.weight"], self.eps) @ w["output.weight"].T


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--moec", "--moert", "--work", "--ids", "--mean-kl", "--perplexity"):
        p.add_argument(name, required=True)
    p.add_argument("model")
    p.add_argument("formats", nargs="+")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    with open(a.ids) as file:
        ids = file.read().strip()
    fidelity = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fidelity.py")
    failed = []
    for name in a.formats:
        changed, reference = (os.path.join(a.work, name + suffix) for suffix in (".gguf", ".npy"))
        model = GgufFile.read(a.model)
        requantise(model, name)
        model.write(changed)
        np.save(reference, Reference(model).logits([int(token) for token in ids.split(",")]))
        done = subprocess.run([sys.executable, fidelity, "--moec", a.moec, "--moert", a.moert, "--work", a.work,
                               "--ids", ids, "--mean-kl", a.mean_kl, "--perplexity", a.perplexity, changed, reference],
                              capture_output=True, text=True)
        print(f"{name}:", done.stdout + done.stderr, flush=True)
        if done.returncode != 0:
            failed.append(name)
        os.remove(changed)
        os.remove(reference)
    print("formats:", "failed " + " ".join(failed) if failed else "ok")
    return bool(failed)


sys.exit(main())
