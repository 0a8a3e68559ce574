#!/usr/bin/env python3
"""Does what `moert info --json` says of a plan's GPUs add up to the plan?

  gpu_info.py INFO.json PLAN.mlir [--links] [--most-pinned GIB]   as moec inspect prints it
"""
import json
import re
import sys

PAGE = 4096
info, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
gpus = [device for device in info["devices"] if device["kind"] == "cuda"]
assert gpus and (info["link_bytes"] > 0) == ("--links" in sys.argv), info["link_bytes"]
all_pinned = 0
for gpu in gpus:
    parts = [gpu[key] for key in ("weight_bytes", "kv_bytes", "activation_bytes", "workspace_bytes", "constant_bytes", "step_bytes")]
    assert gpu["needed_bytes"] == sum(parts) <= gpu["budget_bytes"] and min(parts[:3]) > 0, gpu
    assert gpu["slot_bytes"] <= gpu["workspace_bytes"] and gpu["pinned"]["staging_bytes"] >= 1 << 20, gpu
    name = re.search(rf'%(\S+) = plan.device "{gpu["name"]}"', text).group(1)
    sizes = {"streamed": [], "pinned": []}
    for weight, mode in re.findall(rf"plan.resident %(\S+) on %{re.escape(name)} (streamed|pinned)", text):
        experts, stride = re.search(rf'%{re.escape(weight)} = plan.weight .* : (\d+)x.* strides \[(\d+), ', text).groups()
        sizes[mode].append(int(experts) * int(stride))
    # What the GPU reads itself is pinned in whole pages; other weights pass a ring of at most 1 GiB.
    pinned, ring = (gpu["pinned"][key] for key in ("streamed_weight_bytes", "ring_bytes"))
    assert sum(sizes["pinned"]) <= pinned <= sum(sizes["pinned"]) + 2 * PAGE * len(sizes["pinned"]), (pinned, sizes)
    assert (ring > 0) == bool(sizes["streamed"]) and ring <= min(1 << 30, sum(sizes["streamed"]) + 128), (ring, sizes)
    all_pinned += sum(gpu["pinned"].values())
    sizes = sizes["streamed"] + sizes["pinned"]
    assert (gpu["slot_bytes"] > 0) == bool(sizes)
    if sizes:
        # An instruction's weights are streamed in at least two parts, into alternating slots.
        assert min(max(sizes), 1 << 28) <= gpu["slot_bytes"] <= sum(sizes), (gpu["slot_bytes"], sizes)
if "--most-pinned" in sys.argv:
    assert (1 << 30) * 0.9 < all_pinned <= float(sys.argv[sys.argv.index("--most-pinned") + 1]) * (1 << 30), all_pinned
assert bool(re.search("plan.resident .*(streamed|pinned)", text)) == any(gpu["slot_bytes"] for gpu in gpus)
