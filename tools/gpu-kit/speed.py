"""The steps of gpu-kit.sh run speed."""
import glob
import json
import os
import re
import shutil
import threading

import run
import steps

# Rows of cuda_bench: a name, the time, and for most rates.
ROW = re.compile(r"^(\S.*?)\s+([\d.]+) us(?:\s+([\d.]+) GB/s)?(?:\s+([\d.]+) TOPS)?")
# What is left of memory for the system and the program when weights are files in memory.
SPARE_BYTES = 8 << 30

# The shapes of cuda_bench and of moert bench; prints a JSON object a line.
TORCH = r"""
import json, torch
import torch.nn.functional as F
gpu = torch.cuda.get_device_name(0)
def seconds(body):
    for _ in range(3): body()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(10):
        begin.record(); body(); end.record(); end.synchronize(); times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times)[5]
def show(name, body, operations, read):
    s = seconds(body)
    print(json.dumps({"row": name, "us": s * 1e6, "tflops": operations / s / 1e12, "gbps": read / s / 1e9}), flush=True)
r = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
print(json.dumps({"row": "torch", "version": torch.__version__, "gpu": gpu}), flush=True)
for rows in (1, 8, 512):
    for n, k in ((8192, 7168), (2048, 2048), (576, 7168), (7168, 2048)):
        w = [r(n, k) for _ in range(max(1, (1 << 29) // (2 * n * k)))]; x = r(rows, k); i = [0]
        def product():
            i[0] = (i[0] + 1) % len(w); return F.linear(x, w[i[0]])
        show(f"linear bf16 {n}x{k} T={rows}", product, 2 * n * k * rows, 2 * n * k)
for heads, shared, size, context, rows in ((32, 4, 128, 4096, 1), (32, 4, 128, 32768, 1), (32, 4, 128, 4096, 512),
                                           (64, 8, 64, 4096, 1), (32, 4, 128, 4096, 4096)):
    q, k, v = r(1, heads, rows, size), r(1, shared, context, size), r(1, shared, context, size)
    def attention():
        return F.scaled_dot_product_attention(q, k, v, is_causal=rows == context, enable_gqa=True)
    show(f"attention heads={heads}/{shared} size={size} context={context} T={rows}", attention,
         4 * heads * size * rows * context / (2 if rows == context else 1), 4 * shared * size * context)
"""


def of(kit):
    yield "memory, link and pinning", 60, rates
    yield "cuda_bench", 60, kernels
    for plan in kit.kit["speed"]:
        yield f"moert bench {plan['name']}", 150 if plan["name"] != "tiny" else 30, lambda kit, plan=plan: bench(kit, plan)
    yield "the same shapes by torch", 60, torch


def rates(kit):
    return steps.probe(kit, "launches", "reads", "link", "pinning")


class Clocks:
    """Asks for clocks, heat and power as long as something is measured."""
    QUERY = ["clocks.sm", "clocks.mem", "temperature.gpu", "power.draw"]

    def __enter__(self):
        self.samples, self.ended = [], threading.Event()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()
        return self

    def ask(self):
        while not self.ended.wait(1):
            text = steps.text_of("nvidia-smi", "--query-gpu=" + ",".join(self.QUERY), "--format=csv,noheader,nounits")
            try:
                self.samples.append([float(word) for word in text.splitlines()[0].split(",")])
            except (AttributeError, IndexError, ValueError):
                return

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def figures(self):
        """The least and the most of each."""
        return {name: [min(values), max(values)] for name, values in zip(self.QUERY, zip(*self.samples))}


def kernels(kit):
    if kit.software:
        raise run.Skipped("times of the software GPU mean nothing")
    if not kit.nvrtc:
        raise run.Skipped("this machine has no NVRTC")
    with Clocks() as clocks:
        try:
            output, error = kit.run(kit.program("cuda_bench")), None
        except run.Failed as failed:
            kit.log.seek(0)  # The rows that were printed before the failure.
            output, error = kit.log.read(), failed
    figures = {"rows": rows_of(output), "clocks": clocks.figures()}
    if error:
        raise type(error)(str(error), figures)
    if not figures["rows"]:
        raise run.Failed("cuda_bench printed no row")
    return figures


def rows_of(output):
    rows = []
    for line in output.splitlines():
        row = ROW.match(line)
        if row:
            rates = {key: float(value) for key, value in (("gbps", row[3]), ("tops", row[4])) if value}
            rows.append({"row": row[1], "us": float(row[2]), **rates})
    return rows


def torch(kit):
    if kit.software:
        raise run.Skipped("times of the software GPU mean nothing")
    try:
        kit.run("python3", "-c", "import torch; assert torch.cuda.is_available()")
    except run.Failed:
        raise run.Skipped("python3 has no torch that sees the GPU") from None
    output = kit.run("python3", "-c", TORCH, may_fail=True)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


#
# Plans of full size
#

class Weights:
    """Makes the random weights of a plan for as long as it is measured: in memory where they fit, else on the disk."""

    def __init__(self, kit, plan):
        self.kit, self.plan = kit, plan

    def __enter__(self):
        kit, name, size = self.kit, self.plan["name"], self.plan["weights"]["bytes"]
        remove_stale()
        for place in ("/dev/shm", kit.work):
            free = shutil.disk_usage(place).free if os.path.isdir(place) else 0
            if place == "/dev/shm":
                free = min(free, available_memory() - SPARE_BYTES)
            if free > size:
                break
        else:
            raise run.Skipped(f"no room for {size / 1e9:.1f} GB of weights")
        self.folder = os.path.join(place, f"gpu-kit-{os.getpid()}")
        os.makedirs(self.folder, exist_ok=True)
        # A plan finds its weights beside itself.
        shutil.copy(kit.plan(self.plan["plan"]), self.folder)
        with open(os.path.join(self.folder, name + ".weights"), "wb") as file:
            with open(kit.plan(name + ".header"), "rb") as header:
                shutil.copyfileobj(header, file)
            file.truncate(size)
        try:
            kit.run(kit.program("moe-random-weights"), self.path())
        except BaseException:
            self.__exit__()
            raise
        return self

    def path(self):
        return os.path.join(self.folder, self.plan["plan"])

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_stale():
    """Weights of runs that were killed."""
    for folder in glob.glob("/dev/shm/gpu-kit-*"):
        if not os.path.exists(f"/proc/{folder.rpartition('-')[2]}"):
            shutil.rmtree(folder, ignore_errors=True)


def available_memory():
    found = re.search(r"MemAvailable:\s*(\d+) kB", open("/proc/meminfo").read())
    return int(found[1]) << 10 if found else 0


def bench(kit, plan):
    """Tokens per second by depth, with all threads and with one less, and a profile beside the prediction."""
    if kit.software and plan["name"] != "tiny":
        raise run.Skipped("too large for the software GPU")
    prompt, gen = (2, 1) if kit.software else (512, 32)
    figures = {"weights": "random", "bench": [], "by_part": []}

    def rows(weights, prompt, depth, threads, *options):
        # Each run and the one before them fills the cache anew.
        runs = ["2"] if depth < 16384 and not kit.software else ["1", "--no-warmup"]
        return json.loads(kit.run(kit.moert, "bench", weights.path(), "-p", prompt, "-n", gen, "-d", depth, "-t", threads,
                                  "-r", *runs, *options, "--no-limits", "-o", "json"))

    with Weights(kit, plan) as weights:
        try:
            for threads in [0, max(1, kit.cores - 1)] if plan["fewer_threads"] else [0]:
                for depth in plan["depths"][:1] if kit.software or threads else plan["depths"]:
                    for row in rows(weights, prompt, depth, threads):
                        figures["bench"].append({"test": "prompt" if row["n_prompt"] else "decode", "depth": depth,
                                                 "threads": row["n_threads"], "tokens_per_second": max(row["samples_ts"])})
                if not threads:
                    figures["by_part"] = parts(kit, plan, weights, prompt, gen)
            # The gain from launches that prefetch weights of later ones to L2.
            (row,) = rows(weights, 0, plan["depths"][0], 0, "--no-gpu-prefetch")
            figures["decode_without_prefetch"] = max(row["samples_ts"])
        except run.Failed as error:
            raise type(error)(str(error), figures) from None
    return figures


def parts(kit, plan, weights, prompt, gen):
    """Milliseconds of a step by part of the model: predicted, and measured at about the depth of the prediction."""
    phases = {phase["name"]: phase for phase in plan["explained"]["phases"]}
    depth = 0 if kit.software else phases["decode"]["cached"]
    measured = json.loads(kit.run(kit.moert, "profile", weights.path(), "-p", prompt, "-n", gen, "-d", depth, "--no-limits",
                                  "--json"))
    counts = {phase["phase"]: phase["steps"] for phase in measured["phases"]}
    rows = []
    for phase, count in counts.items():
        seen = {}
        for row in measured["by_part"]:
            if row["phase"] == phase:
                seen[row["name"]] = seen.get(row["name"], 0) + row["seconds"] / count * 1e3
        predicted = phases[phase]["parts"] if phase in phases else {}
        for part in sorted(set(seen) | set(predicted), key=lambda part: -seen.get(part, 0)):
            rows.append({"phase": phase, "part": part, "predicted_ms": predicted[part] * 1e3 if part in predicted else None,
                         "measured_ms": seen.get(part)})
    return rows
