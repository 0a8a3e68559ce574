#!/usr/bin/env python3
"""Writes a copy of a GGUF file whose quantised tensors have another format.

  requantise.py IN.gguf OUT.gguf FORMAT

The PyPI package gguf writes the formats that it supports. NVFP4 and the grid
formats (IQ1 to IQ3) are written here: each group of weights becomes the nearest
point of the grid, with scales by least squares. There is no search and no
importance matrix, so models lose more than with good quantisers. Needs numpy and gguf.
"""
import os
import sys
from dataclasses import dataclass

import gguf
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gguf_file import FORMATS, GgufFile, Tensor


@dataclass
class Grid:
    """Weights are d (first + step n) times a row of a grid, each with a sign, or all shifted by a delta."""
    sub: int  # elements that share a scale
    first: float
    step: float
    count: int  # Number of values of n.
    even: bool = False  # Whether the number of signs set among eight is even, so that the last one follows from the others.
                        # negative
    delta: int = 0  # Elements that share a delta; 0: there are signs instead.


GRIDS = {
    "IQ2_XXS": Grid(32, 0.125, 0.25, 16, even=True),
    "IQ2_XS": Grid(16, 0.125, 0.25, 16, even=True),
    "IQ2_S": Grid(16, 0.125, 0.25, 16),
    "IQ3_XXS": Grid(32, 0.25, 0.5, 16, even=True),
    "IQ3_S": Grid(32, 1, 2, 16),
    "IQ1_S": Grid(32, 1, 2, 8, delta=32),
    "IQ1_M": Grid(16, 1, 2, 8, delta=8),
}
DELTA = 0.125


def grid_points(name):
    traits = getattr(gguf.quants, name)
    traits.init_grid()
    return traits.grid.reshape(traits.grid_shape)


def nearest(groups, points):
    """Returns, for each group, the nearest row of `points` and the square of their distance."""
    half = (points * points).sum(-1) / 2
    best = np.empty(len(groups), np.int64)
    # Distances to all points, for as many groups as fit in a core's own cache.
    some = max((1 << 18) // len(points), 1)
    for at in range(0, len(groups), some):
        best[at:at + some] = (groups[at:at + some] @ points.T - half).argmax(-1)
    return best, ((groups - points[best])**2).sum(-1)


def ratio(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def coded_scales(ideal, grid):
    """Returns F16 numbers d and codes n, [blocks, 1] and [blocks, sub-blocks], and d (first + step n)."""
    d = ideal.max(-1, keepdims=True) / (grid.first + grid.step * (grid.count - 1))
    d = d.astype(np.float16).astype(np.float32)
    n = np.clip(np.round(ratio(ideal / grid.step, np.broadcast_to(d, ideal.shape)) - grid.first / grid.step), 0, grid.count - 1)
    return d, n.astype(np.uint32), d * (grid.first + grid.step * n)


def coded_signs(x, grid):
    """Returns eight sign bits for eight elements, and x without those signs."""
    negative = x.reshape(-1, 8) < 0
    if grid.even:
        odd = np.flatnonzero(negative.sum(-1) % 2)
        least = np.abs(x.reshape(-1, 8)[odd]).argmin(-1)
        negative[odd, least] ^= True
    signs = np.where(negative, np.float32(-1), np.float32(1)).reshape(x.shape)
    return np.packbits(negative, axis=-1, bitorder="little").reshape(-1), x * signs, signs


def coded_rows(x, scale, points, grid):
    """Returns rows of the grid, signs or deltas as bits, and the unscaled weights that they encode. x: [blocks, 256]."""
    unscaled = ratio(x.reshape(-1, grid.sub), np.broadcast_to(scale.reshape(-1, 1), (scale.size, grid.sub))).reshape(x.shape)
    size = points.shape[-1]
    if not grid.delta:
        bits, unscaled, signs = coded_signs(unscaled, grid)
        rows, _ = nearest(unscaled.reshape(-1, size), points)
        return rows, bits, points[rows].reshape(x.shape) * signs
    both = [nearest(unscaled.reshape(-1, size) - delta, points) for delta in (DELTA, -DELTA)]
    errors = [error.reshape(-1, grid.delta // size).sum(-1) for _, error in both]
    bits = (errors[1] < errors[0]).repeat(grid.delta // size)
    rows = np.where(bits, both[1][0], both[0][0])
    moved = points[rows] + np.where(bits, -DELTA, DELTA).astype(np.float32)[:, None]
    return rows, bits.astype(np.uint32), moved.reshape(x.shape)


def quantise_grid(name, x):
    """x: [blocks, 256], float32."""
    grid, points = GRIDS[name], grid_points(name)
    # Initial scales from the average magnitudes of weights and grid numbers; then by least squares.
    subs = x.reshape(len(x), -1, grid.sub)
    ideal = np.sqrt((subs * subs).mean(-1) / (points * points).mean())
    for _ in range(2):
        d, n, scale = coded_scales(ideal, grid)
        rows, bits, unscaled = coded_rows(x, scale, points, grid)
        unscaled = unscaled.reshape(subs.shape)
        ideal = np.maximum(ratio((subs * unscaled).sum(-1), (unscaled * unscaled).sum(-1)), 0)
    return PACKERS[name](len(x), d.astype(np.float16), n, rows, bits)


def fields(count, *parts):
    """Returns the bytes of blocks; in each, the arrays follow each other."""
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8).reshape(count, -1) for part in parts], axis=-1)


def gathered(values, shifts, kind):
    """Packs values into numbers, each shifted to its place."""
    values = values.reshape(-1, len(shifts)).astype(np.uint32)
    return np.bitwise_or.reduce(values << np.array(shifts, np.uint32), axis=-1).astype(kind)


def nibbles(values):
    return gathered(values, (0, 4), np.uint8)


def signs_and_scales(n, bits):
    """Packs four times seven signs, and a scale above them."""
    return gathered(bits & 127, (0, 7, 14, 21), np.uint32) | n.reshape(-1) << 28


def pack_iq2_xxs(count, d, n, rows, bits):
    words = np.stack([gathered(rows, (0, 8, 16, 24), np.uint32), signs_and_scales(n, bits)], -1)
    return fields(count, d, words)


def pack_iq2_xs(count, d, n, rows, bits):
    return fields(count, d, (rows | (bits & 127).astype(np.int64) << 9).astype(np.uint16), nibbles(n))


def pack_iq2_s(count, d, n, rows, bits):
    return fields(count, d, rows.astype(np.uint8), bits, gathered(rows >> 8, (0, 2, 4, 6), np.uint8), nibbles(n))


def pack_iq3_xxs(count, d, n, rows, bits):
    return fields(count, d, rows.astype(np.uint8), signs_and_scales(n, bits))


def pack_iq3_s(count, d, n, rows, bits):
    return fields(count, d, rows.astype(np.uint8), gathered(rows >> 8, range(8), np.uint8), bits, nibbles(n))


def pack_iq1_s(count, d, n, rows, bits):
    high = gathered(rows >> 8, (0, 3, 6, 9), np.uint16) | (n.reshape(-1) << 12 | bits[::4] << 15).astype(np.uint16)
    return fields(count, d, rows.astype(np.uint8), high)


def pack_iq1_m(count, d, n, rows, bits):
    parts = d.view(np.uint16).astype(np.uint32) >> np.array([0, 4, 8, 12], np.uint32) & 15
    scales = gathered(n, (0, 3, 6, 9), np.uint16) | (parts.reshape(-1) << 12).astype(np.uint16)
    return fields(count, rows.astype(np.uint8), nibbles(rows >> 8 | bits << 3), scales)


PACKERS = {name: globals()["pack_" + name.lower()] for name in GRIDS}


def quantise_nvfp4(x):
    """x: [blocks, 64]. Values are doubled FP4; the scale of sixteen is half of an E4M3 number."""
    traits = gguf.quants.NVFP4
    values = np.array(traits.kvalues, np.float32)
    subs = x.reshape(len(x), 4, 16)
    scales = traits.fp32_to_ue4m3(np.abs(subs).max(-1) / 6)
    decoded = traits.ue4m3_to_fp32(scales).astype(np.float32)[..., None]
    codes = np.abs(subs[..., None] - (decoded * values)[:, :, None]).argmin(-1).astype(np.uint8)
    return fields(len(x), scales.astype(np.uint8), codes[..., :8] | codes[..., 8:] << 4)


def quantise_ternary(name, x):
    """Rounds weights below the mean magnitude to 0; gguf's own limit, half of the largest, leaves few others."""
    limit = 2 * np.abs(x).mean(-1, keepdims=True)
    return gguf.quants.quantize(np.clip(x, -limit, limit), gguf.GGMLQuantizationType[name])


def quantise(name, x):
    """Returns the bytes of an array of float32 whose rows are a multiple of a block."""
    _, elements, size = FORMATS[name]
    blocks = x.reshape(-1, elements)
    if name in GRIDS:
        data = quantise_grid(name, blocks)
    elif name == "NVFP4":
        data = quantise_nvfp4(blocks)
    elif name.startswith("TQ"):
        data = quantise_ternary(name, blocks)
    else:
        data = gguf.quants.quantize(blocks, gguf.GGMLQuantizationType[name])
    assert data.shape == (len(blocks), size), (name, data.shape)
    return data.tobytes()


def values_of(tensor):
    """Returns a tensor as float32, outermost dimension first."""
    data = np.frombuffer(bytes(tensor.data), np.uint8)
    return gguf.quants.dequantize(data, gguf.GGMLQuantizationType[tensor.format]).reshape(tensor.shape[::-1])


def requantise(model, name):
    """Changes all tensors of `model` except vectors, routers and others in F32."""
    for key, tensor in model.tensors.items():
        if tensor.format != "F32":
            model.tensors[key] = Tensor(name, tensor.shape, quantise(name, values_of(tensor)))


if __name__ == "__main__":
    source, out, name = sys.argv[1:]
    changed = GgufFile.read(source)
    requantise(changed, name)
    changed.write(out)
