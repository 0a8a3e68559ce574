"""Checks that a part with more of everything is never predicted to be slower for the same plan.

Draws pairs of shipped machines in which the second has at least what the first has: memory, cores,
peaks, what kernels reach of them, links and barriers. GPUs are compared within an architecture, since
kernels differ between them. Runs moec plan with the same placement for both.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys

PEAKS = {"read": "gbps", "int8": "tops", "float": "tflops", "bf16": "tflops", "unpack": "gweights",
         "link": "gbps"}
ISAS = {"ref": 0, "avx2": 1, "avx512": 2, "amx": 3}
TOLERANCE = 1e-3


def moec(*args):
    return json.loads(subprocess.run(["moec", *args, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def figures(part):
    """Returns what may only be higher in a better part; costs are negative."""
    peaks = [part.get(f"{name}_{unit}", 0) for name, unit in PEAKS.items()]
    reached = [peak * part.get(name + "_efficiency", 1) for name, peak in zip(PEAKS, peaks)]
    budget = part["memory_gib"] - part.get("reserved_gib", 0)
    return [budget, part["cores"], ISAS.get(part.get("isa"), 0), *peaks, *reached,
            -part.get("barrier_us", 0), -part.get("link_latency_us", 0)]


def is_better(first, second):
    if any(first.get(key) != second.get(key) for key in ("kind", "arch", "numa_nodes")):
        return False
    return all(b >= a for a, b in zip(figures(first), figures(second)))


def slower(model, pairs, machine_of, options):
    """Yields a line for each pair whose second part is predicted to be slower."""
    names = [name for pair in pairs for name in pair]
    plans = moec("plan", model, "--targets", ",".join(map(machine_of, names)), *options)
    for i, (first, second) in enumerate(pairs):
        for speed in ("prefill_tokens_per_second", "decode_tokens_per_second"):
            a, b = (plan[speed] for plan in plans[2 * i:2 * i + 2])
            if b < a * (1 - TOLERANCE):
                yield f"{' '.join(options)}: {speed}: {first} {a:.4g}, {second} {b:.4g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=5, help="of GPUs and of CPUs")
    args = parser.parse_args()
    parts = {name: moec("targets", name)["devices"][0] for name in moec("targets") if name != "native"}
    better = [pair for pair in itertools.permutations(parts, 2) if is_better(*(parts[name] for name in pair))]
    draw = random.Random(args.seed)
    wrong, count = [], 0
    for kind, machine_of, weights in (("cuda", "{}+xeon", "pack"), ("cuda", "{}+xeon", "reference"),
                                      ("cpu", "4090+{}", "pack")):
        pairs = draw.sample([pair for pair in better if parts[pair[0]]["kind"] == kind], args.pairs)
        options = ["-ngl", "99", "-ot", "exps=CPU", "--weights", weights]
        wrong += slower(args.model, pairs, machine_of.format, options)
        count += len(pairs)
    print(*wrong, f"{count} pairs, {len(wrong)} wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
