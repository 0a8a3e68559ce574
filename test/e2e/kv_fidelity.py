#!/usr/bin/env python3
"""Compares logits with the default KV cache type, and with f16 and q8_0, with a float64 reference.

  kv_fidelity.py --moec PATH --moert PATH --work DIR --ids FILE|ID,... --most RATIO MODEL.gguf [REFERENCE.npy]
                 [--modes prefill,step,beside] [--compile-args "..."] [--tokens N] [--median]

Prints the mean divergence (KL) of each type and mode, and fails if that of the default is more than RATIO times that
of f16. --median compares medians: in a small model with experts, a few tokens for which a router decides differently
make up most of the mean. Without REFERENCE.npy, reference logits are computed for files that dense_reference.py
supports, which needs numpy and the PyPI package gguf; the rest needs the standard library only.
"""
import argparse
import os
import statistics
import subprocess
import sys

from compare_logits import compared_rows, divergences, load, log_softmax

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
TYPES = ("auto", "f16", "q8_0")
FED = {"prefill": [], "step": ["--step"], "beside": ["--beside", "3"]}


def reference_of(path, ids):
    from dense_reference import Reference
    from gguf_file import GgufFile
    return Reference(GgufFile.read(path)).logits(ids).tolist()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--moec", "--moert", "--work", "--ids"):
        p.add_argument(name, required=True)
    p.add_argument("--most", type=float, required=True)
    p.add_argument("--modes", default="prefill,step,beside")
    p.add_argument("--compile-args", default="--target native")
    p.add_argument("--tokens", type=int)
    p.add_argument("--median", action="store_true")
    p.add_argument("model")
    p.add_argument("reference", nargs="?")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    text = open(a.ids).read() if os.path.exists(a.ids) else a.ids
    ids = [int(token) for token in text.strip().split(",")]
    wanted = load(a.reference) if a.reference else reference_of(a.model, ids[:a.tokens])
    # A reference may have every second (third, ...) row only: see compare_logits.py.
    rows = compared_rows(len(wanted), len(ids) if a.reference else len(ids[:a.tokens]))
    ids = ids[:a.tokens]
    rows = [row for row in rows if row < len(ids)]
    wanted = [log_softmax(row) for row in wanted[:len(rows)]]
    middle = statistics.median if a.median else statistics.fmean
    plan, out, failed = os.path.join(a.work, "p.fb"), os.path.join(a.work, "o.npy"), False
    for mode in a.modes.split(","):
        found = {}
        for kv in TYPES:
            run(a.moec, "compile", a.model, "-o", plan, "--kv-type", kv, *a.compile_args.split(),
                *(["--sequences", "4"] if mode == "beside" else []))
            run(a.moert, "logits", plan, "--tokens", ",".join(map(str, ids)), "--out", out, *FED[mode])
            logits = load(out)
            found[kv] = middle(divergences([log_softmax(logits[row]) for row in rows], wanted))
        fine = found["auto"] <= a.most * found["f16"]
        failed |= not fine
        print(f"{mode}: " + ", ".join(f"{kv} {value:.3g}" for kv, value in found.items()) + ("" if fine else " TOO FAR"))
    print("caches:", "failed" if failed else "ok")
    return failed


sys.exit(main())
