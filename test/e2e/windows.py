#!/usr/bin/env python3
"""Compares logits of plans whose windowed layers keep a ring of rows with those of plans that keep every row.

  windows.py --moec PATH --moert PATH --fidelity FILE --work DIR MODEL.gguf [KV_TYPE REL]

For a context of 256 tokens, three rings of 64 rows are smaller than all rows; for one of 192
tokens they are not. The text goes around a ring three times.
"""
import argparse
import os
import subprocess
import sys

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name in ("--moec", "--moert", "--fidelity", "--work"):
    p.add_argument(name, required=True)
p.add_argument("model")
p.add_argument("kv_type", nargs="?", default="f32")
p.add_argument("rel", nargs="?", default="1e-5")
a = p.parse_args()
os.makedirs(a.work, exist_ok=True)
ids = ",".join(str((i * i * 7 + i * 37 + 11) % 250) for i in range(190))
plan, whole = os.path.join(a.work, "whole.fb"), os.path.join(a.work, "whole.npy")


def explained(tokens):
    subprocess.run([a.moec, "compile", a.model, "-o", plan, "--target", "native", "--ubatch", "5", "--kv-type", a.kv_type,
                    "--ctx", str(tokens)], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([a.moec, "explain", plan], check=True, capture_output=True, text=True).stdout


assert "for the last 64 tokens of sequences" in explained(256), "no rings"
assert "for the last" not in explained(192), "rings"
subprocess.run([a.moert, "logits", plan, "--tokens", ids, "--out", whole], check=True)
sys.exit(subprocess.run([sys.executable, a.fidelity, "--moec", a.moec, "--moert", a.moert, "--work", a.work,
                         "--kv-type", a.kv_type, "--compile-args", "--target native --ubatch 5 --ctx 256",
                         "--modes", "prefill,step,beside", "--ids", ids, "--rel", a.rel, a.model, whole]).returncode)
