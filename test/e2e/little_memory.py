#!/usr/bin/env python3
"""Runs a plan with less and less address space: it ends with an error about memory, never by a signal.

  little_memory.py --moert PATH PLAN.fb OUT.npy

Standard library only.
"""
import argparse
import resource
import subprocess

MIB = 1 << 20
DOES_NOT_FIT = 5


def run(words, mib):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, preexec_fn=limit)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moert", required=True)
    parser.add_argument("plan")
    parser.add_argument("out")
    arguments = parser.parse_args()
    words = [arguments.moert, "logits", arguments.plan, "--tokens", "3,17,10", "--threads", "1", "--out", arguments.out, "--force"]
    # The least with which the program itself starts, and the least with which the plan runs.
    start = next(mib for mib in range(16, 4096, 4) if run([arguments.moert, "--version"], mib).returncode == 0)
    refused = 0
    for mib in range(start + 8, 8192, 8):
        done = run(words, mib)
        if done.returncode == 0:
            print(f"{refused} refused, then it runs")
            return
        text = done.stdout + done.stderr
        assert done.returncode == DOES_NOT_FIT, f"{mib} MiB: exit code {done.returncode}\n{text}"
        assert "error: " in text, text
        refused += 1
    raise AssertionError("it runs with no limit")


if __name__ == "__main__":
    main()
