#!/usr/bin/env python3
"""Does what `moert info --json` says of a plan's GPUs add up to the plan?

  gpu_info.py INFO.json PLAN.mlir [--links]   as moec inspect prints it
"""
import json
import re
import sys

PAGE = 4096
info, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
gpus = [device for device in info["devices"] if device["kind"] == "cuda"]
assert gpus and (info["link_bytes"] > 0) == ("--links" in sys.argv), info["link_bytes"]
for gpu in gpus:
    parts = [gpu[key] for key in ("weight_bytes", "kv_bytes", "activation_bytes", "workspace_bytes", "constant_bytes", "step_bytes")]
    assert gpu["needed_bytes"] == sum(parts) <= gpu["budget_bytes"] and min(parts[:3]) > 0, gpu
    assert gpu["slot_bytes"] <= gpu["workspace_bytes"] and gpu["pinned"]["staging_bytes"] >= 1 << 20, gpu
    # Streamed weights are pinned in whole pages.
    name = re.search(rf'%(\S+) = plan.device "{gpu["name"]}"', text).group(1)
    streamed = re.findall(rf"plan.resident %(\S+) on %{re.escape(name)} streamed", text)
    sizes = []
    for weight in streamed:
        experts, stride = re.search(rf'%{re.escape(weight)} = plan.weight .* : (\d+)x.* strides \[(\d+), ', text).groups()
        sizes.append(int(experts) * int(stride))
    pinned = gpu["pinned"]["streamed_weight_bytes"]
    assert sum(sizes) <= pinned <= sum(sizes) + 2 * PAGE * len(sizes), (pinned, sizes)
    assert (gpu["slot_bytes"] > 0) == bool(sizes)
    if sizes:
        # An instruction's weights are streamed in at least two parts, into alternating slots.
        assert max(sizes) <= gpu["slot_bytes"] <= sum(sizes), (gpu["slot_bytes"], sizes)
assert any("streamed" in line for line in text.splitlines() if "plan.resident" in line) == any(gpu["slot_bytes"] for gpu in gpus)
