"""decode_clock.py FOLDER MODEL MOST [OPTIONS of moec...]

Compiles a model of holes for 4090+xeon and prints plan_clock's time of a decoded
token. Fails if neither DRAM, L2 nor tensor cores work for more than MOST percent of
it, or if moec predicted a time for the GPU that differs by more than 25 %: then
its rates are of other kernels (cuda_clock --targets).
"""
import json
import os
import subprocess
import sys

folder, model, most, *options = sys.argv[1:]
shapes = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gpu-kit", "shapes.py")
gguf, plan = os.path.join(folder, model + ".gguf"), os.path.join(folder, model + ".fb")
subprocess.run([sys.executable, shapes, model, gguf], check=True, stdout=subprocess.DEVNULL)
target = json.loads(subprocess.run(["moec", "targets", "4090+xeon", "--json"], check=True, stdout=subprocess.PIPE).stdout)
target["devices"][0]["instruction_us"] = 0.65  # The time for a graph node in the simulation; published runs take longer.
description = os.path.join(folder, "target.json")
with open(description, "w") as file:
    json.dump(target, file)
subprocess.run(["moec", "compile", gguf, "--target-file", description, "-c", "8192", "--weights", "pack", "--blank-weights", *options,
                "-o", plan], check=True, stdout=subprocess.DEVNULL)
found = json.loads(subprocess.run(["plan_clock", plan, "--json"], check=True, stdout=subprocess.PIPE).stdout)
idle = 100 * (1 - found["busy_seconds"] / found["seconds"])
print(f"{model}: {found['seconds'] * 1e3:.2f} ms ({found['seconds_without_prefetch'] * 1e3:.2f} without prefetches), {found['kernels']} launches, {found['other_nodes']} other nodes, {idle:.1f} % idle")
assert idle <= float(most), f"neither DRAM, L2 nor tensor cores work for {idle:.1f} % of a token; at most {most} % are allowed"

explained = json.loads(subprocess.run(["moec", "explain", plan, "--json"], check=True, stdout=subprocess.PIPE).stdout)
decode = next(phase for phase in explained["phases"] if phase["name"] == "decode")
assert decode["typical_cached"] == 4096, "plan_clock's position is another one"
# The clock knows no link to the host.
predicted = sum(op["seconds"] for op in decode["ops"] if op["device"] == "gpu0" and not op["part"].endswith(("to_gpu0", "to_cpu0")))
print(f"predicted: {predicted * 1e3:.2f} ms")
# moec prices each kernel by itself, with its weights in DRAM.
assert 0.75 < predicted / found["seconds_without_prefetch"] < 1.25, "moec's prediction is more than 25 % off"
