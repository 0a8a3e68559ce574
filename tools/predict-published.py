#!/usr/bin/env python3
"""Compares moec's predictions with published measurements.

    tools/predict-published.py --make 'python3 make_shape_model.py' [--moec build/bin/moec]

Models are only shapes: `COMMAND MODEL OUT.gguf --quant QUANT --sparse` has to write a
file with the tensors of MODEL and holes in place of weights. Rows marked * were used
to fit a figure of a class of cores or of memory (compiler/Machine/Targets/classes);
errors are also printed for the others alone. A format without an equivalent in moec
is replaced by the nearest in bits. A machine has the memory that its model needs, and
a GPU has the memory for all but experts: without one, row 23B would read 250 GB/s of
307."""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

# Name, model, quantisation, machine, options, used to fit, prompt and decode speed in tokens/s as
# published (None: not published), source.
EXPERTS = ["--cpu-moe"]
BIG = ["--cpu-moe", "--ubatch", "4096"]
# One layer's experts on the GPU, all others on the CPU.
LAYER_3 = ["-ot", r"blk\.3\.ffn_.*_exps=CUDA0,ffn_.*_exps=CPU"]
# llama.cpp copies experts to the GPU for prompts, in steps of 512 tokens by default.
LLAMA = ["--stream-experts", "auto"]
STREAMED = EXPERTS + LLAMA
ROWS = [
    ("1B", "deepseek-v3", "Q4_K_M", "4090d+xeon", EXPERTS, True, 54.2, 8.73,
     "KTransformers 0.2, DeepseekR1_V3_tutorial"),
    ("2B", "deepseek-v3", "Q4_K_M", "4090d+xeon-2s", EXPERTS, True, 82.9, 12.2,
     "KTransformers 0.2, DeepseekR1_V3_tutorial"),
    ("3A", "deepseek-v3", "Q2_K", "a6000+threadripper-7965wx", EXPERTS, False,
     110.8, 13.1, "ik_llama.cpp discussion 258, UD-Q2_K_XL"),
    ("5A", "deepseek-v3", "Q2_K", "5090+epyc-9355", BIG, True, 288, 20.0,
     "ik_llama.cpp discussion 258, IQ2_K"),
    ("6A", "deepseek-v3", "Q4_K_M", "5090+epyc-9355",
     [*LAYER_3, "--ubatch", "2048"], False, 158, 16.3,
     "ik_llama.cpp discussion 258, IQ4_K"),
    ("8A", "deepseek-v3", "Q4_K_M", "5090+epyc-9355",
     [*LAYER_3, "--ubatch", "4096"], True, 181, 17.9,
     "ik_llama.cpp discussion 258, Q4_K"),
    ("9A", "deepseek-v3", "Q4_K_M", "5090+epyc-9355",
     [*EXPERTS, "--ubatch", "2048"], False, 180, 16.5,
     "ik_llama.cpp discussion 258, R1 Q4_K"),
    ("11A", "qwen3-235b-a22b", "Q4_K_M", "2x3090+epyc-9654",
     ["-ot", ",".join(r"blk\.%d\.ffn_.*_exps=CPU" % l for l in range(20, 94))],
     False, 301, 18.0, "ik_llama.cpp pull request 405, UD-Q4_K_XL"),
    ("12A", "deepseek-v2-lite", "IQ4_XS", "4080+ryzen-7950x", EXPERTS, True,
     1172, 55.5, "ik_llama.cpp pull request 232, IQ4_NL"),
    ("15B", "glm-4.6", "IQ4_XS", "5090+ryzen-9950x:192GiB", STREAMED, False,
     619, 6.2, "llama.cpp, GLM-4.7 MXFP4, 2025-12"),
    ("16A", "gpt-oss-120b", "MXFP4", "5090+core-13900k",
     ["--n-cpu-moe", "22", "--ctx", "65536", *LLAMA], False, 1200, 35.0,
     "llama.cpp"),
    ("20B", "minimax-m2", "Q8_0", "5090+epyc-9355-2s", EXPERTS, False, 408,
     32.0, "KTransformers tutorial, FP8"),
    ("21B", "qwen3-next-80b-a3b", "Q8_0", "5090+epyc-9355-2s", EXPERTS, False,
     1746, 76.0, "KTransformers tutorial, FP8"),
    ("23B", "qwen3-235b-a22b", "Q4_K_M", "4090+xeon-8488c", EXPERTS, False,
     192, 18.7, "ik_llama.cpp issue 437, a Xeon 8480 ES beside 4090s"),
]


def forecast(arguments, folder, row):
    name, model, quant, machine, options = row[:5]
    path = os.path.join(folder, f"{model}-{quant}.gguf")
    if not os.path.exists(path):
        made = subprocess.run(shlex.split(arguments.make) +
                              [model, path, "--quant", quant, "--sparse"],
                              capture_output=True, text=True)
        if made.returncode:
            sys.exit(f"row {name}: {arguments.make}: {made.stderr}")
    run = subprocess.run([arguments.moec, "plan", path, "--targets", machine,
                          "--json"] + options, capture_output=True, text=True)
    rows = json.loads(run.stdout or "[]")
    if not rows or not rows[0]["fits"]:
        why = rows[0]["why"] if rows else run.stderr
        print(f"row {name}: {why.strip().splitlines()[0]}", file=sys.stderr)
        return None
    return rows[0]


def column(measured, predicted):
    if measured is None:
        return f"{'-':>9} {predicted:9.4g} {'':7}"
    error = 100 * (predicted / measured - 1)
    return f"{measured:9.4g} {predicted:9.4g} {error:+6.0f}%"


def summary(what, errors):
    if errors:
        sizes = [abs(error) for error in errors]
        print(f"{what}: median error {100 * statistics.median(sizes):.0f} %, "
              f"worst {100 * max(sizes):.0f} %, of {len(sizes)} rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", required=True)
    parser.add_argument("--moec", default="build/bin/moec")
    parser.add_argument("--folder", help="keeps the shapes there")
    arguments = parser.parse_args()
    decode, others, prefill = [], [], []
    print(f"{'row':5} {'model':30} {'machine':28} "
          f"{'prompt':>9} {'predicted':>9} {'':7} "
          f"{'decode':>9} {'predicted':>9} {'':7} memory in GB")
    with tempfile.TemporaryDirectory() as temporary:
        for row in ROWS:
            found = forecast(arguments, arguments.folder or temporary, row)
            if not found:
                continue
            name, model, quant, machine, _, fitted, prompt, token, source = row
            memory = " + ".join(f"{device['used_bytes'] / 1e9:.0f}"
                                for device in found["devices"])
            prefills = found["prefill_tokens_per_second"]
            decodes = found["decode_tokens_per_second"]
            print(f"{name + '*' * fitted:5} {model + ' ' + quant:30} "
                  f"{machine:28} {column(prompt, prefills)} "
                  f"{column(token, decodes)} {memory:12} {source}")
            decode.append(decodes / token - 1)
            if not fitted:
                others.append(decodes / token - 1)
            if prompt:
                prefill.append(prefills / prompt - 1)
    summary("decode", decode)
    summary("decode of rows that gave no figure", others)
    summary("prompts", prefill)


main()
