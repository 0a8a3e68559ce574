#!/usr/bin/env python3
"""Logits of a GGUF file by llama.cpp, as the PyPI package xllamacpp has it: float32, one thread, no flash attention.

  llama_cpp_reference.py MODEL.gguf ID ID ... --out LOGITS.npy

A second judge for make_logits.py. Recipes have no 64-bit numbers, so arrays that llama.cpp wants of these are widened in
a copy of the file. Needs xllamacpp and numpy.
"""
import argparse
import importlib.metadata
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf_file import ARRAY, GgufFile, UINT32
from llama_cpp import Library

UINT64 = 10
WIDE = (".ple.layer_multipliers", ".ple.head_offsets", ".ple.head_vocab_sizes")


def widened(path, folder):
    """The path of the file, or of a copy in a folder whose WIDE arrays are of 64 bits."""
    file = GgufFile.read(path)
    arrays = {name: value[1] for name, (kind, value) in file.keys.items() if name.endswith(WIDE) and value[0] == UINT32}
    if not arrays:
        return path
    file.keys |= {name: (ARRAY, (UINT64, values)) for name, values in arrays.items()}
    path = os.path.join(folder, "wide.gguf")
    file.write(path)
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("ids", type=int, nargs="+")
    p.add_argument("--out", required=True)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        np.save(a.out, np.array(Library().logits(widened(a.model, folder), a.ids, exact=True), np.float64))
    print(f"judge: llama.cpp of xllamacpp {importlib.metadata.version('xllamacpp')}")


if __name__ == "__main__":
    main()
