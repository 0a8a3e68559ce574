"""Writes a target file with two CPUs that divide the cores and the memory of one.

Usage: moec targets NAME --json | two_cpus.py > FILE
"""
import json
import sys

cpu = next(d for d in json.load(sys.stdin)["devices"] if d["kind"] == "cpu")
cpu["cores"] = max(cpu["cores"] // 2, 1)
for key in ("memory_gib", "reserved_gib"):
    if key in cpu:
        cpu[key] /= 2
if "read_gbps_by_cores" in cpu:
    cpu["read_gbps_by_cores"] = cpu["read_gbps_by_cores"][: cpu["cores"]]
json.dump({"devices": [cpu, cpu]}, sys.stdout)
