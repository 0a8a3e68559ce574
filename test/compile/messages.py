"""Every failing invocation that we know of: exit code, few lines, no IR.

Usage: messages.py FOLDER TEST_DATA MODELS; v3.gguf is in FOLDER.
"""
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tools

folder, data, models = sys.argv[1:]
kjv = os.path.join(models, "tiny-kjv/tiny-kjv-q4_k_m.gguf")
lite = os.path.join(data, "unit/deepseek2-lite.gguf")


def write(name, content):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path


def must(*command):
    result = tools.run(list(command), folder)
    assert result.code == 0, result


must("moec", "compile", lite, "--target", "native", "--ctx", "64", "-o", "lite.fb")
must("moec", "compile", kjv, "--target", "native", "--ctx", "64", "-o", "kjv.fb")
must("moec", "compile", lite, "--target", "4090+xeon", "--place", "*=gpu0", "-o", "gpu.fb")
must("moec", "compile", lite, "--target", "native", "-w", "pack", "-o", "alone.fb")
with open(os.path.join(folder, "lite.fb"), "rb") as file:
    plan = file.read()
with open(lite, "rb") as file:
    model = file.read()
write("cut.fb", plan[:len(plan) // 2])
write("cut.gguf", model[:3000])
write("half.gguf", model[:len(model) // 2])
write("no.txt", "In the beginning")
write("text.mlir", "plan.program {")
write("bad.json", '{"kind": "cpu",')
# v3.gguf has 352 GiB, so caches and steps decide whether it fits the first machine, and the weights
# alone exceed the second.
MACHINE = '{"kind": "cpu", "isa": "avx512", "cores": 8, "memory_gib": %d, "read_gbps": 200, "int8_tops": 4, "float_tflops": 0.2}'
write("tight.json", MACHINE % 356)
write("small.json", MACHINE % 64)
os.remove(os.path.join(folder, "alone.weights"))

long = "x" * 50000
write("long.rules", long + "=cpu0\n")

compile_v3 = ["moec", "compile", "v3.gguf", "-w", "reference", "-o", "x.fb"]
compile_kjv = ["moec", "compile", kjv, "-o", "x.fb"]
CASES = [
    # Usage errors.
    (2, ["moec", "compil", "x"]),
    (2, ["moec", "compile"]),
    (2, ["moec", "compile", "x", "--tarqet", "xeon"]),
    (2, ["moec", "compile", "x", "--ctx", "many"]),
    (2, ["moec", "compile", "x", "--mla", "folding"]),
    (2, ["moec", "compile", "x", "y"]),
    (2, compile_kjv + ["--target", "xeno"]),
    (2, compile_kjv + ["--target", ""]),
    (2, compile_kjv + ["--experts", "7"]),
    (2, compile_kjv + ["--ctx", "100000"]),
    (2, compile_kjv + ["--mla", "folded", "-w", "reference"]),
    (2, compile_v3 + ["--target", "xeon", "--mla", "folded"]),
    (2, compile_v3 + ["--target", "xeon", "--experts", "9"]),
    (2, ["moert", "perplexty", "lite.fb"]),
    (2, ["moert", "run", "lite.fb", "--treads", "2", "-p", "x"]),
    (2, ["moert", "run"]),
    (2, ["moert", "run", "kjv.fb"]),
    (2, ["moert", "run", "kjv.fb", "-p", "x", "--threads", "many"]),
    (2, ["moert", "run", "-", "-p", "x"]),
    (2, ["moert", "info", kjv]),
    (2, ["moert", "run", "kjv.fb", "-p", "x", "--kv-type", "f32"]),
    (2, ["moec", "explain", kjv]),
    (2, ["moec", "inspect", kjv]),
    (2, ["moert", "info", kjv]),
    (2, ["moert", "logits", "lite.fb", "--tokens", "3,,4", "--out", "x.npy"]),
    (2, ["moert", "logits", "lite.fb", "--tokens", "99999", "--out", "x.npy"]),
    (2, ["moert", "perplexity", "kjv.fb", "--file", "no.txt"]),
    (2, ["moert", "bench", "lite.fb", "-o", "yaml"]),
    # Long words are clipped.
    (2, ["moec", long]),
    (2, ["moert", "run", "--" + long]),
    (2, compile_kjv + [long]),
    (2, compile_kjv + ["--mla", long]),
    (2, compile_kjv + ["--mla=" + long]),
    (2, compile_kjv + ["--kv-type", "blk." + long + "=f16"]),
    (2, compile_kjv + ["--target", "4090+" + long]),
    (2, compile_kjv + ["--target", "4090:" + long]),
    (2, compile_kjv + ["--target", "native", "-ot", long]),
    (2, compile_kjv + ["--target", "native", "-ot", long[:4000] + "=CPU"]),
    (2, compile_kjv + ["--target", "native", "-ot", "exps=" + long]),
    (2, compile_kjv + ["--target", "native", "--place", long]),
    (2, compile_kjv + ["--target", "native", "--place", "*=" + long]),
    (2, compile_kjv + ["--target", "native", "--place", long + ":*=cpu0"]),
    (2, compile_kjv + ["--target", "native", "--place", "@long.rules"]),
    # Malformed files.
    (3, ["moec", "compile", "no.txt", "-o", "x.fb"]),
    (3, ["moec", "compile", "cut.gguf", "-o", "x.fb"]),
    (3, ["moec", "compile", "half.gguf", "-o", "x.fb"]),
    (3, compile_kjv + ["--target-file", "bad.json"]),
    (3, ["moec", "assemble", "text.mlir", "-o", "x.fb"]),
    (3, ["moec", "explain", "no.txt"]),
    (3, ["moert", "run", "cut.fb", "-p", "x"]),
    (3, ["moert", "info", "no.txt"]),
    # Errors of the system.
    (4, ["moec", "compile", "missing.gguf", "-o", "x.fb"]),
    (2, ["moec", "compile", ".", "-o", "x.fb"]),
    (4, ["moec", "compile", long, "-o", "x.fb"]),
    (4, compile_kjv + ["--rules", long]),
    (4, compile_kjv + ["--target-file", "missing.json"]),
    (4, ["moec", "compile", kjv, "-o", "missing/x.fb"]),
    (4, ["moec", "compile", kjv, "-o", "x.fb", "--dump-phases", "no.txt/ir"]),
    (4, ["moec", "inspect", "missing.fb"]),
    (4, ["moec", "assemble", "missing.mlir", "-o", "x.fb"]),
    (4, ["moert", "run", "missing.fb", "-p", "x"]),
    (4, ["moert", "run", "kjv.fb", "-f", "missing.txt"]),
    (4, ["moert", "logits", "alone.fb", "--tokens", "3", "--out", "x.npy"]),
    (4, ["moert", "logits", "lite.fb", "--model", "missing.gguf", "--tokens", "3", "--out", "x.npy"]),
    # The plan does not fit.
    (5, compile_v3 + ["--target-file", "tight.json", "--ctx", "163840"]),
    (5, compile_v3 + ["--target-file", "small.json"]),
    (5, ["moert", "logits", "lite.fb", "--tokens", ",".join(["3"] * 65), "--out", "x.npy"]),
    (5, ["moert", "perplexity", "kjv.fb", "--file", "no.txt", "--ctx", "100"]),
    (5, ["moert", "bench", "lite.fb", "-p", "512", "-r", "1", "--no-limits"]),
    # The plan is for another machine, model or version.
    (7, ["moert", "logits", "gpu.fb", "--tokens", "3", "--out", "x.npy"]),
    (7, ["moert", "logits", "lite.fb", "--model", kjv, "--tokens", "3", "--out", "x.npy"]),
]

# IR in any dialect, in generic or custom form.
IR = re.compile(r"%\w+ =|loc\(|see current operation|plan\.inst|\bmoe\.[a-z_]+|!moe\.|#moe\.|tensor<|func\.func|\^bb")

failures = []
for code, command in CASES:
    result = tools.run(command, folder)
    lines = result.err.rstrip("\n").split("\n")
    wrong = []
    if result.code != code:
        wrong.append(f"exit code {result.code} instead of {code}")
    if not lines[0].startswith("error: "):
        wrong.append("the first line is no error")
    if len(lines) > 5:
        wrong.append(f"{len(lines)} lines")
    if result.out:
        wrong.append("results on standard output")
    if long[:200] in result.err:
        wrong.append("a long text as a whole")
    if IR.search(result.err):
        wrong.append(f"IR: {IR.search(result.err).group()}")
    if wrong:
        failures.append(f"{', '.join(wrong)}:\n{str(result)[:3000]}")

print("\n\n".join(failures) or f"{len(CASES)} messages")
sys.exit(bool(failures))
