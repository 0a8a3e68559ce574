#!/usr/bin/env python3
"""Logits of a GGUF file by llama.cpp, as the PyPI package xllamacpp has it: float32, one thread, no flash attention.

  llama_cpp_reference.py MODEL.gguf ID ID ... --out LOGITS.npy

A second judge for make_logits.py. Needs xllamacpp and numpy.
"""
import argparse
import importlib.metadata
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from llama_cpp import Library


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("ids", type=int, nargs="+")
    p.add_argument("--out", required=True)
    a = p.parse_args()
    np.save(a.out, np.array(Library().logits(a.model, a.ids, exact=True), np.float64))
    print(f"judge: llama.cpp of xllamacpp {importlib.metadata.version('xllamacpp')}")


if __name__ == "__main__":
    main()
