#!/usr/bin/env python3
"""Computes the logits and continuations of unit models with an independent reference.

  make_logits.py --reference PROGRAM.py --draw MOE-DRAW-MODEL NAME... [--second PROGRAM.py] [--seeds N] [--margin X]
                 [--defer N | --draft] [--folder FOLDER]

For each NAME it draws NAME.recipe, feeds the ids in the first line of NAME.txt to the reference and writes NAME.txt and
NAME.logits.tar.xz with NAME.logits.npy: every position, as float32 rounded to multiples of 2^-17, which moves them by a
few millionths of their deviation and saves a third of the space. The reference is a program that takes

  PROGRAM.py MODEL.gguf ID ID ... --out LOGITS.npy [--greedy N]

and computes in float64, from the definition of the architecture; it prints a line "greedy: [...]" and, where a model
chooses, lines "smallest ... margin: X". test/support/dense_reference.py and transformers_reference.py are two. Its main()
is called in this process. --second runs another reference on the same file, in a process of its own, and writes down how
far its logits are from the first one's, as a part of the largest logit.

--seeds tries up to N seeds, from the recipe's own on, until no choice of a router or an indexer is closer than --margin
no greedy token is closer than 0.01 to the second best and the continuation has 6 different tokens, and writes that seed into
the recipe. --defer N writes
NAME.deferN.* instead: the logits when the N experts of least weight come one layer later (deferred_reference.py).
--draft writes NAME.draft.* instead: the logits of the layer for multi-token prediction, for every token but the first.
Needs numpy, and what the reference needs.
"""
import argparse
import ast
import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))
from pack_data import pack

GREEDY, CLOSEST, VARIETY, FRACTION_BITS = 16, 0.01, 6, 17


def module_of(program):
    """A reference as a module, as importing what it needs may take longer than computing."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    spec = importlib.util.spec_from_file_location("reference", program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rounded(logits):
    return np.ldexp(np.round(np.ldexp(logits, FRACTION_BITS)), -FRACTION_BITS).astype(np.float32)


class Judge:
    def __init__(self, program, second, draw, work, defer):
        self.draw, self.model, self.out = draw, os.path.join(work, "model.gguf"), os.path.join(work, "logits.npy")
        self.second = second
        self.module = None if defer else module_of(program)
        self.command = [os.path.join(HERE, "deferred_reference.py"), program, str(defer)]

    def make(self, recipe):
        subprocess.run([self.draw, recipe, self.model], check=True)

    def run(self, ids, *more):
        arguments = [self.model, *map(str, ids), "--out", self.out, *more]
        if self.module:
            text = io.StringIO()
            sys.argv = [self.module.__file__, *arguments]
            with contextlib.redirect_stdout(text):
                self.module.main()
            text = text.getvalue()
        else:
            text = self.process(self.command + arguments)
        margins = [float(number) for number in re.findall(r"margin: (\S+)", text)]
        return np.load(self.out), text, min(margins, default=np.inf)

    def process(self, arguments):
        return subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout

    def compare(self, ids, logits):
        """A line about what the second reference computes."""
        text = self.process([self.second, self.model, *map(str, ids), "--out", self.out])
        error = np.abs(np.load(self.out) - logits).max() / np.abs(logits).max()
        return f"second {text.strip()}; largest difference {error:.2g} of the largest logit"

    def drafts(self, ids):
        logits, text, _ = self.run(ids, "--draft")
        return rounded(logits), f"ids: {' '.join(map(str, ids))}\n{text.rstrip()}\n"

    def answer(self, ids, margin):
        """Logits and the text about them, or None where a decision is too close."""
        logits, text, closest = self.run(ids)
        if closest < margin:
            return None
        _, text, _ = self.run(ids, "--greedy", str(GREEDY))
        greedy = ast.literal_eval(re.search(r"^greedy: (.*)", text, re.M)[1])
        if len(set(greedy)) < VARIETY:
            return None
        continued, _, closest = self.run(ids + greedy[:-1])
        best = np.sort(continued[len(ids) - 1:], -1)
        decision = (best[:, -1] - best[:, -2]).min()
        if closest < margin or decision < CLOSEST:
            return None
        lines = [f"ids: {' '.join(map(str, ids))}", text.rstrip(), f"closest decision: {decision:.3g}"]
        if self.second:
            lines.append(self.compare(ids, logits))
        return rounded(logits), "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--reference", required=True)
    p.add_argument("--second")
    p.add_argument("--draw", required=True)
    p.add_argument("--folder", default=HERE)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--margin", type=float, default=0)
    p.add_argument("--defer", type=int, default=0)
    p.add_argument("--draft", action="store_true")
    p.add_argument("names", nargs="+")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        judge = Judge(a.reference, a.second, a.draw, work, a.defer)
        for name in a.names:
            recipe = os.path.join(a.folder, name + ".recipe")
            with open(os.path.join(a.folder, name + ".txt")) as file:
                ids = [int(token) for token in file.readline().split()[1:]]
            for _ in range(a.seeds):
                judge.make(recipe)
                answer = judge.drafts(ids) if a.draft else judge.answer(ids, a.margin)
                with open(recipe) as file:
                    text = file.read()
                seed = int(re.search(r"^seed (\d+)$", text, re.M)[1])
                if answer:
                    break
                if a.seeds > 1:
                    with open(recipe, "w") as file:
                        file.write(re.sub(r"^seed \d+$", f"seed {seed + 1}", text, flags=re.M))
            if not answer:
                sys.exit(f"{name}: a decision is too close, or the continuation repeats itself; another seed, or more of them (--seeds), may do")
            stem = os.path.join(a.folder, name + (f".defer{a.defer}" if a.defer else ".draft" if a.draft else ""))
            npy = io.BytesIO()
            np.save(npy, answer[0])
            pack(stem + ".logits.tar.xz", {os.path.basename(stem) + ".logits.npy": npy.getvalue()}, width=4)
            with open(stem + ".txt", "w") as file:
                file.write(answer[1])
            print(f"{name}: seed {seed}, deviation of logits {answer[0].std():.3f}", flush=True)
            print(*("  " + line for line in answer[1].splitlines()[1:]), sep="\n")


main()
