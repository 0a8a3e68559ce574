#!/usr/bin/env python3
"""Predicted against measured speed, decode and prefill, of several models.

    python3 test/bench/predictions.py model.gguf other.gguf --depth 0,2048

Each model is compiled for this machine (`--target native`: run `moec calibrate`
first, on a quiet machine) with a context whose typical step is at the depth,
and run by `moert bench` at that depth. Predictions are what `moec explain`
says: of a prompt's step of --ubatch tokens, and of a decoded token, logits
included. Ends with 1 if a ratio of predicted to measured speed is outside
1 / (1 + T) to 1 + T, T being --tolerance.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def numbers(text):
    return [int(number) for number in text.split(",")]


parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
parser.add_argument("--depth", type=numbers, default=[2048], metavar="N,...",
                    help="tokens in the cache before a decoded one (2048); prompts begin after half of them")
parser.add_argument("--gen", type=int, default=32, help="tokens decoded in a run (32)")
parser.add_argument("--ubatch", type=int, default=512, help="tokens of a prompt (512)")
parser.add_argument("--repetitions", type=int, default=5, help="runs; their median counts (5)")
parser.add_argument("--target", default="native", help="of moec compile (native)")
parser.add_argument("--target-file", help="instead of --target")
parser.add_argument("--tolerance", type=float, default=0.15, help="(0.15)")
parser.add_argument("--bin", default="build/bin", help="where moec and moert are (build/bin)")
parser.add_argument("--plans", help="folder for plans, which take as much as the models (a temporary one)")
parser.add_argument("--by-op", action="store_true",
                    help="the same by part of a layer, as moert profile measures it")
parser.add_argument("--best", action="store_true", help="compare with the fastest run rather than the median: on a busy machine")
parser.add_argument("--json", action="store_true", help="one document instead of a table")
arguments = parser.parse_args()
moec, moert = (os.path.join(arguments.bin, tool) for tool in ("moec", "moert"))


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(plan, *options):
    rows = json.loads(run(moert, "bench", plan, "--no-limits", "-o", "json", "-r", arguments.repetitions, *options))
    return (max if arguments.best else statistics.median)(rows[0]["samples_ts"])


def part_of(label):
    """"ffn_experts" of "blk.3.ffn_experts"."""
    return label.split(".", 2)[2] if label.startswith("blk.") else label


def by_op(plan, explained):
    """Predicted and measured milliseconds of a step, by part."""
    profile = json.loads(run(moert, "profile", plan, "-p", arguments.ubatch, "-n", arguments.gen, "--no-limits", "--json"))
    steps = {phase["phase"]: phase["steps"] for phase in profile["phases"]}
    for phase in explained["phases"]:
        name, parts = phase["name"], {}
        for op in phase["ops"]:
            parts.setdefault(part_of(op["op"]), [0, 0])[0] += op["seconds"]
        for row in profile["by_label"]:
            if row["phase"] == name and name in steps:
                parts.setdefault(part_of(row["name"]), [0, 0])[1] += row["seconds"] / steps[name]
        print(f"  {name}, ms: predicted, measured (in instructions, from an empty cache)")
        for part, (predicted, seen) in sorted(parts.items(), key=lambda item: -item[1][1]):
            print(f"    {part:32} {predicted * 1e3:10.3f} {seen * 1e3:10.3f}")


results = []
with tempfile.TemporaryDirectory(dir=arguments.plans) as folder:
    plan = os.path.join(folder, "plan.fb")
    target = (["--target-file", arguments.target_file] if arguments.target_file
              else ["--target", arguments.target])
    for model in arguments.models:
        for depth in arguments.depth:
            # The typical step decodes after half of the context, and prompts
            # after a quarter of it (compiler/CostModel/TypicalStep.h).
            context = max(2 * depth, 2 * arguments.ubatch, 2 * arguments.gen)
            run(moec, "compile", model, *target, "--ctx", context, "--ubatch", arguments.ubatch, "-o", plan)
            explained = json.loads(run(moec, "explain", plan, "--json"))
            decode_depth = max(context // 2 - arguments.gen // 2, 0)
            for name, options, predicted in (
                ("prefill", ["-p", arguments.ubatch, "-n", 0, "-d", context // 4],
                 explained["prefill_tokens_per_second"]),
                ("decode", ["-p", 0, "-n", arguments.gen, "-d", decode_depth],
                 explained["decode_tokens_per_second"])):
                speed = measured(plan, *options)
                results.append({"model": os.path.basename(model), "phase": name,
                                "depth": options[-1], "predicted": predicted,
                                "measured": speed, "ratio": predicted / speed})
                if not arguments.json:
                    row = results[-1]
                    print(f"{row['model']:36} {name:8} @ {row['depth']:6}: predicted {predicted:9.2f} t/s, "
                          f"measured {speed:9.2f} t/s, ratio {row['ratio']:.3f}", flush=True)
            if arguments.by_op:
                by_op(plan, explained)

if arguments.json:
    print(json.dumps(results, indent=2))
most = 1 + arguments.tolerance
outside = [row for row in results if not 1 / most <= row["ratio"] <= most]
sys.exit(1 if outside else 0)
