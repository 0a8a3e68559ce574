#!/usr/bin/env python3
"""Writes a copy of a GGUF file whose Q2_K and Q3_K tensors have formats of grids.

  grid_model.py IN.gguf OUT.gguf

A format that fits into the bytes of the tensor's blocks, another for each tensor
(but the same for a gate and its up), random codes, and scales of weights around
0.05. What such a model says means nothing; that two devices say the same does.
Standard library only.
"""
import random
import struct
import sys

Q2_K, Q3_K = 10, 11
# Type number, bytes of a block of 256, and the root of the mean square of a
# random weight over d.
LARGE = [(21, 110, 150), (18, 98, 140)]  # IQ3_S, IQ3_XXS
SMALL = [(16, 66, 60), (17, 74, 60), (22, 82, 60), (19, 50, 8), (29, 56, 8)]  # IQ2_XXS, XS, S, IQ1_S, M
IQ1_M = 29
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 4 + 4

    def number(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            element, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(element)
        else:
            self.at += SIZES[kind]


def block(kind, size, unit):
    """A block with d in its place: first, of IQ1_M in the top bits of four words."""
    out = bytearray(random.randbytes(size))
    d = struct.pack("<e", 0.05 / unit * random.uniform(0.5, 1.5))
    if kind != IQ1_M:
        out[0:2] = d
    else:
        for i in range(4):
            nibble = d[i // 2] >> (i % 2 * 4) & 15
            at = 49 + 2 * i
            out[at] = (out[at] & 15) | nibble << 4
    return out


def main():
    data = bytearray(open(sys.argv[1], "rb").read())
    random.seed(1)
    reader = Reader(data)
    tensors, keys = reader.number("Q"), reader.number("Q")
    for _ in range(keys):
        reader.string()
        reader.skip(reader.number("I"))
    found, used = [], {Q2_K: {}, Q3_K: {}}
    for _ in range(tensors):
        name = reader.string()
        elements = 1
        for _ in range(reader.number("I")):
            elements *= reader.number("Q")
        at, kind = reader.at, reader.number("I")
        found.append((name, elements, kind, at, reader.number("Q")))
    start = (reader.at + 31) // 32 * 32
    for name, elements, kind, at, offset in found:
        if kind not in (Q2_K, Q3_K):
            continue
        among = SMALL if kind == Q2_K else LARGE
        own = used[kind]
        new = own.setdefault(name.replace("_up", "_gate"), among[len(own) % len(among)])
        struct.pack_into("<I", data, at, new[0])
        blocks = b"".join(block(*new) for _ in range(elements // 256))
        data[start + offset:start + offset + len(blocks)] = blocks
        print(name, new[0])
    open(sys.argv[2], "wb").write(data)


main()
