#!/usr/bin/env python3
"""Compares the golden logits of unit models with the models' own classes in the PyPI package transformers, in float64.

  judged.py --unit FOLDER [NAME ...]

FOLDER has NAME.gguf, NAME.txt and NAME.logits.npy, which are rounded to 2^-17. Files that transformers_reference.py made agree by
their making; others were computed by references of their own, so that here two judges agree. Needs torch and transformers.
"""
import argparse
import glob
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from transformers_reference import GgufModel, Reference, draft_logits

MOST_ERROR = 1e-5
DRAFT = ".draft"  # Suffix of the names of logits from layers for multi-token prediction.


def error_of(folder, name):
    """The relative error of golden logits, and who judged them."""
    with open(os.path.join(folder, name + ".txt")) as file:
        ids = [int(word) for word in file.readline().split()[1:]]
    model = GgufModel(os.path.join(folder, name.removesuffix(DRAFT) + ".gguf"))
    if name.endswith(DRAFT):
        logits, reference = draft_logits(model, ids)
    else:
        reference = Reference(model)
        logits = reference.logits(ids)
    golden = np.load(os.path.join(folder, name + ".logits.npy"))
    return np.linalg.norm(golden - logits) / np.linalg.norm(logits), reference.name


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--unit", required=True)
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    names = a.names or sorted(os.path.basename(path).removesuffix(suffix) for suffix in (".gguf", ".logits.npy")
                              for path in glob.glob(os.path.join(a.unit, "*" + (DRAFT if suffix != ".gguf" else "") + suffix)))
    failed = []
    for name in names:
        error, judge = error_of(a.unit, name)
        print(f"{name}: {error:.1e}, {judge}", flush=True)
        if not error <= MOST_ERROR:
            failed.append(name)
    print("judged:", "failed " + " ".join(failed) if failed else f"ok, {len(names)} models")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
