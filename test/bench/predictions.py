#!/usr/bin/env python3
"""Compares predicted with measured speed of prefill and decode, for several models.

    python3 test/bench/predictions.py model.gguf other.gguf --depth 2048 --ubatch 32,128,512 --sequences 1,4,8

Each model is compiled for this machine (`--target native`; run `moec calibrate`
first, on a quiet machine), once for each size of a step: prompts in steps of
--ubatch tokens, and decoding of --sequences at once. The context is chosen so that
the step which predictions describe (compiler/Machine/CostModel/TypicalStep.h) is
at --depth, and `moert bench` measures there. Predictions are those of `moec
explain`; those of decode and prefill include logits. Which experts tokens choose is
measured, too (`moert profile-router`), unless --uniform is given: in a model with
random weights, a step of some tens of tokens uses fewer experts than by chance.

Exits with 1 if a ratio of predicted to measured speed is outside 1 / (1 + T) to
1 + T, where T is --tolerance.
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
parser.add_argument("--ubatch", type=numbers, default=[32, 128, 512], metavar="N,...",
                    help="tokens of a prompt's step (32,128,512)")
parser.add_argument("--sequences", type=numbers, default=[1], metavar="N,...",
                    help="decoded at once (1); several of them each begin with a prompt of the depth")
parser.add_argument("--gen", type=int, default=32, help="tokens decoded in a run (32)")
parser.add_argument("--repetitions", type=int, default=5, help="runs; their median counts (5)")
parser.add_argument("--target", default="native", help="of moec compile (native)")
parser.add_argument("--target-file", help="instead of --target")
parser.add_argument("--tolerance", type=float, default=0.15, help="(0.15)")
parser.add_argument("--bin", default="build/bin", help="where moec and moert are (build/bin)")
parser.add_argument("--plans", help="folder for plans, which take as much as the models (a temporary one)")
parser.add_argument("--uniform", action="store_true", help="all experts are chosen alike")
parser.add_argument("--by-op", action="store_true",
                    help="the same by part of a layer, as moert profile measures it")
parser.add_argument("--best", action="store_true", help="compare with the fastest run rather than the median: on a busy machine")
parser.add_argument("--json", action="store_true", help="one document instead of a table")
arguments = parser.parse_args()
moec, moert = (os.path.join(arguments.bin, tool) for tool in ("moec", "moert"))
target = (["--target-file", arguments.target_file] if arguments.target_file
          else ["--target", arguments.target])
typical = max if arguments.best else statistics.median


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def bench(*options):
    return json.loads(run(moert, "bench", plan, "--no-limits", "-o", "json", "-r", arguments.repetitions, *options))[0]


def by_op(explained, ubatch, before):
    """Prints predicted and measured milliseconds of a step, by part."""
    profile = json.loads(run(moert, "profile", plan, "-p", ubatch, "-n", arguments.gen, "-d", before, "--no-limits",
                             "--json"))
    steps = {phase["phase"]: phase["steps"] for phase in profile["phases"]}
    for phase in explained["phases"]:
        name, parts = phase["name"], {}
        if name not in steps:
            continue
        for op in phase["ops"]:
            parts.setdefault(op["part"], [0, 0])[0] += op["seconds"]
        for row in profile["by_part"]:
            if row["phase"] == name:
                parts.setdefault(row["name"], [0, 0])[1] += row["seconds"] / steps[name]
        print(f"  {name}, ms: predicted, measured (in instructions)")
        for part, (predicted, seen) in sorted(parts.items(), key=lambda item: -item[1][1]):
            print(f"    {part:32} {predicted * 1e3:10.3f} {seen * 1e3:10.3f}")


results = []


def compare(model, phase, rows, depth, predicted, speed):
    results.append({"model": os.path.basename(model), "phase": phase, "rows": rows, "depth": depth,
                    "predicted": predicted, "measured": speed, "ratio": predicted / speed})
    if not arguments.json:
        print(f"{results[-1]['model']:32} {phase:8} {rows:5} {depth:6} {predicted:10.2f} {speed:10.2f} "
              f"{predicted / speed:7.3f}", flush=True)


def routed(model):
    """Returns options that tell the compiler which experts the tokens of bench choose."""
    if arguments.uniform:
        return []
    tokens = max(*arguments.ubatch, 512)
    run(moec, "compile", model, *target, "--ctx", tokens, "-o", plan)
    if not json.loads(run(moert, "info", plan, "--json"))["experts"]:
        return []
    routers = os.path.join(folder, "routers.json")
    run(moert, "profile-router", plan, "--random", tokens, "-o", routers)
    return ["--router-profile", routers]


def compiled(model, context, ubatch, sequences=1):
    """Returns the explanation of a plan for steps of that many tokens."""
    run(moec, "compile", model, *target, *routers, "--ctx", context, "--ubatch", ubatch, "--sequences", sequences, "-o",
        plan)
    return json.loads(run(moec, "explain", plan, "--json"))


def compare_prompts(model, ubatch, depth):
    explained = compiled(model, max(2 * depth, 4 * ubatch), ubatch)
    before = max(2 * depth, 4 * ubatch) // 4
    speed = typical(bench("-p", ubatch, "-n", 0, "-d", before)["samples_ts"])
    logits = sum(op["seconds"] for phase in explained["phases"] if phase["name"] == "logits" for op in phase["ops"])
    predicted = ubatch / (ubatch / explained["prefill_tokens_per_second"] + logits)
    compare(model, "prefill", ubatch, before, predicted, speed)
    return explained, before


def compare_decoding(model, sequences, depth):
    before = max(depth - arguments.gen // 2, 1)
    ubatch = max(arguments.ubatch)
    explained = compiled(model, max(2 * depth, 2 * arguments.gen), ubatch, sequences)
    if sequences == 1:
        predicted = explained["decode_tokens_per_second"]
        speed = typical(bench("-p", 0, "-n", arguments.gen, "-d", before)["samples_ts"])
    else:
        predicted = explained["batch_tokens_per_second"]
        samples = bench("-p", before, "-n", arguments.gen, "--parallel", sequences)["samples_t_tg"]
        speed = typical([sequences * arguments.gen / seconds for seconds in samples])
    compare(model, "decode", sequences, before, predicted, speed)


with tempfile.TemporaryDirectory(dir=arguments.plans) as folder:
    plan = os.path.join(folder, "plan.fb")
    if not arguments.json:
        print(f"{'model':32} {'phase':8} {'rows':>5} {'depth':>6} {'predicted':>10} {'measured':>10} {'ratio':>7}")
    for model in arguments.models:
        routers = routed(model)
        for depth in arguments.depth:
            for ubatch in arguments.ubatch:
                explained, before = compare_prompts(model, ubatch, depth)
                if arguments.by_op:
                    by_op(explained, ubatch, before)
            for sequences in arguments.sequences:
                compare_decoding(model, sequences, depth)

if arguments.json:
    print(json.dumps(results, indent=2))
most = 1 + arguments.tolerance
outside = [row for row in results if not 1 / most <= row["ratio"] <= most]
sys.exit(1 if outside else 0)
