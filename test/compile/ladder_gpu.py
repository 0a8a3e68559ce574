"""Whether the weights of FOLDER/p.fb are written once, for all rungs.

Usage: ladder_gpu.py FOLDER; its report is there too.
"""
import json
import os
import sys

folder = sys.argv[1]
report = json.load(open(os.path.join(folder, "report")))
assert [rung["context"] for rung in report["rungs"]] == [128, 128, 512], report
header = open(os.path.join(folder, "p.weights"), "rb").read(1 << 16).split(b"\0")[0]
weights = [line.split(" ") for line in header.decode().splitlines()[3:]]
stored = [(layout, name, size) for _, size, layout, _, name in weights]
assert len(set(stored)) == len(stored), "a weight is there twice"
# The bytes that rungs read from the packed file and from the model, and the size of the packed
# file.
read = sum(device["weight_bytes"] for rung in report["rungs"] for device in rung["devices"])
size = os.path.getsize(os.path.join(folder, "p.weights"))
assert size < read / 2, (size, read)
