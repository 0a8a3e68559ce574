#!/usr/bin/env python3
"""Writes test/data/dequant/vectors.tar.xz, with a file vectors.bin: random blocks
of every tensor format and the values that gguf-py, an implementation independent
of ours, reads from them. The build unpacks it.

Needs the packages gguf and numpy; the build does not. The result is checked in
and only changes when a format is added.

Per format, little-endian: u32 ggml type number, u32 blocks, the blocks' bytes,
then their elements as float32.
"""

import pathlib
import struct
import sys

import gguf
import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))
from pack_data import pack

# Offsets of the F16 numbers of a block; None if a value is the block.
FORMATS = {
    "F32": None,
    "F16": None,
    "BF16": None,
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "IQ1_S": (0,),
    "IQ2_XXS": (0,),
    "IQ2_XS": (0,),
    "IQ2_S": (0,),
    "IQ3_XXS": (0,),
    "IQ3_S": (0,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "IQ1_M": (),  # An F16 scale whose bits are in four pieces.
    "MXFP4": (),  # The scale is an exponent.
    "NVFP4": (),  # Scales are E4M3 numbers.
}
BLOCKS = 12
VALUES = 1024
# Largest, smallest normal, smallest subnormal, zeros, largest subnormal.
EXTREME_SCALES = [0x7BFF, 0xFBFF, 0x0400, 0x0001, 0x0000, 0x8000, 0x03FF]


def random_values(rng, kind):
    if kind == "F32":
        bits = rng.integers(0, 2**32, VALUES, dtype=np.uint32)
        return bits[np.isfinite(bits.view(np.float32))].view(np.uint8)
    bits = rng.integers(0, 2**16, VALUES, dtype=np.uint16)
    bits[: len(EXTREME_SCALES)] = EXTREME_SCALES
    exponent = 0x7C00 if kind == "F16" else 0x7F80
    return bits[(bits & exponent) != exponent].view(np.uint8)


def random_blocks(rng, kind, scale_offsets):
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    # The first block is all zero codes, the second all ones.
    blocks[0], blocks[1] = 0, 255
    for k, offset in enumerate(scale_offsets):
        scales = rng.normal(0, 0.1, BLOCKS).astype(np.float16)
        extremes = np.roll(EXTREME_SCALES, k).astype(np.uint16)
        scales[2 : 2 + len(extremes)] = extremes.view(np.float16)
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    if kind == "MXFP4":
        blocks[2:9, 0] = [0, 1, 2, 3, 251, 126, 127]
        blocks[9:, 0] = rng.integers(100, 140, BLOCKS - 9)
        blocks[:2, 0] = 120
    if kind == "IQ1_M":
        scales = rng.normal(0, 0.1, BLOCKS).astype(np.float16).view(np.uint16)
        scales[2:9] = EXTREME_SCALES
        for i in range(4):
            word = blocks[:, 49 + 2 * i]
            word[:] = word & 15 | (scales >> (4 * i) & 15).astype(np.uint8) << 4
    return blocks.reshape(-1)


def main():
    rng = np.random.default_rng(20240607)
    out = bytearray()
    for kind, scale_offsets in FORMATS.items():
        qtype = gguf.GGMLQuantizationType[kind]
        if scale_offsets is None:
            data = random_values(rng, kind)
        else:
            data = random_blocks(rng, kind, scale_offsets)
        values = gguf.quants.dequantize(data, qtype).astype("<f4")
        blocks = data.size // gguf.GGML_QUANT_SIZES[qtype][1]
        out += struct.pack("<II", int(qtype), blocks)
        out += data.tobytes() + values.tobytes()
    path = TESTS / "data" / "dequant" / "vectors.tar.xz"
    pack(path, {"vectors.bin": bytes(out)})
    print(f"{path.name}: {path.stat().st_size} bytes for {len(out)}")


if __name__ == "__main__":
    main()
