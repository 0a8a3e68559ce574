#!/usr/bin/env python3
"""Writes a copy of a GGUF file whose Q2_K and Q3_K tensors have formats of grids.

  grid_model.py IN.gguf OUT.gguf

Another format for each tensor (but the same for a gate and its up), random
codes, and scales of weights around 0.05. What such a model says means nothing;
that two devices say the same does. Standard library only.
"""
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import FORMATS, GgufFile, Tensor

# Formats, and the root of the mean square of a random weight over d.
AMONG = {"Q3_K": [("IQ3_S", 150), ("IQ3_XXS", 140)],
         "Q2_K": [("IQ2_XXS", 60), ("IQ2_XS", 60), ("IQ2_S", 60), ("IQ1_S", 8), ("IQ1_M", 8)]}


def block(name, unit):
    """A block with d in its place: first, of IQ1_M in the top bits of four words."""
    out = bytearray(random.randbytes(FORMATS[name][2]))
    d = struct.pack("<e", 0.05 / unit * random.uniform(0.5, 1.5))
    if name != "IQ1_M":
        out[0:2] = d
    else:
        for i in range(4):
            nibble = d[i // 2] >> (i % 2 * 4) & 15
            at = 49 + 2 * i
            out[at] = (out[at] & 15) | nibble << 4
    return out


def main():
    random.seed(1)
    model = GgufFile.read(sys.argv[1])
    used = {old: {} for old in AMONG}
    for name, tensor in model.tensors.items():
        if tensor.format not in AMONG:
            continue
        among, own = AMONG[tensor.format], used[tensor.format]
        new = own.setdefault(name.replace("_up", "_gate"), among[len(own) % len(among)])
        blocks = b"".join(block(*new) for _ in range(math.prod(tensor.shape) // 256))
        model.tensors[name] = Tensor(new[0], tensor.shape, blocks)
        print(name, new[0])
    model.write(sys.argv[2])


main()
