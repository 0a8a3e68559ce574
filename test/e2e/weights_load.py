#!/usr/bin/env python3
"""Compiles models with --weights load and with --weights auto, and compares what they give and what lies on the disk.

  weights_load.py --moec PATH --moert PATH --work DIR [--compile-args "..."] MODEL.gguf...

Logits must be equal byte for byte, and a weights file of `load` must hold computed weights alone. Standard library only.
"""
import argparse
import os
import shlex
import subprocess

TOKENS = "3,17,10,99,45,7,64,30"


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def read(path):
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser()
    for name in ("moec", "moert", "work"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--compile-args", default="--target native")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    smaller = 0
    for model in arguments.models:
        name = os.path.basename(model).removesuffix(".gguf")
        logits, bytes_ = {}, {}
        for mode in ("load", "auto"):
            plan, out = (os.path.join(arguments.work, f"{name}-{mode}.{kind}") for kind in ("fb", "npy"))
            run([arguments.moec, "compile", model, *shlex.split(arguments.compile_args), "--weights", mode, "-o", plan])
            bytes_[mode] = len(read(plan.removesuffix(".fb") + ".weights"))
            for step in ([], ["--step"]):
                run([arguments.moert, "logits", plan, "--tokens", TOKENS, "--out", out, "--force", *step])
                logits[mode, len(step)] = read(out)
        for step in (0, 1):
            assert logits["load", step] == logits["auto", step], f"{name}: other logits than packed weights give"
        assert bytes_["load"] <= bytes_["auto"], f"{name}: {bytes_}"
        smaller += bytes_["load"] < bytes_["auto"]
    assert smaller > 0, "no model had anything to lay out"
    print(f"{len(arguments.models)} models: the same logits, {smaller} with less on the disk")


if __name__ == "__main__":
    main()
