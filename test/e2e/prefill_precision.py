#!/usr/bin/env python3
"""How far a GPU's logits of a prompt are from those of the same tokens in decode, on the software GPU.

  prefill_precision.py --bin FOLDER --recipes FOLDER --work DIR --bound X [--format F32|F16|BF16] [--wider N] [--judge]
                       MODEL:SEED[,SEED...] ...

Each model is a recipe of test/data/unit with another seed. Its matrices have the format, and its lengths are N times as long
(test/support/wider_recipe.py): only matrices of more than 512 rows meet activations of 16 bits. Decode multiplies floats by
the weights as they are, and caches are F32, so that what remains is how products of many rows are computed. The largest difference
of two logits is at most X of the largest logit. Tokens are the first of the model's own.

--judge compares with a float64 judge instead: the relative error is at most X times that of the judge with activations rounded to
as many bits as F16 or BF16 weights have (test/support/rounded_activations.py), and all else exact. A router or an indexer may decide
otherwise for one of the two; so a model is within the bound if it is with one of its seeds. Needs torch, transformers and gguf; models
without a judge are left out.
"""
import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
from compare_logits import load
from gguf_file import GgufFile
from wider_recipe import Recipe, is_matrix

# Enough for products of many rows, also of a token's experts; decode takes one after the other.
TOKENS = 24
# Matrices with at most so many rows meet two 16-bit numbers for each activation (kRouterRows of kernels/cuda/LaunchHalfGemm.cpp).
ROUTER_ROWS = 512
SIGNIFICANT_BITS = {"F16": 11, "BF16": 8}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"$ {' '.join(command)} -> {done.returncode}\n{done.stdout}{done.stderr}")


class Model:
    """A recipe with a seed, its file and its plan for a GPU."""

    def __init__(self, name, seed, a):
        self.a, self.at = a, os.path.join(a.work, f"{name}-{seed}")
        self.file, self.plan = self.at + ".gguf", self.at + ".fb"
        with open(os.path.join(a.recipes, name + ".txt")) as file:
            self.ids = [int(word) for word in file.readline().split()[1:]][:TOKENS]
        with open(self.at + ".recipe", "w") as file:
            file.write(self.text(os.path.join(a.recipes, name + ".recipe"), seed))
        run(f"{a.bin}/moe-draw-model", self.at + ".recipe", self.file)

    def text(self, path, seed):
        """The recipe at `path` with the seed, with matrices in the format, and with longer rows."""
        recipe = Recipe(path)

        def formatted(match):
            name, kind = match[1], match[2]
            changes = kind == "F32" and is_matrix(name, recipe.tensors[name], recipe.heads())
            return f"tensor {name} {self.a.format if changes else kind} "

        text = re.sub(r"^tensor (\S+) (\S+) ", formatted, recipe.wider(self.a.wider), flags=re.M)
        folder = os.path.relpath(os.path.dirname(path), self.a.work)
        text = re.sub(r"^include ", f"include {folder}/", text, flags=re.M)
        return re.sub(r"^seed \d+", f"seed {seed}", text, flags=re.M)

    def compile(self):
        run(f"{self.a.bin}/moec", "compile", self.file, "-o", self.plan, "--target", "4090+xeon", "--ctx", "64",
            "--place", "*=gpu0", "--kv-type", "f32")

    def logits(self, *mode):
        out = self.at + ".npy"
        run(f"{self.a.bin}/moert-soft", "logits", self.plan, "--tokens", ",".join(map(str, self.ids)), "--out", out, *mode)
        return [value for row in load(out) for value in row]

    def difference(self):
        """The largest difference of logits in prefill and in decode, as a part of the largest logit."""
        prefill, decode = self.logits(), self.logits("--step")
        return max(abs(x - y) for x, y in zip(prefill, decode)) / max(map(abs, decode))

    def errors(self):
        """The relative errors of logits in prefill, and of the judge with rounded activations; None without a judge."""
        import numpy as np
        import rounded_activations as judging
        file = GgufFile.read(self.file)
        if not judging.judges(file.keys["general.architecture"][1]):
            return None
        kept = {name for name, tensor in file.tensors.items()
                if tensor.format not in SIGNIFICANT_BITS or tensor.shape[1] <= ROUTER_ROWS}
        judge = judging.Judge(self.file, kept)
        exact = judge.logits(self.ids)
        alone = judge.rounded_logits(self.ids, judging.significant(SIGNIFICANT_BITS[self.a.format]))
        ours = np.reshape(self.logits(), exact.shape)
        return [np.linalg.norm(logits - exact) / np.linalg.norm(exact) for logits in (ours, alone)]

    def remove(self):
        for path in (self.file, self.plan, self.at + ".npy"):
            os.remove(path)


def is_fine(name, seeds, a):
    """Whether a model is within the bound with one of the seeds."""
    for seed in seeds:
        model = Model(name, seed, a)
        model.compile()
        if a.judge:
            errors = model.errors()
            value = errors[0] / errors[1] if errors else 0
            print(f"{name}:{seed}:", "{:.2g}, by rounding alone {:.2g}".format(*errors) if errors else "no judge", flush=True)
        else:
            value = model.difference()
            print(f"{name}:{seed}: {value:.2g} of the largest logit", flush=True)
        model.remove()
        if value <= a.bound:  # False for NaN.
            return True
    return False


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--bin", "--recipes", "--work"):
        p.add_argument(option, required=True)
    p.add_argument("--bound", type=float, required=True)
    p.add_argument("--format", default="F32")
    p.add_argument("--wider", type=int, default=1)
    p.add_argument("--judge", action="store_true")
    p.add_argument("models", nargs="+", metavar="MODEL:SEED[,SEED...]")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    over = []
    for model in a.models:
        name, seeds = model.split(":")
        if not is_fine(name, seeds.split(","), a):
            over.append(name)
    print("prefill:", f"over {a.bound:g}: {' '.join(over)}" if over else "ok")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
