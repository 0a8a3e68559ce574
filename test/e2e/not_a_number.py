#!/usr/bin/env python3
"""Checks that every command refuses a model with NaN weights and names the tensor.

  not_a_number.py --work DIR MODEL.gguf [compile arguments ...]

Copies tiny-kjv, damages one tensor at a time as bad storage or a bad conversion would, compiles the copy and runs
it in prefill and in decode. Prints one line per damage: the message, and the commands whose messages differ.
"""
import argparse
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import GgufFile

NAN32, NAN16, INF16 = b"\xff\xff\xff\xff", b"\x00\x7e", b"\x00\x7c"
# Columns: description, tensor, bytes, first place, count, bytes from one place to the next. Blocks of Q4_K begin with
# two F16 scales, d and dmin, those of Q6_K end with one, those of Q8_0 begin with one; rows have 256 columns.
DAMAGES = [
    ("24 of 32 rows of a router", "blk.2.ffn_gate_inp.weight", NAN32, 4 * 256 * 5 + 8, 24, 4 * 256),
    ("an infinite row of a router", "blk.3.ffn_gate_inp.weight", struct.pack("<f", float("-inf")), 0, 1, 0),
    ("a selection bias", "blk.2.exp_probs_b.bias", NAN32, 20, 1, 0),
    ("a norm", "blk.1.attn_norm.weight", NAN32, 40, 1, 0),
    ("a scale of each expert, last layer", "blk.3.ffn_down_exps.weight", NAN16, 208, 32, 210 * 256),
    ("a minimum of each expert", "blk.2.ffn_up_exps.weight", INF16, 144 * 7 + 2, 32, 144 * 256),
    ("the embedding of a token", "token_embd.weight", NAN16, 144 * 17, 1, 0),
    ("keys of a head", "blk.1.attn_kv_b.weight", NAN16, 272 * 3, 1, 0),
    ("values of a head", "blk.1.attn_kv_b.weight", NAN16, 272 * (128 + 64 + 9), 1, 0),
    ("a latent", "blk.0.attn_kv_a_mqa.weight", NAN16, 272 * 30, 1, 0),
    ("a dense layer", "blk.0.ffn_gate.weight", NAN16, 144 * 11, 1, 0),
    ("the output", "output.weight", NAN16, 210 * 2047 + 208, 1, 0),
]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, errors="replace")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", required=True)
    p.add_argument("model")
    a, compile_arguments = p.parse_known_args()
    os.makedirs(a.work, exist_ok=True)
    model, plan, text = (os.path.join(a.work, name) for name in ("m.gguf", "m.fb", "text"))
    with open(text, "w") as f:
        f.write("In the beginning God created the heaven and the earth. " * 3)
    commands = {
        "prefill": ["logits", plan, "--tokens", "3,17,10,99,45,7,64,301", "--out", a.work + "/x.npy"],
        "decode": ["logits", plan, "--tokens", "3,17,10", "--step", "--out", a.work + "/x.npy"],
        "run": ["run", plan, "-p", "In the beginning God", "-n", "4"],
        "perplexity": ["perplexity", plan, "--file", text, "--ctx", "32"],
    }
    for what, tensor, value, first, count, step in DAMAGES:
        damaged = GgufFile.read(a.model)
        data = damaged.tensors[tensor].data
        for i in range(count):
            at = first + i * step
            data[at:at + len(value)] = value
        damaged.write(model)
        done = run("moec", "compile", model, "-o", plan, *compile_arguments)
        if done.returncode != 0:
            print(f"{what}: moec: exit code {done.returncode}: {done.stderr}")
            continue
        said = []
        for name, command in commands.items():
            # Only the logits commands use token 17.
            if tensor == "token_embd.weight" and name in ("run", "perplexity"):
                continue
            done = run("moert", *command)
            lines = done.stderr.strip().split("\n")
            if done.returncode != 3 or len(lines) > 5 or done.stdout or re.sub(r"\.weight|\.bias", "", tensor) not in done.stderr:
                said.append(f"{name}: exit code {done.returncode}: {done.stderr}")
            message = done.stderr.strip()
        print(f"{what}: {message}", *said, sep="\n  ")


main()
