#!/usr/bin/env python3
"""Does placement predict what the plan adds up to, with experts deferred and without?  defer_prediction.py FOLDER"""
import json
import re
import sys

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
folder, placed, added = sys.argv[1], {}, {}
for name in ("now", "late"):
    remark = re.search(r"predicted ([0-9.]+) (ns|us|ms|s) a decoded token", open(f"{folder}/{name}.log").read())
    placed[name] = float(remark.group(1)) * UNITS[remark.group(2)]
    added[name] = 1 / json.load(open(f"{folder}/{name}.json"))["decode_tokens_per_second"]
    print(f"{name}: placement {placed[name] * 1e3:.2f} ms, plan {added[name] * 1e3:.2f} ms")
    assert abs(placed[name] / added[name] - 1) < 0.05, name
# Both predict the same saving, and it is larger than the tolerance.
change = {kind: times["late"] - times["now"] for kind, times in (("placed", placed), ("added", added))}
assert change["added"] < -0.06 * added["now"] and abs(change["placed"] - change["added"]) < 0.04 * added["now"], change
