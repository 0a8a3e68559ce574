#!/usr/bin/env python3
"""Compares logits with a reference and fails when they are further apart than allowed.

  compare_logits.py OURS.npy REFERENCE.npy [--rel X] [--mean-kl X] [--greedy ID,ID,...]
                    [--ids ID,ID,... --perplexity REL]

Both files are [tokens, vocab] of float16, float32 or float64; ours may have more
rows than the reference. A reference with fewer rows than --ids has every second
(third, ...) row of those ids, the last one included. --rel bounds |ours - ref| / |ref| over all logits
together, --mean-kl the mean over rows of KL(ref || ours) in nats. --greedy: row
(rows - count + i) of ours must have its maximum at the i-th id, which is what a
greedy continuation fed back means. --perplexity bounds the relative difference
of the two perplexities of --ids, over the rows that the reference has. Standard
library only.
"""
import argparse
import array
import ast
import functools
import math
import struct
import sys


def load(path):
    with open(path, "rb") as f:
        magic = f.read(8)
        assert magic[:6] == b"\x93NUMPY" and magic[6] == 1, f"{path}: not a version 1 npy file"
        header = ast.literal_eval(f.read(struct.unpack("<H", f.read(2))[0]).decode())
        assert not header["fortran_order"], path
        raw = f.read()
    rows, cols = header["shape"]
    code = {"<f2": "e", "<f4": "f", "<f8": "d"}[header["descr"]]
    flat = struct.unpack(f"<{rows * cols}{code}", raw) if code == "e" else array.array(code, raw)
    assert len(flat) == rows * cols, f"{path}: {len(flat)} values for shape {header['shape']}"
    return [flat[r * cols:(r + 1) * cols] for r in range(rows)]


def log_softmax(row):
    top = max(row)
    total = math.log(math.fsum(math.exp(x - top) for x in row)) + top
    return [x - total for x in row]


# Logits of a reference, which fidelity.py compares with those of each of its modes.
@functools.cache
def reference(path):
    return load(path)


@functools.cache
def reference_logs(path):
    return [log_softmax(row) for row in reference(path)]


def divergences(ours, ref):
    """KL(ref || ours) of each row, in nats, from rows of log probabilities."""
    return [math.fsum(math.exp(q) * (q - p) for p, q in zip(o, r)) for o, r in zip(ours, ref)]


def ids(text):
    return [int(x) for x in text.split(",")]


def compared_rows(count, tokens):
    """The numbers of a reference's rows among those of `tokens` ids."""
    step = -(-tokens // count)
    rows = range(tokens - 1, -1, -step)[::-1]
    assert len(rows) == count, f"{count} rows are not every row, every second, ... of {tokens} ids"
    return rows


def main(words=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ours")
    p.add_argument("reference")
    p.add_argument("--rel", type=float)
    p.add_argument("--mean-kl", type=float)
    p.add_argument("--greedy", type=ids)
    p.add_argument("--ids", type=ids)
    p.add_argument("--perplexity", type=float)
    p.add_argument("--then", metavar="FILE", help="the rows that follow those of `ours`")
    a = p.parse_args(words)
    ours, ref = load(a.ours), reference(a.reference)
    if a.then:
        ours += load(a.then)
    assert len(ours) >= len(ref) and len(ours[0]) == len(ref[0]), \
        f"shapes differ: ours {len(ours)} x {len(ours[0])}, reference {len(ref)} x {len(ref[0])}"
    rows = compared_rows(len(ref), len(a.ids)) if a.ids else range(len(ref))
    every, ours = ours, [ours[row] for row in rows]
    ok = True

    def check(what, value, bound):
        nonlocal ok
        fine = value <= bound  # False for NaN.
        ok &= fine
        print(f"{what}: {value:.3g} ({'within' if fine else 'OVER'} {bound:g})")

    if a.rel is not None:
        error = math.fsum((x - y) ** 2 for o, r in zip(ours, ref) for x, y in zip(o, r))
        norm = math.fsum(y * y for r in ref for y in r)
        check("relative error", math.sqrt(error / norm), a.rel)
    if a.mean_kl is not None or a.perplexity is not None:
        lo, lr = [log_softmax(r) for r in ours], reference_logs(a.reference)
    if a.mean_kl is not None:
        kl = divergences(lo, lr)
        check("mean KL", math.fsum(kl) / len(kl), a.mean_kl)
    if a.perplexity is not None:
        # The last row predicts an id that is not known.
        known = [(i, a.ids[row + 1]) for i, row in enumerate(rows) if row + 1 < len(a.ids)]
        ppl = [math.exp(-math.fsum(logs[i][token] for i, token in known) / len(known)) for logs in (lo, lr)]
        print(f"perplexity: ours {ppl[0]:.4f}, reference {ppl[1]:.4f}")
        check("perplexity difference", abs(ppl[0] / ppl[1] - 1), a.perplexity)
    if a.greedy:
        got = [max(range(len(row)), key=row.__getitem__) for row in every[-len(a.greedy):]]
        print("greedy:", "equal" if got == a.greedy else f"got {got}, expected {a.greedy}")
        ok &= got == a.greedy
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
