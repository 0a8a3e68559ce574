#!/usr/bin/env python3
"""Writes a copy of a GGUF file in which Q2_K and Q3_K tensors are replaced by grid formats (IQ1, IQ2, IQ3).

  grid_model.py IN.gguf OUT.gguf

Each tensor gets another format (a gate and its up the same), random quantised
values, and scales such that weights are around 0.05. The model's output is
meaningless, but must be the same on two devices. Standard library only.
"""
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gguf_file import FORMATS, GgufFile, Tensor

# Formats that a tensor may have, and the root mean square of a random weight divided by d.
AMONG = {"Q3_K": [("IQ3_S", 150), ("IQ3_XXS", 140)],
         "Q2_K": [("IQ2_XXS", 60), ("IQ2_XS", 60), ("IQ2_S", 60), ("IQ1_S", 8), ("IQ1_M", 8)]}


def block(name, unit):
    """Returns a block with the scale d: at its beginning, or for IQ1_M in the top bits of four words."""
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
