#!/usr/bin/env python3
"""How far logits of quantised unit models are from those of the same weights in float: mean KL at most 2e-3.

  quantised_kl.py --bin FOLDER --recipes FOLDER --work DIR [--judge [--strict]] [--formats MATRICES,EXPERTS] [NAME ...]

Each recipe is made wider (test/support/wider_recipe.py), so that blocks fit into its rows, and drawn. Matrices of attention, tables and
the head become Q8_0, those of FFNs and experts Q4_0 (--formats); routers, norms and convolutions stay. Our logits of this file, in a
prefill and step by step, are compared with our logits of the same weights written as F32, which stand for float64: data/unit
holds F32 to 1e-4 of it, and --judge prints how close it is here. The KV cache is F32 in both. KL(float || quantised) is in nats.

--judge: where transformers has the model's class, computes also the number that activations in int8 alone give: the KL of
the float64 judge with rounded activations (test/support/rounded_activations.py). The bound of a model is 2e-3, or RATIO times that
number where it is larger. LARGER has these numbers, for runs without the judge. --strict: RATIO times that number is the bound of all
models; kernels that round weights once more, as those of AMX, lose more.

Without names all recipes that compile are taken. Formats are those that test/support/requantise.py writes. Needs numpy and gguf.
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from gguf_file import FORMATS, GgufFile, Tensor
from requantise import quantise, values_of
from wider_recipe import Recipe, is_matrix

MOST_KL = 2e-3
# Where a router or an indexer decides, one token that goes another way makes up most of a mean, and kernels whose sums have another
# order send another one: ours were at most 1.35 times int8 alone, with AVX-512.
RATIO = 2.0
UNSUPPORTED = 6
# Mean KL by int8 activations alone, of models where it is more than MOST_KL / RATIO, as --judge prints it.
LARGER = {
    "bailingmoe2": 4.8e-2,
    "bailingmoe3": 6.0e-3,
    "deepseek2-groups": 2.7e-3,
    "deepseek2-mtp": 6.2e-3,
    "deepseek2-v2": 8.6e-3,
    "deepseek2-v3": 7.3e-3,
    "deepseek32": 9.5e-2,
    "deepseek4": 4.3e-3,
    "deepseek41": 1.5e-2,
    "ernie4_5-moe": 1.6e-3,
    "exaone-moe": 1.3e-2,
    "gemma4-moe": 6.5e-2,
    "gemma4-ple": 1.0e-2,
    "glm-dsa": 3.7e-2,
    "glm5-next": 2.9e-3,
    "gpt-oss": 8.7e-3,
    "granitehybrid": 1.2e-3,
    "hy_v3": 7.2e-3,
    "kimi-k3": 7.1e-3,
    "kimi-linear": 9.6e-3,
    "laguna": 9.5e-3,
    "lfm2moe": 3.6e-3,
    "llama": 1.3e-3,
    "llama4": 4.8e-3,
    "llama4-dense": 1.5e-3,
    "mimo2": 3.8e-3,
    "minimax-m3": 1.1e-2,
    "mistral4": 2.5e-3,
    "mixtral-odd": 1.6e-3,
    "nemotron_h_moe": 3.4e-3,
    "phimoe": 1.8e-2,
    "qwen35": 4.3e-3,
    "qwen35moe": 2.4e-3,
    "qwen35moe-nvfp4": 8.0e-3,
    "qwen3moe": 1.7e-3,
    "qwen3next": 4.8e-3,
    "qwen3next-legacy": 1.1e-3,
    "qwen4exp": 1.5e-2,
    "qwen4exp-ngram": 1.6e-2,
    "step35": 2.3e-2,
}
MODES = {"prefill": [], "steps": ["--step"]}


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows = rows - rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def divergences(ours, reference):
    """KL(reference || ours) of each row."""
    ours, reference = log_softmax(ours), log_softmax(reference)
    return (np.exp(reference) * (reference - ours)).sum(-1)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"$ {' '.join(command)} -> {done.returncode}\n{done.stdout}{done.stderr}")


def as_floats(tensors):
    """Tensors with all values in F32. The scales of matrices in NVFP4, which are tensors too, go into the values."""
    floats = {}
    for name, tensor in tensors.items():
        if tensor.format in ("F32", "I32"):
            floats.setdefault(name, tensor)
            continue
        values, scale = values_of(tensor).astype(np.float32), name.removesuffix("weight") + "scale"
        if tensor.format == "NVFP4":
            factors = np.frombuffer(bytes(tensors[scale].data), np.float32)
            values = values * factors.reshape(-1, *[1] * (values.ndim - 1)) if values.ndim > 2 else values * factors
            floats[scale] = None
        floats[name] = Tensor("F32", tensor.shape, values.tobytes())
    return {name: tensor for name, tensor in floats.items() if tensor}


class Model:
    """A wider recipe, its two files, and our logits of them."""

    def __init__(self, name, a):
        self.name, self.a = name, a
        self.matrices, self.experts = a.formats.split(",")
        recipe = os.path.join(a.recipes, name + ".recipe")
        self.recipe = Recipe(recipe)
        with open(os.path.join(a.recipes, name + ".txt")) as file:
            self.ids = [int(word) for word in file.readline().split()[1:]]
        self.drawn, self.floats, self.quantised, self.plan = (os.path.join(a.work, f"{name}{end}") for end in (
            ".gguf", "-f32.gguf", "-quantised.gguf", ".fb"))

    def quantisable(self):
        """Whether a recipe has more than BF16."""
        return any(words[2] != "BF16" and is_matrix(words[1], self.recipe.tensors[words[1]])
                   for words in self.recipe.words if words[:1] == ["tensor"])

    def draw(self):
        block = max(FORMATS[name][1] for name in (self.matrices, self.experts))
        wider = os.path.join(self.a.work, self.name + ".recipe")
        with open(wider, "w") as file:
            file.write(self.recipe.wider(self.recipe.factor(block)))
        run(os.path.join(self.a.bin, "moe-draw-model"), wider, self.drawn)

    def quantise(self):
        """Writes the quantised file and the one with the same weights in F32; returns the names of matrices that stay."""
        model, kept = GgufFile.read(self.drawn), set()
        self.architecture = model.keys["general.architecture"][1]
        for name, tensor in model.tensors.items():
            if is_matrix(name, tensor.shape, self.recipe.heads()) and tensor.format == "F32":
                kind = self.experts if ".ffn_" in name else self.matrices
                values = np.frombuffer(bytes(tensor.data), np.float32)
                model.tensors[name] = Tensor(kind, tensor.shape, quantise(kind, values))
            elif tensor.format in ("F32", "BF16"):
                kept.add(name)
        model.write(self.quantised)
        model.tensors = as_floats(model.tensors)
        model.write(self.floats)
        return kept

    def compiles(self):
        """Whether moec knows the architecture."""
        done = subprocess.run([os.path.join(self.a.bin, "moec"), "compile", self.drawn, "-o", self.plan, "--target", "native"],
                              capture_output=True, text=True)
        if done.returncode == UNSUPPORTED:
            return False
        assert done.returncode == 0, f"{self.name}: {done.stderr}"
        return True

    def logits(self, path):
        """Our logits of a file, by mode."""
        out, rows = os.path.join(self.a.work, "logits.npy"), {}
        run(os.path.join(self.a.bin, "moec"), "compile", path, "-o", self.plan, "--target", "native", "--kv-type", "f32")
        for mode, fed in MODES.items():
            run(os.path.join(self.a.bin, "moert"), "logits", self.plan, "--tokens", ",".join(map(str, self.ids)), "--out", out, *fed)
            rows[mode] = np.load(out)
        return rows

    def remove(self):
        for path in (self.drawn, self.floats, self.quantised):
            if os.path.exists(path):
                os.remove(path)


class Result:
    def __init__(self, model, kept):
        self.name, floats, quantised = model.name, model.logits(model.floats), model.logits(model.quantised)
        self.kl = {mode: divergences(quantised[mode], floats[mode]) for mode in MODES}
        self.agreed = {mode: (quantised[mode].argmax(-1) == floats[mode].argmax(-1)).mean() for mode in MODES}
        self.int8, self.error, self.strict = None, None, model.a.strict
        if model.a.judge:
            self.ask(model, kept, floats["prefill"])

    def ask(self, model, kept, floats):
        import rounded_activations
        if not rounded_activations.judges(model.architecture):
            return
        judge = rounded_activations.Judge(model.floats, kept)
        exact = judge.logits(model.ids)
        self.error = np.linalg.norm(floats - exact) / np.linalg.norm(exact)
        self.int8 = divergences(judge.rounded_logits(model.ids, rounded_activations.int8), exact).mean()

    def bound(self):
        if self.strict and self.int8:
            return RATIO * self.int8
        return max(MOST_KL, RATIO * (self.int8 or LARGER.get(self.name, 0)))

    def fine(self):
        # False for NaN.
        return all(self.kl[mode].mean() <= self.bound() for mode in MODES) and (self.error is None or self.error <= 1e-4)

    def row(self):
        cells = [self.name]
        for mode in MODES:
            cells += [f"{self.kl[mode].mean():.1e}", f"{self.kl[mode].max():.1e}", f"{100 * self.agreed[mode]:.0f} %"]
        cells += ["-" if self.int8 is None else f"{self.int8:.1e}", "-" if self.error is None else f"{self.error:.0e}"]
        return cells


HEADER = ["model", "prefill: mean KL", "largest", "top-1", "steps: mean KL", "largest", "top-1", "int8 alone", "F32 to float64"]
WIDTHS = [18, 16, 8, 6, 16, 8, 6, 11, 14]


def show(cells):
    print("  ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS)), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--recipes", "--work"):
        p.add_argument(name, required=True)
    p.add_argument("--formats", default="Q8_0,Q4_0")
    p.add_argument("--judge", action="store_true")
    p.add_argument("--strict", action="store_true")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    os.makedirs(a.work, exist_ok=True)
    for shared in glob.glob(os.path.join(a.recipes, "*.tokenizer")):
        shutil.copy(shared, a.work)
    names = a.names or sorted(os.path.basename(path).removesuffix(".recipe") for path in glob.glob(os.path.join(a.recipes, "*.recipe")))
    show(HEADER)
    failed, skipped, done = [], [], 0
    for name in names:
        model = Model(name, a)
        if not model.quantisable():
            continue
        model.draw()
        if model.compiles():
            result = Result(model, model.quantise())
            show(result.row())
            done += 1
            if not result.fine():
                failed.append(name)
                print(f"{name}: OVER {result.bound():.2g}", flush=True)
        else:
            skipped.append(name)
        model.remove()
    if skipped:
        print("not compiled yet:", *skipped)
    print("quantised:", "failed " + " ".join(failed) if failed else f"ok, {done} models")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
