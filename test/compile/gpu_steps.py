"""gpu_steps.py PLAN.TXT [--most NODES]: what a decoded token costs a plan's GPUs,
from what `moec inspect` or `--emit plan` prints.

By layer, and in all: kernels; nodes of the captured graph, as
runtime/device/cuda/CudaQueue.cpp records it (a wait for each event, a copy of
the step's head behind waits, a write where others are told; none where a launch
of several does that itself); times that the GPU waits for a CPU. --most fails
where a layer has more nodes."""
import re
import sys


def main(path, most):
    text = open(path).read()
    kinds = dict(re.findall(r'(%[\w.]+) = plan\.device "[^"]*" (\w+)', text))
    queues = dict(re.findall(r"(%[\w.]+) = plan\.queue \w+ of (%[\w.]+)", text))
    decode = re.search(r'plan\.phase "decode"(.*?)\n    }', text, re.S).group(1)
    homes, layers, awaited = {}, {}, {}
    used = {device for device in re.findall(r"plan\.inst \w+ on (%[\w.]+) ", decode)}
    alone = sum(kinds[queues[queue]] == "cuda" for queue in used) == 1
    for line in decode.splitlines():
        found = re.match(r"\s*(?:(%\d+) = )?plan\.inst \w+ on (%[\w.]+) ", line)
        if not found:
            continue
        device = queues[found.group(2)]
        homes[found.group(1)] = device
        if kinds[device] != "cuda":
            continue
        layer = re.search(r" for %decode\.(blk\.\d+)\.", line)
        counts = layers.setdefault(layer.group(1) if layer else "else", [0, 0, 0])
        after = re.search(r" after (%\d+(?:, %\d+)*)", line)
        waits = after.group(1).split(", ") if after else []
        counts[2] += sum(kinds[homes[event]] == "cpu" for event in waits)
        # Among fused instructions, the last one has the launch and the first one waits.
        waits = awaited.pop(device, []) + waits
        kernels = line.count(" grid [")
        if not kernels:
            awaited[device] = waits
            continue
        fused = alone and "launches %fused__" in line
        in_launch = fused and len(waits) == 1 and " grid [1, 1, 1] " in line
        tells = " signals" in line and not (fused and "__all_" in line)
        counts[0] += kernels
        counts[1] += kernels + tells + (0 if in_launch or not waits else len(waits) + 1)
    worst = max((counts for name, counts in layers.items() if name != "else"), key=lambda counts: counts[1])
    every = [sum(column) for column in zip(*layers.values())]
    print(f"a layer at most: {worst[0]} kernels, {worst[1]} nodes, {worst[2]} waits for a CPU")
    print(f"a token: {every[0]} kernels, {every[1]} nodes, {every[2]} waits for a CPU")
    return 1 if most and worst[1] > most else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 0))
