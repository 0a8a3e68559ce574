"""Checks the report of a small kit that ran on the software GPU."""
import json
import os
import sys

folder = sys.argv[1]
lines = [json.loads(text) for text in open(os.path.join(folder, "report.jsonl"))]
head, steps = lines[0], {line["step"]: line for line in lines[1:]}
assert head["part"] == "head" and head["gpu"] == "software", head
markdown = open(os.path.join(folder, "report.md")).read()
assert "On the software GPU" in markdown

kit = json.load(open(os.path.join(folder, "kit.json")))
expected = {"machine", "flags and patterns", "greedy text three times", "cancel inside a step",
            "the same text by flags, host and walk", "fused launches", "conformance",
            "device tests", "instructions against the software GPU", "memory, link and pinning", "cuda_bench",
            "moert bench tiny", "the same shapes by torch", *(f"unit plan {unit['name']}" for unit in kit["units"])}
assert set(steps) == expected, set(steps) ^ expected
for name, line in steps.items():
    skips = name in ("cuda_bench", "the same shapes by torch")
    assert line["status"] == ("skipped" if skips else "ok"), line
    assert name in markdown, name

measured = steps["flags and patterns"]["figures"] + steps["memory, link and pinning"]["figures"]
probes = {line["probe"]: line for line in measured}
for name in ("flag_round_trip_kernel", "flag_round_trip_nodes", "read_by_kernel", "zero_copy_by_kernel", "pin_huge_pages"):
    assert probes[name]["value"] > 0, probes
assert probes["pattern_rounds"]["wrong_on_device"] == probes["pattern_rounds"]["wrong_on_host"] == 0
assert len(steps["greedy text three times"]["figures"]["sha256"]) == 3

tiny = steps["moert bench tiny"]["figures"]
assert {row["test"] for row in tiny["bench"]} == {"prompt", "decode"} and tiny["weights"] == "random"
experts = [row for row in tiny["by_part"] if row["part"] == "ffn_experts" and row["phase"] == "decode"]
assert experts[0]["predicted_ms"] > 0 and experts[0]["measured_ms"] > 0, experts
