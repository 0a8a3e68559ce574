#!/usr/bin/env python3
"""A reference with deferred experts: the N of a token's experts that weigh least are added one layer later.

  deferred_reference.py REFERENCE.py N MODEL.gguf ID ID ... --out LOGITS.npy [--greedy N]

REFERENCE.py is a module with the functions that are used here, among them moe(model, block, x, used), which computes a
layer of experts. What the late experts of a layer give is taken from its result and added to the next such layer's; in
the last one none is late. Routers that choose by a sigmoid with a selection bias, or by a softmax, without groups.
"""
import importlib.util
import sys

import numpy as np


def late_part(r, m, block, x, used, late):
    """What the `late` experts of least weight add, chosen as the model's definition says."""
    logits = r.linear(m, block + "ffn_gate_inp", x)
    sigmoid = m.k("expert_gating_func", 1) == 2
    p = r.sigmoid(logits) if sigmoid else r.softmax(logits)
    biased = p + m.w(block + "exp_probs_b.bias") if m.has(block + "exp_probs_b.bias") else p
    chosen = np.argsort(-biased, -1, kind="stable")[:, :used]
    weights = np.take_along_axis(p, chosen, -1)
    if m.k("expert_weights_norm", False):
        weights = weights / weights.sum(-1, keepdims=True)
    weights = weights * (m.k("expert_weights_scale", 0.0) or 1.0)
    (gate, _), (up, _), (down, _) = r.experts(m, block, logits.shape[-1])
    out = np.zeros_like(x)
    for token, (ids, shares) in enumerate(zip(chosen, weights)):
        for i in np.argsort(-shares, kind="stable")[used - late:]:
            e = ids[i]
            out[token] += shares[i] * (down[e] @ r.activate(m, gate[e] @ x[token], up[e] @ x[token]))
    return out


def main():
    path, late = sys.argv[1], int(sys.argv[2])
    spec = importlib.util.spec_from_file_location("reference", path)
    r = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(r)
    whole, carried = r.moe, {}

    def moe(m, block, x, used):
        layer, layers = int(block.split(".")[1]), m.k("block_count") - (m.k("nextn_predict_layers") or 0)
        out = whole(m, block, x, used)
        if f"blk.{layer - 1}.ffn_gate_inp.weight" in m.info:
            out = out + carried.pop(layer - 1)
        if layer + 1 < layers:
            carried[layer] = late_part(r, m, block, x, used, late)
            out = out - carried[layer]
        return out

    r.moe = moe
    model_path, rest = sys.argv[3], sys.argv[4:]
    out = rest[rest.index("--out") + 1]
    greedy = int(rest[rest.index("--greedy") + 1]) if "--greedy" in rest else 0
    ids = [int(word) for word in rest[:rest.index("--out")]]
    m = r.Model(model_path)
    logits = r.forward(m, np.array(ids))
    np.save(out, logits)
    print(f"smallest router margin: {m.margin:.3g}")
    if greedy:
        tokens = []
        for _ in range(greedy):
            tokens.append(int(logits[-1].argmax()))
            logits = r.forward(m, np.array(ids + tokens))
        print("greedy:", tokens)


main()
