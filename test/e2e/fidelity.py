#!/usr/bin/env python3
"""Compiles a model, computes logits and compares them with a reference.

  fidelity.py --moec PATH --moert PATH --work DIR MODEL.gguf REFERENCE.npy --ids FILE|ID,ID,...
              [--forms none,factored,...] [--modes prefill,step,ubatch5,beside,restore,draft] [--kv-type T]
              [--compile-args "..."] [--greedy FILE] [bounds of compare_logits.py]

Every --mla form is compiled once for all modes that need the same plan. Modes:
prefill: the prompt in one batch; step: one token at a time through decode;
ubatch5: in ubatches of 5; beside: in steps with three other sequences; restore:
half of the prompt, then the rest by another process that reads the saved session,
one token at a time; draft: the logits of the layer for multi-token prediction, for
every token but the first, of which the reference then consists. --greedy
names a file with a line "greedy: [ids]": the continuation must be the same.
A file for --ids has comma-separated ids, or a line "ids: ID ID ...".
"""
import argparse
import ast
import os
import subprocess
import sys

import compare_logits


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print("$", " ".join(command), f"-> {done.returncode}", done.stdout, done.stderr, sep="\n")
        sys.exit(1)
    return done.stdout


def run_restored(logits, tokens, out):
    """Computes logits of half of the tokens, and of the others in a second process; returns the second's file."""
    session, rest = out + ".seq", out.replace(".npy", "-rest.npy")
    if os.path.exists(session):
        os.remove(session)
    half = len(tokens) // 2
    run(*logits, "--tokens", ",".join(tokens[:half]), "--out", out, "--session", session)
    run(*logits, "--tokens", ",".join(tokens[half:]), "--out", rest, "--session", session, "--step")
    return rest


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--moec", "--moert", "--work", "--ids"):
        p.add_argument(name, required=True)
    p.add_argument("model")
    p.add_argument("reference")
    p.add_argument("--forms", default="auto")
    p.add_argument("--modes", default="prefill")
    p.add_argument("--kv-type", default="auto")
    p.add_argument("--compile-args", default="--target native")
    p.add_argument("--greedy")
    for name in ("--rel", "--mean-kl", "--perplexity"):
        p.add_argument(name, help="as in compare_logits.py")
    a = p.parse_args()
    bounds = []
    for name in ("rel", "mean_kl", "perplexity"):
        if getattr(a, name):
            bounds += ["--" + name.replace("_", "-"), getattr(a, name)]
    ids = open(a.ids).read() if os.path.exists(a.ids) else a.ids
    for line in ids.splitlines():
        if line.startswith("ids:"):
            ids = ",".join(line.split()[1:])
    ids = ids.strip()
    tokens = ids
    if a.greedy:
        line = next(x for x in open(a.greedy) if x.startswith("greedy:"))
        golden = ast.literal_eval(line.split(":", 1)[1].strip())
        bounds += ["--greedy", ",".join(map(str, golden))]
        tokens += "," + ",".join(map(str, golden[:-1]))
    os.makedirs(a.work, exist_ok=True)
    failed, compiled = 0, set()
    for form in a.forms.split(","):
        for mode in a.modes.split(","):
            out = os.path.join(a.work, f"{form}-{mode}.npy")
            more = {"ubatch5": ["--ubatch", "5"], "beside": ["--sequences", "4"], "draft": ["--mtp"]}.get(mode, [])
            fed = {"step": ["--step"], "beside": ["--beside", "3"], "draft": ["--draft"]}.get(mode, [])
            plan = os.path.join(a.work, "-".join([form, *(word.strip("-") for word in more)]) + ".fb")
            logits = [a.moert, "logits", plan]
            then = []
            if plan not in compiled:
                run(a.moec, "compile", a.model, "-o", plan, "--mla", form, "--kv-type", a.kv_type,
                    *more, *a.compile_args.split())
                compiled.add(plan)
            if mode == "restore":
                then = ["--then", run_restored(logits, tokens.split(","), out)]
            else:
                run(*logits, "--tokens", tokens, "--out", out, *fed)
            rows = ids.partition(",")[2] if mode == "draft" else ids
            isFar = compare_logits.main([out, a.reference, "--ids", rows, *bounds, *then])
            print(f"== {form} {mode}: {'FAILED' if isFar else 'ok'}")
            failed += isFar
    print("fidelity:", "ok" if not failed else f"{failed} failed")
    return 1 if failed else 0


sys.exit(main())
