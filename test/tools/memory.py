#!/usr/bin/env python3
"""Runs commands with too little memory: they must end with a one-line error, never by a signal.

  memory.py --bin FOLDER --model MODEL.gguf --work DIR

The address space is limited in steps, from too little to load the program to plenty, so
that memory runs out in many places: in our code, in libraries, and when threads start.
"""
import argparse
import os
import resource
import shutil
import subprocess
import sys

MIB = 1 << 20


def limited(command, mib):
    return subprocess.run(command, capture_output=True, timeout=300, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_AS, (mib * MIB, mib * MIB)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bin", "--model", "--work"):
        p.add_argument(name, required=True)
    a = p.parse_args()
    moec, moert = (os.path.join(os.path.abspath(a.bin), tool) for tool in ("moec", "moert"))
    shutil.rmtree(a.work, ignore_errors=True)
    os.makedirs(a.work)
    plan, other = os.path.join(a.work, "p.fb"), os.path.join(a.work, "q.fb")
    subprocess.run([moec, "compile", a.model, "--ctx", "64", "-o", plan], check=True, capture_output=True)
    outcomes = {}
    problems = 0
    for command, least, most in (
            ((moec, "compile", a.model, "--target", "xeon", "-o", other), 240, 480),
            ((moec, "inspect", plan), 240, 400), ((moec, "explain", plan), 240, 360),
            ((moert, "run", plan, "-p", "the", "-n", "2", "-t", "2"), 8, 200),
            ((moert, "tokenize", plan, "--text", "the"), 8, 80)):
        for mib in range(least, most, max(4, (most - least) // 24)):
            # Libraries that do not fit, or cannot initialise themselves, end the process before main().
            if limited((command[0], "--version"), mib).returncode != 0:
                continue
            done = limited(command, mib)
            code, text = done.returncode, done.stderr.decode()
            outcomes[code] = outcomes.get(code, 0) + 1
            if code not in (0, 4, 5) or code != 0 and text.count("\n") > 5:
                problems += 1
                print(" ".join(command), f"{mib} MiB", f"exit code {code}", text[-500:], sep="\n    ")
            left = [name for name in os.listdir(a.work) if ".tmp" in name]
            if left:
                problems += 1
                print(" ".join(command), f"{mib} MiB left {left}")
    print(f"exit codes: {outcomes}, {problems} problems")
    # Some runs must have run out of memory, and some must have had enough.
    return problems != 0 or not (4 in outcomes or 5 in outcomes) or 0 not in outcomes


if __name__ == "__main__":
    sys.exit(main())
