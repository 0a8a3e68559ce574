#!/usr/bin/env python3
"""Compares moec's predictions with published measurements.

    tools/predict-published.py --make 'python3 make_shape_model.py' [--moec build/bin/moec]
                               [--rows MORE.json] [--folder SHAPES] [--json]

Models are only shapes: `COMMAND MODEL OUT.gguf --quant QUANT --sparse [OPTIONS]` has to
write a file with the tensors of MODEL and holes in place of weights. Where a published
file has other formats than such a file, a row's "types" change them; a format that moec
lacks is replaced by the nearest in bits. A machine has the memory that its model needs,
and a GPU has the memory for all but experts.

A published run is that of another engine. ENGINES say in what it differs from moert's
plans for the same machine; the prediction in a row is corrected by that and by nothing
else. Figures of the machine descriptions, or of ENGINES, that come from a row are listed
in CONSTANTS, and such rows are marked *. Beside its error stands the one that it would
have had if the figure had been taken from the other rows alone ("left out"): the figure
that makes the mean error of those 0, or its `other` value where there are none.

--rows reads more rows from a file, an array of objects with the fields of Row, so that
runs that are not listed here are predicted by the same rules.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import re
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile


@dataclasses.dataclass
class Row:
    name: str
    model: str  # Name of the shape; further words are options of the command that makes it.
    quant: str
    machine: str
    engine: str
    prompt: float | None = None  # Published tokens per second.
    decode: float | None = None
    source: str = ""
    options: list = dataclasses.field(default_factory=list)
    # [REGEX, FORMAT] pairs: the first that matches the name of a tensor of two or more
    # dimensions gives its format.
    types: list = dataclasses.field(default_factory=list)
    ubatch: int = 512
    tokens: int = 0  # Tokens of the prompt; 0: at least a step.
    depth: int = 0  # Cached positions in decode; 0: moec's default of 2,048.
    uploads: bool | None = None  # Whether weights are uploaded; None: the engine decides.


@dataclasses.dataclass
class Engine:
    """What an engine does otherwise than moert."""
    why: str
    nodes: bool = False  # Whether each socket reads weights from its own memory.
    amx: bool = True
    decode: float = 1  # Factor on the CPU's time for a token.
    prompt: float = 1  # Factor on the CPU's time for a prompt.
    # From so many tokens a step for each time that experts outnumber those used, experts
    # are copied to a GPU; the copies are of pageable memory and nothing overlaps them.
    # 0: never.
    upload_from: float = 0
    # The user decides by options what is uploaded, so the faster way is assumed.
    user_decides: bool = False
    streams: bool = False  # Whether experts are copied for every prompt, from pinned memory while the GPU works (an option of moert).


# Copies from pageable memory, bytes/s: 9.6 GB/s were measured to a 5090 in pieces of 0.8 MB
# (imp pull request 1409); published prompts imply 8 to 16, and rows 28A up to 21.
PAGEABLE = 16e9
# Products of a cycle with AMX for one with VNNI.
AMX_PRODUCTS = 16
NO_AMX_EFFICIENCY = 0.55  # Value of class golden-cove.

ENGINES = {
    "ik": Engine(
        "ik_llama.cpp: no use of memory nodes, no AMX; uploads from 32 tokens for each expert that a token uses (pull "
        "request 520), which -op, -rtr and formats of interleaved rows change", amx=False, upload_from=32, user_decides=True),
    "llama.cpp": Engine("llama.cpp: no use of memory nodes; uploads from 32 tokens on whatever the model", upload_from=0.001),
    "kt-0.2": Engine("KTransformers 0.2: kernels of llamafile on the CPU, no AMX", nodes=True, amx=False, decode=1.2, prompt=2.3),
    "kt": Engine("KTransformers since 2025-10: prompts layer by layer on the GPU", nodes=True, decode=1.2, streams=True),
}

CPU_MOE = ["--cpu-moe"]
# One layer's experts on the GPU, all others on the CPU.
LAYER_3 = ["-ot", r"blk\.3\.ffn_.*_exps=CUDA0,ffn_.*_exps=CPU"]


def experts_on_cpu(first, layers):
    return ["-ot", ",".join(rf"blk\.{layer}\.ffn_.*_exps=CPU" for layer in range(first, layers))]


def experts(gate, down, rest=None):
    """Formats of gate and up, of down, and of all other matrices."""
    return [["ffn_(gate|up)_exps", gate], ["ffn_down_exps", down]] + ([["", rest]] if rest else [])


DISCUSSION = "ik_llama.cpp discussion 258"
UD_Q2_K_XL = experts("Q2_K", "Q2_K")
IQ2_K = experts("Q2_K", "Q3_K", "Q8_0")
IQ4_K = experts("Q4_K", "Q5_K", "Q8_0")
IQ3_K = experts("Q3_K", "Q4_K", "Q6_K")
UD_Q4_K_XL = experts("Q4_K", "Q4_K")
ON_2_9115 = "3090+2xepyc-9115:768GiB"
ROWS = [
    Row("1B", "deepseek-v3", "Q4_K_M", "4090d+xeon", "kt-0.2", 54.2, 8.73, "KTransformers 0.2, DeepseekR1_V3_tutorial", CPU_MOE),
    Row("2B", "deepseek-v3", "Q4_K_M", "4090d+xeon-2s", "kt-0.2", 82.9, 12.2, "the same tutorial", CPU_MOE),
    Row("3A", "deepseek-v3", "Q4_K_M", "a6000+threadripper-7965wx", "ik", 110.8, 13.1, f"{DISCUSSION}, R1 UD-Q2_K_XL, repacked",
        CPU_MOE, UD_Q2_K_XL, uploads=False),
    Row("5A", "deepseek-v3", "Q2_K", "5090+epyc-9355", "ik", 288, 20.0, f"{DISCUSSION}, IQ2_K", CPU_MOE, IQ2_K, 4096),
    Row("6A", "deepseek-v3", "Q4_K_M", "5090+epyc-9355", "ik", 158, 16.3, f"{DISCUSSION}, IQ4_K", LAYER_3, IQ4_K, 2048),
    Row("8A", "deepseek-v3", "Q4_K_M", "5090+epyc-9355", "ik", 181, 17.9, f"{DISCUSSION}, Q4_K", LAYER_3, ubatch=4096),
    Row("9A", "deepseek-v3", "Q4_K_M", "5090+epyc-9355", "ik", 180, 16.5, f"{DISCUSSION}, R1 Q4_K", CPU_MOE,
        experts("Q4_K", "Q6_K"), 2048),
    Row("11A", "qwen3-235b-a22b", "Q4_K_M", "2x3090+epyc-9654", "ik", 301, 18.0, "ik_llama.cpp pull request 405, UD-Q4_K_XL",
        experts_on_cpu(20, 94), UD_Q4_K_XL, 2048, uploads=True),
    Row("12A", "deepseek-v2-lite", "IQ4_XS", "4080+ryzen-7950x", "ik", 1172, 55.5, "ik_llama.cpp pull request 232, IQ4_NL", CPU_MOE,
        uploads=False),
    Row("13A", "deepseek-v3 --layers 68", "Q3_K_M", "rtx-pro-6000+epyc-9175f", "ik", None, 18.8,
        "GLM-5.1 IQ3_KS; V3 with as many routed weights", CPU_MOE, experts("Q3_K", "Q3_K", "Q6_K")),
    Row("15B", "glm-4.6", "IQ4_XS", "5090+ryzen-9950x:192GiB", "llama.cpp", 619, 6.2, "GLM-4.7 MXFP4, 2025-12; step not stated",
        CPU_MOE, ubatch=4096),
    Row("16A", "gpt-oss-120b", "MXFP4", "5090+core-13900k", "llama.cpp", 1200, 35.0, "at 50k; step not stated",
        ["--n-cpu-moe", "22"], ubatch=4096, depth=50000),
    Row("20B", "minimax-m2", "Q8_0", "5090+epyc-9355-2s", "kt", 408, 32.0, "KTransformers tutorial, M2.1 FP8, prompt of 2k", CPU_MOE,
        ubatch=2048),
    Row("21B", "qwen3-next-80b-a3b", "Q8_0", "5090+epyc-9355-2s", "kt", 1746, 76.0, "KTransformers tutorial, FP8, prompt of 2k",
        CPU_MOE, ubatch=2048),
    Row("23B", "qwen3-235b-a22b", "Q4_K_M", "4090+xeon-8480", "ik", 192, 18.7, "ik_llama.cpp issue 437, UD-Q4_K_XL, 8480 ES", CPU_MOE,
        UD_Q4_K_XL),
    Row("24A", "deepseek-v3", "Q4_K_M", "5090+threadripper-7975wx", "ik", 140.5, 17.95, f"{DISCUSSION}, R1 UD-Q2_K_XL, repacked",
        CPU_MOE, UD_Q2_K_XL, uploads=False),
    Row("24A/16k", "deepseek-v3", "Q4_K_M", "5090+threadripper-7975wx", "ik", None, 14.90, "the same at 16k", CPU_MOE, UD_Q2_K_XL,
        depth=16384),
    Row("24A/cpu", "deepseek-v3", "Q4_K_M", "threadripper-7975wx", "ik", 76.5, 9.32, "the same without a GPU", types=UD_Q2_K_XL,
        uploads=False, depth=512),
    Row("25A", "deepseek-v3", "Q2_K", "5090+threadripper-7975wx", "ik", 118.2, 15.76, f"{DISCUSSION}, V3 IQ2_K_R4", CPU_MOE, IQ2_K,
        uploads=False),
    Row("26A", "qwen3-next-80b-a3b", "IQ4_XS", "rtx-pro-6000+epyc-9175f", "ik", 940, 58.94, "Coder-Next IQ4_NL; prompts 761 to 1120",
        CPU_MOE, ubatch=2048),
    Row("27A", "minimax-m2", "Q5_K_M", "rtx-pro-6000+epyc-9175f", "ik", 205, 35.8, "MiniMax-M2.5 IQ5_K", CPU_MOE,
        experts("Q5_K", "Q5_K", "Q6_K"), 2048, tokens=1264),
    Row("28A", "qwen3-235b-a22b", "Q3_K_M", ON_2_9115, "ik", 103, 19.0, "ik_llama.cpp issue 490, IQ3_K", experts_on_cpu(12, 94), IQ3_K,
        512, uploads=True),
    Row("28A/1024", "qwen3-235b-a22b", "Q3_K_M", ON_2_9115, "ik", 195.5, None, "the same", experts_on_cpu(12, 94), IQ3_K, 1024),
    Row("28A/2048", "qwen3-235b-a22b", "Q3_K_M", ON_2_9115, "ik", 321, None, "the same", experts_on_cpu(12, 94), IQ3_K, 2048),
    Row("29B", "deepseek-v3", "Q4_K_M", ON_2_9115, "ik", 77, 10.1, "ik_llama.cpp issue 490, V3 IQ4_K_R4", CPU_MOE, IQ4_K,
        uploads=False),
]


@dataclasses.dataclass
class Constant:
    """A figure that was taken from rows: a key of the description's CPU, or a field of ENGINES."""
    what: str
    key: str
    rows: tuple
    speed: str  # "decode" or "prompt"
    other: float | None = None  # Value without these rows.


CONSTANTS = [
    Constant("zen4: unpack", "unpack_efficiency", ("3A", "24A", "25A"), "decode"),
    Constant("zen5: unpack", "unpack_efficiency", ("5A", "27A"), "decode"),
    Constant("server-12ch: read", "read_efficiency", ("6A", "8A", "9A"), "decode"),
    Constant("server-8ch: read", "read_efficiency", ("23B",), "decode", 0.52),  # Same value as server-12ch.
    Constant("server-2s: read", "read_efficiency", ("2B",), "decode", 0.52),
    Constant("desktop: read", "read_efficiency", ("12A",), "decode", 0.6),  # Same value as server-ddr4.
    Constant("EPYC: link between sockets", "node_link_efficiency", ("28A", "29B"), "decode"),
    Constant("kt-0.2: decode", "decode", ("1B",), "decode", 1),
    Constant("zen4: int8", "int8_efficiency", ("3A", "12A", "24A", "25A"), "prompt"),
    Constant("zen5: int8", "int8_efficiency", ("6A", "8A", "9A", "27A"), "prompt"),
    Constant("kt-0.2: prompt", "prompt", ("1B", "2B"), "prompt"),
]

# Number, elements and bytes of a block.
FORMATS = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210),
    "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "BF16": (30, 1, 2), "MXFP4": (39, 32, 17)}
BLOCKS = {number: (elements, size) for number, elements, size in FORMATS.values()}
U32, STRING, ARRAY = 4, 8, 9
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Header:
    """The header of a GGUF file: keys as they are, and tensors."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read(1 << 26)
        self.at = 8
        tensors, keys = self.number("Q"), self.number("Q")
        self.keys = {}
        for _ in range(keys):
            name, kind = self.text().decode(), self.number("I")
            at = self.at
            self.skip(kind)
            if kind == U32:
                self.keys[name] = struct.unpack_from("<I", self.bytes, at)[0]
        self.prefix = self.bytes[:self.at]
        self.tensors = []
        for _ in range(tensors):
            name = self.text()
            shape = [self.number("Q") for _ in range(self.number("I"))]
            self.tensors.append((name, shape, self.number("I")))
            self.number("Q")

    def number(self, code):
        value = struct.unpack_from("<" + code, self.bytes, self.at)[0]
        self.at += struct.calcsize(code)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.bytes[self.at - size:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            if element in SCALARS:
                self.at += SCALARS[element] * count
            else:
                for _ in range(count):
                    self.skip(element)
        else:
            self.at += SCALARS[kind]

    def write(self, path, types):
        """Writes a file with holes for weights, in formats that `types` change."""
        header, offset = bytearray(self.prefix), 0
        for name, shape, kind in self.tensors:
            wanted = next((to for pattern, to in types if re.search(pattern, name.decode())), None)
            if wanted and kind != 0 and len(shape) > 1 and shape[0] % FORMATS[wanted][1] == 0:
                kind = FORMATS[wanted][0]
            header += struct.pack("<Q", len(name)) + name
            header += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
            elements, size = BLOCKS[kind]
            offset += -(-math.prod(shape) // elements * size // 32) * 32
        header += bytes(-len(header) % 32)
        with open(path, "wb") as file:
            file.write(header)
            file.truncate(len(header) + offset)

    def experts_per_used(self):
        def find(end):
            return next((value for name, value in self.keys.items() if name.endswith(end)), 1)
        return find(".expert_count") / find(".expert_used_count")


class Predictor:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder

    def moec(self, *words, file=None):
        run = subprocess.run([self.arguments.moec, *words], input=file, capture_output=True, text=True)
        return json.loads(run.stdout) if run.stdout else run.stderr

    def shape(self, row):
        name = re.sub(r"\W+", "-", f"{row.model}-{row.quant}")
        path = os.path.join(self.folder, name + ".gguf")
        if not os.path.exists(path):
            model, *options = row.model.split()
            made = subprocess.run(shlex.split(self.arguments.make) + [model, path, "--quant", row.quant, "--sparse", *options],
                                  capture_output=True, text=True)
            if made.returncode:
                sys.exit(f"row {row.name}: {self.arguments.make}: {made.stderr}")
        if row.types:
            other = os.path.join(self.folder, name + "-" + re.sub(r"\W+", "", "-".join(map("".join, row.types))) + ".gguf")
            if not os.path.exists(other):
                Header(path).write(other, row.types)
            path = other
        return path

    def target(self, row, engine, changes):
        target = self.moec("targets", row.machine, "--json")
        if isinstance(target, str):
            sys.exit(f"row {row.name}: {target}")
        for device in target.get("devices", [target]):
            if device["kind"] != "cpu":
                continue
            if device["isa"] == "amx" and not engine.amx:
                device["isa"] = "avx512"
                device["int8_tops"] /= AMX_PRODUCTS
                device["int8_efficiency"] = NO_AMX_EFFICIENCY
                device.pop("bf16_tflops", None)
                for key in [key for key in device if key.startswith("bf16_")]:
                    del device[key]
            for key, factor in {**changes, "read_efficiency": changes.get("read_efficiency", 1) / engine.decode,
                                "node_read_efficiency": changes.get("read_efficiency", 1) / engine.decode,
                                "unpack_efficiency": changes.get("unpack_efficiency", 1) / engine.decode}.items():
                if key in device:
                    device[key] = min(1, device[key] * factor)
            device["int8_efficiency"] /= engine.prompt
        return target

    def forecast(self, row, target, options):
        context = ["--ctx", str(2 * row.depth)] if row.depth else []
        rows = self.moec("plan", self.shape(row), "--target-file", "-", "--json", *context, *options, file=json.dumps(target))
        if isinstance(rows, str) or not rows[0]["fits"]:
            why = rows if isinstance(rows, str) else rows[0]["why"]
            print(f"row {row.name}: {why.strip().splitlines()[0]}", file=sys.stderr)
            return None
        return rows[0]

    def uploaded_rate(self, row, target, held, step):
        """Tokens/s of prompts whose experts are copied before the GPU multiplies them."""
        for device in target["devices"]:
            if device["kind"] == "cuda":
                device["memory_gib"] = 4096
        forecast = self.forecast(row, target, ["-ngl", "all", "--ubatch", str(step)])
        if not forecast:
            return 0
        return step / (held / PAGEABLE + step / forecast["prefill_tokens_per_second"])

    def predict(self, row, changes={}, speeds=("prompt", "decode")):
        """Returns the row's speeds, with factors for keys of the CPU or fields of its engine."""
        engine = dataclasses.replace(ENGINES[row.engine])
        changes = dict(changes)
        for field in ("decode", "prompt"):
            setattr(engine, field, getattr(engine, field) * changes.pop(field, 1))
        target = self.target(row, engine, changes)
        step = min(row.ubatch, row.tokens or row.ubatch)
        has_gpu = any(device["kind"] == "cuda" for device in target.get("devices", []))
        options = [*row.options, "--ubatch", str(step)]
        nodes = max(device["numa_nodes"] for device in target.get("devices", [target]) if device["kind"] == "cpu")
        if nodes > 1 and not engine.nodes:
            options += ["--numa", "interleaved"]
        if engine.streams and has_gpu:
            options += ["--stream-experts", str(step)]
        forecast = self.forecast(row, target, options)
        if not forecast:
            return None
        found = {"decode": forecast["decode_tokens_per_second"], "prompt": forecast["prefill_tokens_per_second"], "how": "",
                 "memory": [device["used_bytes"] for device in forecast["devices"]]}
        uploads = row.uploads
        if uploads is None and engine.upload_from:
            uploads = step >= engine.upload_from * Header(self.shape(row)).experts_per_used()
        if "prompt" in speeds and row.prompt and uploads and has_gpu:
            held = next(device["used_bytes"] for device in forecast["devices"] if device["name"].startswith("cpu"))
            rate = self.uploaded_rate(row, target, held, step)
            if row.uploads or not engine.user_decides or rate > found["prompt"]:
                found.update(prompt=rate, how="uploaded")
        return found


def published(row, speed):
    return row.prompt if speed == "prompt" else row.decode


def left_out(predictor, rows, found):
    """Returns the speeds of fitted rows without themselves: {(name, speed): tokens/s}."""
    step = 1.1
    by_name = {row.name: row for row in rows}
    jobs = {(constant.what, name): (by_name[name], constant)
            for constant in CONSTANTS for name in constant.rows if found.get(name)}

    def slope(job):
        row, constant = job
        # A share of a peak may not exceed 1.
        factor = step if constant.key in ("decode", "prompt") else 1 / step
        changed = predictor.predict(row, {constant.key: factor}, (constant.speed,))
        return math.log(changed[constant.speed] / found[row.name][constant.speed]) / math.log(factor)

    with concurrent.futures.ThreadPoolExecutor(predictor.arguments.jobs) as pool:
        slopes = dict(zip(jobs, pool.map(slope, jobs.values())))
    logs = {}
    for constant in CONSTANTS:
        names = [name for name in constant.rows if found.get(name)]
        for name in names:
            others = [other for other in names if other != name]
            if others:
                error = statistics.mean(math.log(found[other][constant.speed] / published(by_name[other], constant.speed))
                                        for other in others)
                slope_of_others = statistics.mean(slopes[constant.what, other] for other in others)
                shift = -error / slope_of_others if slope_of_others else 0
            else:
                row = by_name[name]
                target = predictor.target(row, dataclasses.replace(ENGINES[row.engine], decode=1, prompt=1), {})
                cpu = next(device for device in target.get("devices", [target]) if device["kind"] == "cpu")
                now = cpu[constant.key] if constant.key in cpu else getattr(ENGINES[row.engine], constant.key)
                shift = math.log(constant.other / now)
            key = name, constant.speed
            logs[key] = logs.get(key, 0) + slopes[constant.what, name] * shift
    return {(name, speed): found[name][speed] * math.exp(log) for (name, speed), log in logs.items()}


def errors_text(value, predicted, without):
    if value is None:
        return f"{'-':>8} {predicted:8.4g} {'':6} {'':6}"
    error = f"{100 * (predicted / value - 1):+5.0f}%"
    other = f"{100 * (without / value - 1):+5.0f}%" if without else ""
    return f"{value:8.4g} {predicted:8.4g} {error:6} {other:6}"


def summary(what, errors):
    if errors:
        sizes = [abs(error) for error in errors]
        print(f"{what}: median error {100 * statistics.median(sizes):.0f} %, worst {100 * max(sizes):.0f} %, of {len(sizes)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", required=True, help="the command that writes shapes")
    parser.add_argument("--moec", default="build/bin/moec")
    parser.add_argument("--folder", help="keeps the shapes there")
    parser.add_argument("--rows", help="a JSON file of more rows")
    parser.add_argument("--only", help="rows to predict, such as 1B,2B; without errors of rows left out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true", help="prints an object for each row instead")
    arguments = parser.parse_args()
    rows = list(ROWS)
    if arguments.rows:
        with open(arguments.rows) as file:
            rows += [Row(**row) for row in json.load(file)]
    if arguments.only:
        rows = [row for row in rows if row.name in arguments.only.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        predictor = Predictor(arguments, arguments.folder or temporary)
        for row in rows:
            predictor.shape(row)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            found = dict(zip([row.name for row in rows], pool.map(predictor.predict, rows)))
        without = {} if arguments.only else left_out(predictor, rows, found)
    if arguments.json:
        print(json.dumps([{**dataclasses.asdict(row), "predicted": found[row.name],
                           "left_out": {speed: without.get((row.name, speed)) for speed in ("prompt", "decode")}}
                          for row in rows], indent=1))
        return
    print(f"{'row':9} {'model':28} {'machine':27} {'engine':9} {'prompt':>8} {'forecast':>8} {'':6} {'without':6} "
          f"{'decode':>8} {'forecast':>8} {'':6} {'without':6} prompt by, memory in GB, source")
    errors = {kind: {"all": [], "left out": [], "others": []} for kind in ("decode", "prompt")}
    for row in rows:
        if not found[row.name]:
            continue
        speeds = found[row.name]
        fitted = any(row.name in constant.rows for constant in CONSTANTS)
        memory = " + ".join(f"{size / 1e9:.0f}" for size in speeds["memory"])
        print(f"{row.name + '*' * fitted:9} {row.model.split()[0] + ' ' + row.quant:28} {row.machine:27} {row.engine:9} "
              f"{errors_text(row.prompt, speeds['prompt'], without.get((row.name, 'prompt')))} "
              f"{errors_text(row.decode, speeds['decode'], without.get((row.name, 'decode')))} "
              f"{speeds['how']:8} {memory:10} {row.source}")
        for speed in ("decode", "prompt"):
            value = published(row, speed)
            if value:
                errors[speed]["all"].append(speeds[speed] / value - 1)
                errors[speed]["left out"].append(without.get((row.name, speed), speeds[speed]) / value - 1)
                if (row.name, speed) not in without:
                    errors[speed]["others"].append(speeds[speed] / value - 1)
    for speed, name in (("decode", "decode"), ("prompt", "prompts")):
        summary(name, errors[speed]["all"])
        if not arguments.only:
            summary(f"{name}, each row left out of what was fitted to it", errors[speed]["left out"])
            summary(f"{name} of rows that gave no figure", errors[speed]["others"])


main()
