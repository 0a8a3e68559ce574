#!/usr/bin/env python3
"""Flips a bit of a weight in its model file: damage_weight.py PLAN.mlir WEIGHT MODEL.gguf

PLAN.mlir is what moec inspect prints. The bit is on a page of the weight that is not its sample (samplesOf() in
runtime/base/ContentHash.cpp) in the tests that use this. Standard library only.
"""
import re
import sys

PAGE = 4096


def main():
    plan, weight, model = sys.argv[1:]
    with open(plan) as file:
        found = re.search(rf'plan.weight "{re.escape(weight)}" in %gguf\S* at (\d+)', file.read())
    at = (int(found[1]) // PAGE + 3) * PAGE + 100
    with open(model, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))
    print(f"byte {at} of {weight}")


if __name__ == "__main__":
    main()
