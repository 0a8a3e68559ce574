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
# What rungs read of the packed file and the model, and the packed file.
read = sum(device["weight_bytes"] for rung in report["rungs"] for device in rung["devices"])
size = os.path.getsize(os.path.join(folder, "p.weights"))
assert size < read / 2, (size, read)
