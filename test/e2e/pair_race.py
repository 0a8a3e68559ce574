"""Runs a plan repeatedly while it is recompiled with alternating options.

No run may fail, and each must compute the logits of one of the two plans.
"""
import argparse
import os
import shutil
import subprocess
import sys
import threading

IDS = "3,10,17,24"


def main():
    parser = argparse.ArgumentParser()
    for name in ("moec", "moert", "model", "work", "first", "second"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--compilers", type=int, default=1)
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    plan = os.path.join(options.work, "plan.fb")

    def compile_with(arguments):
        run = subprocess.run([options.moec, "compile", options.model, "-o", plan] + arguments.split(),
                             capture_output=True, text=True, timeout=120)
        return "" if run.returncode == 0 else f"compile returned {run.returncode}: {run.stderr}"

    def logits(name):
        npy = os.path.join(options.work, name)
        run = subprocess.run([options.moert, "logits", plan, "--tokens", IDS, "--threads", "1",
                              "--out", npy], capture_output=True, text=True, timeout=120)
        if run.returncode != 0:
            return f"returned {run.returncode}: {run.stderr}"
        with open(npy, "rb") as file:
            return file.read()

    failures, references, weights = [], [], []
    for arguments in (options.first, options.second):
        failures += filter(None, [compile_with(arguments)])
        references.append(logits("reference.npy"))
        with open(os.path.join(options.work, "plan.weights"), "rb") as file:
            weights.append(file.read())
    if failures or references[0] == references[1] or not all(isinstance(r, bytes) for r in references):
        sys.exit(f"the references must run and differ: {failures} {references}"[:2000])
    # If the weights were the same, any plan would run with either.
    if weights[0] == weights[1]:
        sys.exit("the references must have different weights")

    done = threading.Event()
    compilations = [0] * options.compilers

    def recompile(index):
        while not done.is_set():
            arguments = (options.first, options.second)[(index + compilations[index]) % 2]
            failures.extend(filter(None, [compile_with(arguments)]))
            compilations[index] += 1

    compilers = [threading.Thread(target=recompile, args=(i,)) for i in range(options.compilers)]
    for thread in compilers:
        thread.start()
    seen = [0, 0]
    for run in range(options.runs):
        result = logits("run.npy")
        if result in references:
            seen[references.index(result)] += 1
        else:
            failures.append(f"run {run}: " + (result if isinstance(result, str) else "other logits"))
    done.set()
    for thread in compilers:
        thread.join()
    left = sorted(set(os.listdir(options.work)) - {"plan.fb", "plan.weights", "run.npy", "reference.npy"})
    if left:
        failures.append(f"left {left}")
    for failure in failures[:20]:
        print(failure)
    print(f"{options.runs} runs beside {sum(compilations)} compilations: {seen[0]} of the first plan, "
          f"{seen[1]} of the second, {len(failures)} failures")
    sys.exit(1 if failures else 0)


main()
